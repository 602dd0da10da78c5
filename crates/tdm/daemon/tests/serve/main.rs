//! A daemon and programs that write files, with real files and a made-up device.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byway_tdm_daemon::{
    Assignment, BootId, Daemon, DaemonError, Kind, Options, Outcome, SLOTS, SlotNumber, TABLE_BYTES, Table,
    forget, recover,
};
use byway_tdm_engine::client::{Extent, Listed, OpenFile, Session, Wrote};
use byway_tdm_engine::control::{Channel, Reply, Request};
use byway_tdm_engine::log::{Absorber, CURSOR_WORDS, Cursor, Position, Ring, RingPlace};
use byway_tdm_engine::resident::Home;
use byway_tdm_engine::table::{Counted, ENTRIES, EntryIndex, FileKey, Level, Standing, Why};
use byway_tdm_region::{Memory, open};

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(30);

mod recovering;

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
    let end = Instant::now() + LONG;
    while opened.entry().standing().level != Level::Pass {
        assert!(Instant::now() < end, "it is not let go");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(opened.entry().standing().why, Why::Busy);
    absorbed(&opened, &file);
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
fn a_file_that_is_no_socket_is_not_taken_away_for_one() {
    let place = Place::new();
    std::fs::write(&place.options.socket, b"somebody's").unwrap();
    assert!(Daemon::start(place.options.clone()).is_err());
    assert_eq!(std::fs::read(&place.options.socket).unwrap(), b"somebody's");
}
