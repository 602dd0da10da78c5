//! A folder with a region, a daemon's socket and files, on a file system with real syncs.

use std::ffi::CString;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use byway_tdm_daemon::{Daemon, Options};
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::{Channel, Order, Reply, Request};
use byway_tdm_engine::table::{Counted, Entry, FileKey, Level, LevelState};

use crate::actor::Actor;
use crate::daemon::DaemonProcess;

/// Limit of waits that should end sooner.
const LONG: Duration = Duration::from_secs(30);

/// Such a folder.
#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
    /// Options of its daemons.
    pub options: Options,
}

impl Place {
    /// A place with logs of the usual length, in `parent`.
    #[must_use]
    pub fn new(parent: &str) -> Self {
        Self::with_rings(parent, 1 << 20)
    }

    /// A place with logs of `ring_bytes`.
    #[must_use]
    pub fn with_rings(parent: &str, ring_bytes: u64) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        for name in ["files", "plain", "witness"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let region = format!("emu:{}?size=32M", folder.path().join("region").display());
        let mut options = Options::new(&region, folder.path().join("socket"))
            .file_tables(folder.path())
            .ring_bytes(ring_bytes);
        options.opening.emulate_persistence = true;
        Self { folder, options }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file of the served actor.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join("files").join(name)
    }

    /// A daemon in this process.
    #[must_use]
    pub fn daemon(&self) -> Daemon {
        come_to(|| Daemon::start(self.options.clone()))
    }

    /// Starts a daemon process, which can be killed.
    #[must_use]
    pub fn start_daemon(&self, program: &str) -> DaemonProcess {
        DaemonProcess::start(program, self)
    }

    /// The same without the witness, which opens files and would demote a DAX-resident one.
    #[must_use]
    pub fn unwitnessed_daemon(&self, program: &str) -> DaemonProcess {
        DaemonProcess::unwitnessed(program, self)
    }

    /// Starts one and kills it soon, possibly before it serves.
    pub fn killed_daemon(&self, program: &str, after: Duration) {
        DaemonProcess::killed(program, self, after);
    }

    /// A served program.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::start(&self.path().join("files"), Some(self))
    }

    /// The same program unserved, in a folder of its own.
    #[must_use]
    pub fn plain_actor(&self) -> Actor {
        Actor::start(&self.path().join("plain"), None)
    }

    /// A client's session.
    #[must_use]
    pub fn session(&self) -> Session {
        come_to(|| Session::begin(&self.options.socket))
    }

    /// Key of a file.
    #[must_use]
    pub fn key(&self, name: &str) -> FileKey {
        let path = CString::new(self.file(name).as_os_str().as_bytes()).unwrap();
        FileKey::at(&path).unwrap().unwrap().key
    }

    /// The file that says which files fail.
    #[must_use]
    pub fn broken(&self) -> PathBuf {
        self.path().join("broken")
    }

    /// Makes files fail by an error number.
    pub fn break_by(&self, error: i32) {
        std::fs::write(self.broken(), error.to_string()).unwrap();
    }

    /// Ends that.
    pub fn repair(&self) {
        std::fs::remove_file(self.broken()).unwrap();
    }

    /// Level state of a file, if it has an entry.
    #[must_use]
    pub fn level_state(&self, session: &Session, name: &str) -> Option<LevelState> {
        session.file_table().find(self.key(name)).map(|entry| entry.level_state())
    }

    /// Gives an order for a file; returns whether it was done.
    #[must_use]
    pub fn order(&self, order: Order, name: &str) -> bool {
        self.order_key(order, self.key(name))
    }

    /// The same by key, whatever the file's name.
    #[must_use]
    pub fn order_key(&self, order: Order, key: FileKey) -> bool {
        let asked = || {
            Channel::connect(&self.options.socket, Duration::from_secs(20))?
                .ask(Request::Order(order, key), &[])
        };
        let end = Instant::now() + LONG;
        loop {
            match asked() {
                // A daemon without processor time for 1 s counts as stopped.
                Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < end => {}
                answered => return matches!(answered, Ok((Reply::Done, _))),
            }
        }
    }

    /// Records that all of a file is on the disk, by a sync that the witness does not see.
    pub fn keep_all(&self, name: &str) {
        std::fs::copy(self.file(name), self.kept(&self.file(name))).unwrap();
    }

    /// The witness's copy of a file as the disk has it, if any.
    #[must_use]
    pub fn kept(&self, path: &Path) -> PathBuf {
        let found = std::fs::metadata(path).unwrap();
        let born = found.created().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        self.path().join("witness").join(format!("{}-{}", found.ino(), born.as_nanos()))
    }

    /// A file's attributes as the disk has them, and as they are: mode, owner, names, time of the last change.
    #[must_use]
    pub fn attributes(&self, name: &str) -> (String, String) {
        let path = self.file(name);
        let mut kept = self.kept(&path).into_os_string();
        kept.push(".attributes");
        let is = std::fs::metadata(path).unwrap();
        let now =
            format!("{:o} {} {} {}.{:09}", is.mode(), is.uid(), is.nlink(), is.ctime(), is.ctime_nsec());
        (std::fs::read_to_string(kept).unwrap_or_default(), now)
    }

    /// Syncs a file through an actor until it is DAX-resident.
    pub fn promote(&self, session: &Session, actor: &mut Actor, slot: char, name: &str) {
        assert!(self.order(Order::Promote, name));
        self.await_dax(session, actor, slot, name);
    }

    /// The same for a file whose promotion is requested. A forked child of another test may prevent it until it executes its program.
    pub fn await_dax(&self, session: &Session, actor: &mut Actor, slot: char, name: &str) {
        let end = Instant::now() + LONG;
        while self.level_state(session, name).unwrap().level != Level::Dax {
            assert!(
                Instant::now() < end,
                "{name} is not DAX-resident: {:?}",
                self.level_state(session, name)
            );
            ask_again(session.file_table().find(self.key(name)).unwrap());
            actor.does(&format!("fdatasync {slot}"));
        }
    }

    /// Syncs a file through an actor until a sync is saved.
    pub fn absorb(&self, session: &Session, actor: &mut Actor, slot: char, name: &str) {
        absorb(session, actor, slot, self.key(name));
    }

    /// Runs a program until its syncs of a file are saved; on a slow disk that takes seconds.
    pub fn await_absorbed(&self, session: &Session, name: &str, mut work: impl FnMut()) {
        let end = Instant::now() + LONG;
        while self.level_state(session, name).is_none_or(|level_state| level_state.level != Level::Absorb) {
            assert!(Instant::now() < end, "{name} is not absorbed: {:?}", self.level_state(session, name));
            session.file_table().find(self.key(name)).into_iter().for_each(ask_again);
            work();
        }
    }
}

/// Syncs a file through an actor until a sync is saved.
pub fn absorb(session: &Session, actor: &mut Actor, slot: char, key: FileKey) {
    let level_state = || session.file_table().find(key).map(|entry| entry.level_state());
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        if let Some(entry) = session.file_table().find(key) {
            if entry.level_state().level == Level::Absorb {
                settle_down(actor, slot, entry);
                return;
            }
            ask_again(entry);
        }
        actor.does(&format!("fdatasync {slot}"));
    }
    panic!("it is not absorbed: {:?}", level_state());
}

/// Repeats an operation for a while: a forked child of another test may still hold resources, and a daemon may get no processor time.
///
/// # Panics
/// If it keeps failing.
pub fn come_to<D, E: Debug>(start: impl Fn() -> Result<D, E>) -> D {
    let end = Instant::now() + LONG;
    loop {
        match start() {
            Ok(daemon) => return daemon,
            Err(error) => assert!(Instant::now() < end, "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets a refused or demoted file be asked for at its next sync.
pub fn ask_again(entry: Entry<'_>) {
    entry.counters().set(Counted::AskAgainNs, 0);
    entry.counters().set(Counted::PromotionRetryNs, 0);
}

/// The first sync of an absorbed file is a real one.
fn settle_down(actor: &mut Actor, slot: char, entry: Entry<'_>) {
    actor.does(&format!("fdatasync {slot}"));
    assert!(!entry.cursor().is_suspended());
}
