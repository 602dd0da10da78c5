//! A daemon and programs that write files, with real files and a made-up device.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byway_tdm_board::{Counted, ENTRIES, EntryIndex, FileKey, Level, Standing, Why};
use byway_tdm_client::{Extent, Listed, OpenFile, Session, Wrote};
use byway_tdm_control::{Channel, Reply, Request};
use byway_tdm_daemon::{
    Assignment, BootId, Daemon, DaemonError, Kind, Options, Outcome, SLOTS, SlotNumber, TABLE_BYTES, Table,
    forget, recover,
};
use byway_tdm_home::Home;
use byway_tdm_log::{Absorber, CURSOR_WORDS, Cursor, Position, Ring, RingPlace};
use byway_tdm_region::{Memory, open};

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(30);

/// A folder on a file system that syncs, and a daemon's options in it.
struct Place {
    folder: tempfile::TempDir,
    options: Options,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let region = format!("emu:{}?size=32M", folder.path().join("region").display());
        let mut options = Options::new(&region, folder.path().join("socket"));
        options.opening.emulate_persistence = true;
        options.boards = folder.path().into();
        Self { folder, options }
    }

    fn file(&self, name: &str) -> (PathBuf, File) {
        let path = self.folder.path().join(name);
        (path.clone(), File::options().create(true).truncate(false).write(true).open(path).unwrap())
    }

    fn start(&self) -> Daemon {
        Daemon::start(self.options.clone()).unwrap()
    }

    /// A program's, once the daemon answers it: one that is given no processor for a second counts as standing still.
    fn session(&self) -> Session {
        let end = Instant::now() + LONG;
        loop {
            match Session::begin(&self.options.socket) {
                Ok(session) => return session,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        }
    }
}

fn list(session: &Session, file: &File) -> EntryIndex {
    let key = FileKey::of(file).unwrap().unwrap().key;
    session.board().find_or_make(key).unwrap().unwrap().index()
}

fn open_file<'s>(session: &'s Session, file: &'s File) -> OpenFile<'s> {
    let listed = Listed { entry: list(session, file), appends: false, writes_only: false };
    session.file(file.as_fd(), listed).unwrap()
}

fn write(opened: &OpenFile<'_>, file: &File, at: u64, data: &[u8]) {
    let real = || file.write_at(data, at).unwrap() as isize;
    assert_eq!(opened.write(real, |_| Wrote::At(at), || data), data.len() as isize);
}

#[expect(clippy::disallowed_methods, reason = "what a program does")]
fn sync(opened: &OpenFile<'_>, file: &File) {
    opened.sync(Extent::Data, || file.sync_data().map_err(|e| e.raw_os_error().unwrap())).unwrap();
}

/// Written and synced as often as it takes until syncs are spared.
fn absorbed(opened: &OpenFile<'_>, file: &File) {
    judged(opened, file, |standing| standing.level == Level::Absorb);
    // The first sync of an absorbed file is a real one.
    sync(opened, file);
}

/// Written, and synced as often as it takes until it is judged so. Where the disk is slow, its syncs are no burst, and those that it
/// takes no part in are.
fn judged(opened: &OpenFile<'_>, file: &File, is_so: impl Fn(Standing) -> bool) {
    for at in 0..4 {
        write(opened, file, at, b"x");
        sync(opened, file);
    }
    let end = Instant::now() + LONG;
    while !is_so(opened.entry().standing()) {
        assert!(Instant::now() < end, "{:?}", opened.entry().standing());
        opened.entry().counters().set(Counted::AskAgainNs, 0);
        opened.sync(Extent::Data, || Ok(())).unwrap();
    }
}

#[test]
fn a_file_that_is_synced_again_and_again_is_absorbed_and_its_syncs_are_spared() {
    let place = Place::new();
    let daemon = place.start();
    let session = place.session();
    let (path, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    let counters = opened.entry().counters();
    let before = counters.get(Counted::LowerSyncs);
    for at in 0..100 {
        write(&opened, &file, 10 * at, b"0123456789");
        sync(&opened, &file);
    }
    assert!(counters.get(Counted::SavedSyncs) >= 100);
    assert_eq!(counters.get(Counted::LowerSyncs), before);
    assert_eq!(std::fs::read(path).unwrap(), b"0123456789".repeat(100));
    let report = daemon.report();
    assert_eq!((report.users.len(), report.users[0].files[0].level.as_str()), (1, "ABSORB"));
}

/// What the daemon says to a request about an open file.
fn asked(place: &Place, request: Request, file: &File) -> Reply {
    let channel = Channel::connect(&place.options.socket, Duration::from_secs(20)).unwrap();
    channel.ask(request, &[file.as_fd()]).unwrap().0
}

#[test]
fn a_file_at_home_is_neither_brought_there_once_more_nor_absorbed() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    write(&opened, &file, 0, b"below");
    let index = opened.entry().index();
    assert_eq!(asked(&place, Request::House(index), &file), Reply::Done);
    let home = opened.entry().ring();
    assert_eq!(asked(&place, Request::House(index), &file), Reply::Done);
    assert!(matches!(asked(&place, Request::Absorb(index), &file), Reply::Refused(_)));
    assert_eq!((opened.entry().standing().level, opened.entry().ring()), (Level::Dax, home));
}

#[test]
fn a_daemon_that_ends_leaves_its_files_to_the_kernel_and_writers_go_on() {
    let place = Place::new();
    let daemon = place.start();
    let session = place.session();
    let (path, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    write(&opened, &file, 0, b"before");
    drop(daemon);
    assert_eq!(opened.entry().standing().level, Level::Pass);
    write(&opened, &file, 6, b" and after");
    sync(&opened, &file);
    assert_eq!(std::fs::read(path).unwrap(), b"before and after");
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn a_file_whose_writer_was_killed_past_its_lock_is_let_go_and_absorbed_anew() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    std::mem::forget(opened.entry().cursor().pass());
    write(&opened, &file, 0, b"more");
    sync(&opened, &file);
    assert!(opened.entry().cursor().is_suspended());
    while opened.entry().standing().level != Level::Pass {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(opened.entry().standing().why, Why::Busy);
    while opened.entry().standing().level != Level::Absorb {
        opened.entry().counters().set(Counted::AskAgainNs, 0);
        write(&opened, &file, 0, b"more");
        sync(&opened, &file);
    }
    sync(&opened, &file);
    assert!(!opened.entry().cursor().is_suspended());
}

#[test]
fn what_two_programs_write_is_covered_by_either_s_sync() {
    let place = Place::new();
    let _daemon = place.start();
    let (one, other) = (place.session(), place.session());
    let (_, file) = place.file("log");
    let (opened, too) = (open_file(&one, &file), open_file(&other, &file));
    absorbed(&opened, &file);
    let before = opened.entry().cursor().kept_bytes();
    write(&too, &file, 100, b"by the other");
    assert!(opened.entry().cursor().kept_bytes() > before);
    sync(&opened, &file);
    assert_eq!(
        too.entry().counters().get(Counted::SavedSyncs),
        opened.entry().counters().get(Counted::SavedSyncs)
    );
}

#[test]
fn a_file_that_something_unseen_may_write_is_taken_down_and_stays_there() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    opened.bar(Why::Mapped, || Ok(()));
    while opened.entry().standing().level != Level::Pass {
        std::thread::sleep(Duration::from_millis(5));
    }
    for at in 0..10 {
        write(&opened, &file, at, b"y");
        sync(&opened, &file);
    }
    let standing = opened.entry().standing();
    assert_eq!((standing.level, standing.why), (Level::Pass, Why::Mapped));
}

#[test]
fn a_file_is_settled_before_it_gets_another_name() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    assert!(session.settle(*opened.entry()));
    assert_eq!(opened.entry().standing().level, Level::Pass);
    assert_eq!(opened.entry().cursor().kept_bytes(), 0);
}

#[test]
fn volatile_memory_never_satisfies_a_sync() {
    let mut place = Place::new();
    place.options.opening.emulate_persistence = false;
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    judged(&opened, &file, |standing| standing.why == Why::VolatileMemory);
    assert_eq!(opened.entry().standing().level, Level::Pass);
    assert_eq!(opened.entry().counters().get(Counted::SavedSyncs), 0);
}

#[test]
fn many_files_are_absorbed_until_there_is_no_room_for_more_logs() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let files: Vec<(PathBuf, File)> = (0..12).map(|i| place.file(&format!("log-{i}"))).collect();
    let opened: Vec<OpenFile<'_>> = files.iter().map(|(_, file)| open_file(&session, file)).collect();
    for (opened, (_, file)) in opened.iter().zip(&files) {
        judged(opened, file, |standing| standing.level == Level::Absorb || standing.why == Why::NoRoom);
    }
    let levels = opened.iter().map(|opened| opened.entry().standing());
    let (absorbed, others): (Vec<_>, Vec<_>) = levels.partition(|standing| standing.level == Level::Absorb);
    assert_eq!(absorbed.len(), 8);
    assert!(others.iter().all(|standing| standing.why == Why::NoRoom), "{others:?}");
}

/// A region as a daemon of another boot left it: one file with three records, of which the file below has none.
fn left_by_another_boot(place: &Place, path: &Path) {
    left_by(place, path, [1; 16]);
}

fn left_by(place: &Place, path: &Path, boot: BootId) {
    left_with(place, path, None, |was| was.boot = boot);
}

/// The same, with what the log says of when it was, and with what the table says changed.
fn left_with(place: &Place, path: &Path, now_ms: Option<u64>, change: impl Fn(&mut Assignment)) {
    let region = open(&place.options.region, &place.options.opening).unwrap();
    let table_bytes = byway_tdm_daemon::TABLE_BYTES;
    let uid = rustix::process::geteuid().as_raw();
    let slice = region.slice(table_bytes..region.len_bytes(), uid).unwrap();
    let place = RingPlace { at: 0, len_bytes: 1 << 20, identity: 5 };
    let ring = Ring::new(slice.window(), place).unwrap();
    ring.format(Position(0)).unwrap();
    let words: [std::sync::atomic::AtomicU64; CURSOR_WORDS] = Default::default();
    let absorber = Absorber::new(ring, Cursor::new(&words));
    now_ms.into_iter().for_each(|now_ms| absorber.announce(now_ms));
    for (at, data) in [(0, "kept"), (4, " by"), (7, " records")] {
        absorber.wrote(at, data.len() as u64, &mut data.as_bytes());
    }
    let _ = absorber.sync();
    let key = FileKey::of(File::open(path).unwrap()).unwrap().unwrap().key;
    let path = path.to_owned();
    let mut was = Assignment { key, ring: place, uid, path, boot: [1; 16], kind: Kind::Ring };
    change(&mut was);
    Table::new(region.window()).put(SlotNumber(3), &was).unwrap();
}

/// Long before this boot, in seconds since 1970.
const OLD_S: u64 = 1_000_000_000;

fn make_old(path: &Path) {
    written_at(path, OLD_S);
}

fn written_at(path: &Path, seconds: u64) {
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
}

#[test]
fn after_another_boot_records_are_written_back_once() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    file.write_all(b"k").unwrap();
    make_old(&path);
    left_by_another_boot(&place, &path);
    let daemon = place.start();
    let [recovered] = daemon.recovered() else { panic!("{:?}", daemon.recovered()) };
    assert_eq!(recovered.outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
    assert_eq!(std::fs::read(&path).unwrap(), b"kept by records");
    drop(daemon);
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn a_file_that_was_written_since_the_boot_is_left_until_somebody_says_so() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_by_another_boot(&place, &path);
    file.write_all(b"newer").unwrap();
    for _ in 0..2 {
        let recovered = recover(&place.options, false).unwrap();
        assert_eq!(recovered[0].outcome, Outcome::WrittenSince);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    let recovered = recover(&place.options, true).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn a_file_that_was_written_in_another_boot_behind_that_of_its_log_is_left_until_somebody_says_so() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_with(&place, &path, Some(OLD_S * 1000), |_| {});
    file.write_all(b"newer").unwrap();
    written_at(&path, OLD_S + 3600);
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::WrittenSince);
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    written_at(&path, OLD_S + 1);
    let recovered = recover(&place.options, false).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn a_file_that_was_written_in_another_boot_behind_that_of_its_home_is_left_until_somebody_says_so() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_with(&place, &path, None, |was| was.kind = Kind::Home);
    let at_home = |now_ms| {
        let region = open(&place.options.region, &place.options.opening).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let slice = region.slice(TABLE_BYTES..region.len_bytes(), uid).unwrap();
        let home = Home::new(slice.window(), RingPlace { at: 0, len_bytes: 1 << 20, identity: 5 }).unwrap();
        home.announce(now_ms).unwrap();
        home.fill(0, b"at home").unwrap();
        home.begin(7).unwrap();
    };
    file.write_all(b"newer").unwrap();
    written_at(&path, OLD_S + 3600);
    at_home(OLD_S * 1000);
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::WrittenSince);
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    at_home((OLD_S + 3590) * 1000);
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Returned { data_bytes: 7 });
}

#[test]
fn a_log_says_until_when_its_file_may_be_written() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (path, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    write(&opened, &file, 0, b"x");
    let ring = Ring::new(session.memory(), opened.entry().ring()).unwrap();
    let until = std::time::Duration::from_millis(ring.written_until_ms().unwrap().unwrap());
    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert!(until > written.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap());
}

#[test]
fn a_file_whose_disk_has_another_number_in_the_next_boot_is_found() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    make_old(&path);
    left_with(&place, &path, None, |was| was.key.device += 1);
    let recovered = recover(&place.options, false).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn what_a_user_has_in_his_log_is_not_written_to_a_file_that_is_anothers_by_now() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let (path, _file) = place.file("log");
    left_by_another_boot(&place, &path);
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    make_old(&path);
    let recovered = recover(&place.options, true).unwrap();
    assert!(matches!(recovered[0].outcome, Outcome::Failed { .. }), "{recovered:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn a_file_that_is_no_socket_is_not_taken_away_for_one() {
    let place = Place::new();
    std::fs::write(&place.options.socket, b"somebody's").unwrap();
    assert!(Daemon::start(place.options.clone()).is_err());
    assert_eq!(std::fs::read(&place.options.socket).unwrap(), b"somebody's");
}

#[test]
fn a_file_that_got_another_name_in_its_folder_is_found_and_one_that_is_gone_is_said_to_be() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    make_old(&path);
    left_by_another_boot(&place, &path);
    let aside = place.folder.path().join("aside");
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(&path, aside.join("log")).unwrap();
    std::fs::write(&path, b"another file").unwrap();
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Missing);
    let renamed = place.folder.path().join("renamed");
    std::fs::rename(aside.join("log"), &renamed).unwrap();
    let recovered = recover(&place.options, false).unwrap();
    assert_eq!(
        (&recovered[0].path, &recovered[0].outcome),
        (&renamed, &Outcome::Replayed { records: 3, data_bytes: 15 })
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"another file");
}

#[test]
fn the_room_of_a_log_whose_file_is_gone_is_given_back_once_somebody_says_so() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    left_by_another_boot(&place, &path);
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        assert_eq!(recover(&place.options, true).unwrap()[0].outcome, Outcome::Missing);
    }
    assert_eq!(forget(&place.options, false).unwrap()[0].outcome, Outcome::Forgotten);
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn a_log_that_can_be_written_back_is_not_forgotten() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_by_another_boot(&place, &path);
    file.write_all(b"newer").unwrap();
    assert_eq!(forget(&place.options, false).unwrap()[0].outcome, Outcome::WrittenSince);
    make_old(&path);
    let recovered = forget(&place.options, false).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn a_file_of_this_boot_that_is_gone_is_on_the_disk_with_its_file_system_and_keeps_no_room() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    left_by(&place, &path, byway_sys::boot::boot_id().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Synced);
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn a_sync_below_that_a_file_s_next_log_has_overtaken_retires_nothing_of_that() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    (0..20).for_each(|at| write(&opened, &file, at * 100, &[1; 100]));
    opened.entry().cursor().suspend();
    let meanwhile = || {
        assert!(session.settle(*opened.entry()));
        opened.entry().counters().set(Counted::AskAgainNs, 0);
        absorbed(&opened, &file);
        write(&opened, &file, 0, b"in the next log");
        sync(&opened, &file);
        assert!(opened.entry().cursor().kept_bytes() > 0);
    };
    let below = || {
        std::thread::scope(|threads| threads.spawn(meanwhile).join().unwrap());
        Ok(())
    };
    opened.sync(Extent::Data, below).unwrap();
    assert!(opened.entry().cursor().kept_bytes() > 0);
}

#[test]
fn a_file_that_is_taken_down_twice_at_once_gives_its_log_back_once() {
    let place = Place::new();
    let daemon = place.start();
    let session = place.session();
    let files: Vec<(PathBuf, File)> = (0..2).map(|i| place.file(&format!("log-{i}"))).collect();
    let [one, other] = [0, 1].map(|i: usize| open_file(&session, &files[i].1));
    let again = |opened: &OpenFile<'_>, i: usize| {
        while opened.entry().standing().level != Level::Absorb {
            opened.entry().counters().set(Counted::AskAgainNs, 0);
            sync(opened, &files[i].1);
        }
    };
    for _ in 0..300 {
        again(&one, 0);
        assert!(session.settle(*other.entry()));
        std::thread::scope(|threads| {
            (0..6).for_each(|_| drop(threads.spawn(|| session.settle(*one.entry()))));
            threads.spawn(|| again(&other, 1));
        });
        assert_eq!(
            (one.entry().standing().level, other.entry().standing().level),
            (Level::Pass, Level::Absorb)
        );
        assert_eq!(daemon.report().users[0].rings_taken, 1);
    }
}

/// Has so many files have been open once.
fn once_open(session: &Session, inodes: std::ops::Range<u64>) {
    for inode in inodes {
        let key = FileKey { device: 1 << 40, inode: inode << 40, born_ns: inode };
        session.board().find_or_make(key).unwrap();
    }
}

#[test]
fn a_daemon_that_has_seen_many_more_files_than_its_board_holds_serves_the_next_one() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, open) = place.file("open");
    let opened = open_file(&session, &open);
    let (_, absorbed_file) = place.file("absorbed");
    let served = open_file(&session, &absorbed_file);
    absorbed(&served, &absorbed_file);
    for round in 0..4 {
        once_open(&session, round * 3000 + 1..round * 3000 + 3000);
        // Whoever gives them back looks at all that every process has open, which takes long on a busy machine.
        let end = Instant::now() + 10 * LONG;
        while session.board().entries().count() > ENTRIES / 4 {
            assert!(Instant::now() < end, "entries of files that nobody has open are kept");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let indices = [opened, served].map(|file| file.entry().index());
    assert!(
        indices.iter().all(|index| session.board().entry(*index).is_some()),
        "an open file lost its entry"
    );
    let (_, next) = place.file("next");
    absorbed(&open_file(&session, &next), &next);
}

#[test]
fn no_store_into_a_log_waits_for_flash_where_the_device_has_a_cache() {
    let mut place = Place::new();
    place.options.region += "&profile=cmm-h&cache=8M&clock=virtual";
    let daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    let room_bytes = daemon.report().users[0].ring_bytes;
    for at in 0..3 * room_bytes / 4096 {
        write(&opened, &file, at * 4096, &[at as u8; 4096]);
        sync(&opened, &file);
    }
    assert!(opened.entry().counters().get(Counted::SavedSyncs) > 100);
    let cache = daemon.report().region.cache.unwrap();
    assert_eq!((cache.waits, cache.hits > 1000), (0, true), "{cache:?}");
}

#[test]
fn a_second_daemon_is_refused() {
    let place = Place::new();
    let _daemon = place.start();
    let second = Daemon::start(place.options.clone()).unwrap_err();
    assert!(!second.to_string().is_empty());
}

#[test]
fn a_daemon_whose_socket_lost_its_name_ends_all_the_same() {
    let place = Place::new();
    let daemon = place.start();
    std::fs::remove_file(&place.options.socket).unwrap();
    assert_eq!(daemon.end(), []);
}

#[test]
fn a_region_of_which_a_log_s_owner_cannot_be_read_is_not_served_until_somebody_gives_that_up() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    make_old(&path);
    left_by_another_boot(&place, &path);
    let damaged = TABLE_BYTES / u64::from(SLOTS) * 3 + 20;
    {
        let region = open(&place.options.region, &place.options.opening).unwrap();
        region.window().write(damaged, &[0xff]).unwrap();
    }
    let refused = Daemon::start(place.options.clone()).unwrap_err();
    assert!(matches!(&refused, DaemonError::Damaged(slots) if *slots == [3]), "{refused}");
    let outcomes = |is_forced: bool| -> Vec<Outcome> {
        let recovered = recover(&place.options, is_forced).unwrap();
        recovered.into_iter().map(|file| file.outcome).collect()
    };
    assert_eq!(outcomes(false), [Outcome::DamagedSlot { slot: 3, is_freed: false }]);
    assert_eq!(outcomes(true), [Outcome::DamagedSlot { slot: 3, is_freed: true }]);
    assert_eq!(outcomes(false), []);
    drop(place.start());
}
