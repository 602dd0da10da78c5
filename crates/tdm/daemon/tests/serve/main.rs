//! A daemon and programs that write files, with real files and emulated device memory.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byway_tdm_daemon::{
    Assignment, BootId, Daemon, DaemonError, Kind, Options, Outcome, SLOTS, SlotNumber, TABLE_BYTES, Table,
    forget, recover, remove,
};
use byway_tdm_engine::client::{Extent, Listed, OpenFile, Session, Wrote};
use byway_tdm_engine::control::{Channel, Reply, Request};
use byway_tdm_engine::log::{Absorber, CURSOR_WORDS, Cursor, Position, Ring, RingPlace};
use byway_tdm_engine::resident::ResidentFile;
use byway_tdm_engine::table::{Counted, ENTRIES, EntryIndex, FileKey, Level, LevelState, Reason};
use byway_tdm_region::{Memory, open};

/// Limit of waits that should end sooner.
const LONG: Duration = Duration::from_secs(30);

mod recovering;

/// A folder on a file system with real syncs, and a daemon's options in it.
struct Place {
    folder: tempfile::TempDir,
    options: Options,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let region = format!("emu:{}?size=32M", folder.path().join("region").display());
        let mut options = Options::new(&region, folder.path().join("socket")).file_tables(folder.path());
        options.opening.emulate_persistence = true;
        Self { folder, options }
    }

    fn file(&self, name: &str) -> (PathBuf, File) {
        let path = self.folder.path().join(name);
        (path.clone(), File::options().create(true).truncate(false).write(true).open(path).unwrap())
    }

    fn start(&self) -> Daemon {
        Daemon::start(self.options.clone()).unwrap()
    }

    /// A program's session. Retried: a daemon without processor time for a second counts as stopped.
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
    session.file_table().find_or_make(key).unwrap().unwrap().index()
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

/// Writes and syncs until syncs are saved.
fn absorbed(opened: &OpenFile<'_>, file: &File) {
    judged(opened, file, |level_state| level_state.level == Level::Absorb);
    // The first sync of an absorbed file is a real one.
    sync(opened, file);
}

/// Writes and syncs until the file's level state is as wanted. On a slow disk the file's syncs are no burst.
fn judged(opened: &OpenFile<'_>, file: &File, is_so: impl Fn(LevelState) -> bool) {
    for at in 0..4 {
        write(opened, file, at, b"x");
        sync(opened, file);
    }
    let end = Instant::now() + LONG;
    while !is_so(opened.entry().level_state()) {
        assert!(Instant::now() < end, "{:?}", opened.entry().level_state());
        opened.entry().counters().set(Counted::AskAgainNs, 0);
        opened.sync(Extent::Data, || Ok(())).unwrap();
    }
}

#[test]
fn repeatedly_synced_file_is_absorbed_and_saves_syncs() {
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

/// The daemon's reply to a request about an open file.
fn asked(place: &Place, request: Request, file: &File) -> Reply {
    let channel = Channel::connect(&place.options.socket, Duration::from_secs(20)).unwrap();
    channel.ask(request, &[file.as_fd()]).unwrap().0
}

#[test]
fn dax_file_is_neither_promoted_again_nor_absorbed() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    write(&opened, &file, 0, b"below");
    let index = opened.entry().index();
    assert_eq!(asked(&place, Request::Promote(index), &file), Reply::Done);
    let resident = opened.entry().ring();
    assert_eq!(asked(&place, Request::Promote(index), &file), Reply::Done);
    assert!(matches!(asked(&place, Request::Absorb(index), &file), Reply::Refused(_)));
    assert_eq!((opened.entry().level(), opened.entry().ring()), (Level::Dax, resident));
}

#[test]
fn ending_daemon_demotes_files_and_writers_continue() {
    let place = Place::new();
    let daemon = place.start();
    let session = place.session();
    let (path, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    write(&opened, &file, 0, b"before");
    drop(daemon);
    assert_eq!(opened.entry().level(), Level::Pass);
    write(&opened, &file, 6, b" and after");
    sync(&opened, &file);
    assert_eq!(std::fs::read(path).unwrap(), b"before and after");
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn file_of_a_writer_killed_in_a_bypass_gets_a_new_log() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    std::mem::forget(opened.entry().cursor().bypass());
    write(&opened, &file, 0, b"more");
    sync(&opened, &file);
    assert!(opened.entry().cursor().is_suspended());
    let end = Instant::now() + LONG;
    while opened.entry().level() != Level::Pass {
        assert!(Instant::now() < end, "it is not released");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(opened.entry().level_state().why, Reason::Busy);
    absorbed(&opened, &file);
    assert!(!opened.entry().cursor().is_suspended());
}

#[test]
fn sync_of_one_program_covers_anothers_writes() {
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
fn barred_file_is_demoted_and_stays() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    opened.bar(Reason::Mapped, || Ok(()));
    while opened.entry().level() != Level::Pass {
        std::thread::sleep(Duration::from_millis(5));
    }
    for at in 0..10 {
        write(&opened, &file, at, b"y");
        sync(&opened, &file);
    }
    let level_state = opened.entry().level_state();
    assert_eq!((level_state.level, level_state.why), (Level::Pass, Reason::Mapped));
}

#[test]
fn renamed_file_is_demoted_first() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (_, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    assert!(session.settle(*opened.entry()));
    assert_eq!(opened.entry().level(), Level::Pass);
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
    judged(&opened, &file, |level_state| level_state.why == Reason::VolatileMemory);
    assert_eq!(opened.entry().level(), Level::Pass);
    assert_eq!(opened.entry().counters().get(Counted::SavedSyncs), 0);
}

#[test]
fn files_are_absorbed_until_logs_have_no_room() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let files: Vec<(PathBuf, File)> = (0..12).map(|i| place.file(&format!("log-{i}"))).collect();
    let opened: Vec<OpenFile<'_>> = files.iter().map(|(_, file)| open_file(&session, file)).collect();
    for (opened, (_, file)) in opened.iter().zip(&files) {
        judged(opened, file, |level_state| {
            level_state.level == Level::Absorb || level_state.why == Reason::NoRoom
        });
    }
    let levels = opened.iter().map(|opened| opened.entry().level_state());
    let (absorbed, others): (Vec<_>, Vec<_>) =
        levels.partition(|level_state| level_state.level == Level::Absorb);
    assert_eq!(absorbed.len(), 8);
    assert!(others.iter().all(|level_state| level_state.why == Reason::NoRoom), "{others:?}");
}

#[test]
fn real_sync_of_an_earlier_log_retires_nothing_of_the_next() {
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
fn concurrent_demotions_free_the_log_once() {
    let place = Place::new();
    let daemon = place.start();
    let session = place.session();
    let files: Vec<(PathBuf, File)> = (0..2).map(|i| place.file(&format!("log-{i}"))).collect();
    let [one, other] = [0, 1].map(|i: usize| open_file(&session, &files[i].1));
    let again = |opened: &OpenFile<'_>, i: usize| {
        while opened.entry().level() != Level::Absorb {
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
        assert_eq!((one.entry().level(), other.entry().level()), (Level::Pass, Level::Absorb));
        assert_eq!(daemon.report().users[0].rings_taken, 1);
    }
}

/// Opens and closes a file of each of the `inodes`.
fn once_open(session: &Session, inodes: std::ops::Range<u64>) {
    for inode in inodes {
        let key = FileKey { device: 1 << 40, inode: inode << 40, born_ns: inode };
        session.file_table().find_or_make(key).unwrap();
    }
}

#[test]
fn daemon_serves_more_files_over_time_than_the_table_holds() {
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
        // A sweep reads all processes, which takes long on a busy machine.
        let end = Instant::now() + 10 * LONG;
        while session.file_table().entries().count() > ENTRIES / 4 {
            assert!(Instant::now() < end, "entries of closed files are kept");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let indices = [opened, served].map(|file| file.entry().index());
    assert!(
        indices.iter().all(|index| session.file_table().entry(*index).is_some()),
        "an open file lost its entry"
    );
    let (_, next) = place.file("next");
    absorbed(&open_file(&session, &next), &next);
}

#[test]
fn log_stores_never_wait_for_flash_with_a_device_cache() {
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
fn daemon_with_a_removed_socket_ends() {
    let place = Place::new();
    let daemon = place.start();
    std::fs::remove_file(&place.options.socket).unwrap();
    assert_eq!(daemon.end(), []);
}

#[test]
fn file_that_replaced_the_socket_is_kept_when_the_daemon_ends() {
    let place = Place::new();
    let daemon = place.start();
    std::fs::remove_file(&place.options.socket).unwrap();
    std::fs::write(&place.options.socket, b"another's").unwrap();
    drop(daemon);
    assert_eq!(std::fs::read(&place.options.socket).unwrap(), b"another's");
}

#[test]
fn regular_file_at_the_socket_path_is_kept() {
    let place = Place::new();
    std::fs::write(&place.options.socket, b"another's").unwrap();
    assert!(Daemon::start(place.options.clone()).is_err());
    assert_eq!(std::fs::read(&place.options.socket).unwrap(), b"another's");
}
