//! A folder with a region, a daemon's socket, and files, on a file system that syncs.

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

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(30);

/// Such a folder.
#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
    /// What its daemons are started with.
    pub options: Options,
}

impl Place {
    /// With logs of the usual length, in `parent`, which is on such a file system.
    #[must_use]
    pub fn new(parent: &str) -> Self {
        Self::with_rings(parent, 1 << 20)
    }

    /// With logs of so many bytes.
    #[must_use]
    pub fn with_rings(parent: &str, ring_bytes: u64) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        for name in ["files", "plain", "witness"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let region = format!("emu:{}?size=32M", folder.path().join("region").display());
        let mut options = Options::new(&region, folder.path().join("socket"));
        options.opening.emulate_persistence = true;
        options.file_tables = folder.path().into();
        options.ring_bytes = ring_bytes;
        Self { folder, options }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file that the actor under the library has.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join("files").join(name)
    }

    /// A daemon in this process.
    #[must_use]
    pub fn daemon(&self) -> Daemon {
        come_to(|| Daemon::start(self.options.clone()))
    }

    /// A daemon that can be killed.
    #[must_use]
    pub fn start_daemon(&self, program: &str) -> DaemonProcess {
        DaemonProcess::start(program, self)
    }

    /// The same without the witness, which opens files and would demote a DAX-resident one.
    #[must_use]
    pub fn unwitnessed_daemon(&self, program: &str) -> DaemonProcess {
        DaemonProcess::unwitnessed(program, self)
    }

    /// One that is killed so soon that it may not serve yet.
    pub fn killed_daemon(&self, program: &str, after: Duration) {
        DaemonProcess::killed(program, self, after);
    }

    /// A program under the library.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::start(&self.path().join("files"), Some(self))
    }

    /// The same program without it, in a folder of its own.
    #[must_use]
    pub fn plain_actor(&self) -> Actor {
        Actor::start(&self.path().join("plain"), None)
    }

    /// What any program has of the daemon.
    #[must_use]
    pub fn session(&self) -> Session {
        come_to(|| Session::begin(&self.options.socket))
    }

    /// Which file a name is of.
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

    /// Files fail by an error number from now on.
    pub fn break_by(&self, error: i32) {
        std::fs::write(self.broken(), error.to_string()).unwrap();
    }

    /// They do not any more.
    pub fn repair(&self) {
        std::fs::remove_file(self.broken()).unwrap();
    }

    /// How a file stands in the shared file table, if it is there.
    #[must_use]
    pub fn level_state(&self, session: &Session, name: &str) -> Option<LevelState> {
        session.file_table().find(self.key(name)).map(|entry| entry.level_state())
    }

    /// Has the daemon do something with a file by hand; whether it did.
    #[must_use]
    pub fn order(&self, order: Order, name: &str) -> bool {
        self.order_key(order, self.key(name))
    }

    /// The same, of a file that may have any name by now.
    #[must_use]
    pub fn order_key(&self, order: Order, key: FileKey) -> bool {
        let asked = || {
            Channel::connect(&self.options.socket, Duration::from_secs(20))?
                .ask(Request::Order(order, key), &[])
        };
        let end = Instant::now() + LONG;
        loop {
            match asked() {
                // A daemon that is given no processor for a second counts as standing still.
                Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < end => {}
                answered => return matches!(answered, Ok((Reply::Done, _))),
            }
        }
    }

    /// Records that all of a file is on the disk, by a sync that the witness does not see.
    pub fn keep_all(&self, name: &str) {
        std::fs::copy(self.file(name), self.kept(&self.file(name))).unwrap();
    }

    /// Where the witness keeps what the disk has of a file for certain. There is no such file where that is nothing.
    #[must_use]
    pub fn kept(&self, path: &Path) -> PathBuf {
        let found = std::fs::metadata(path).unwrap();
        let born = found.created().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        self.path().join("witness").join(format!("{}-{}", found.ino(), born.as_nanos()))
    }

    /// What the disk has for certain of a file's attributes, and what they are now: mode, owner, names, and when one was changed last.
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

    /// The same of one that is to come there. A child of another test may keep it below until it is the program it is to be: it has what
    /// a daemon in this process had open of the file.
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

    /// Has an actor sync a file until that is spared.
    pub fn absorb(&self, session: &Session, actor: &mut Actor, slot: char, name: &str) {
        absorb(session, actor, slot, self.key(name));
    }

    /// Has a program work until its syncs of a file are spared: where the disk is slow they are no burst, and it takes some seconds of them.
    pub fn await_absorbed(&self, session: &Session, name: &str, mut work: impl FnMut()) {
        let end = Instant::now() + LONG;
        while self.level_state(session, name).is_none_or(|level_state| level_state.level != Level::Absorb) {
            assert!(Instant::now() < end, "{name} is not absorbed: {:?}", self.level_state(session, name));
            session.file_table().find(self.key(name)).into_iter().for_each(ask_again);
            work();
        }
    }
}

/// Has an actor sync a file until that is spared.
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

/// Does what is done before long: a child of another test may have what this process had open of a region until it is the program it is
/// to be, and a daemon may be given no processor for a while.
///
/// # Panics
/// If it does not come to that.
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

/// Has a program that was refused, or whose file was taken down, ask at its next sync.
pub fn ask_again(entry: Entry<'_>) {
    entry.counters().set(Counted::AskAgainNs, 0);
    entry.counters().set(Counted::PromotionRetryNs, 0);
}

/// The first sync of an absorbed file is a real one.
fn settle_down(actor: &mut Actor, slot: char, entry: Entry<'_>) {
    actor.does(&format!("fdatasync {slot}"));
    assert!(!entry.cursor().is_suspended());
}
