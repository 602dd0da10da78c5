//! A file or folder below, as the kernel knows it by a number.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use byway_tdm_engine::client::{Errno, Session};
use byway_tdm_engine::table::{EntryIndex, FileKey};
use rustix::fs::{Mode, OFlags, open};

/// Input/output error, on every Linux.
pub(crate) const EIO: Errno = 5;

/// Nobody has asked for its entry on the board yet.
const UNASKED: u32 = 0;
/// It has none.
const NONE: u32 = 1;

/// Such a one. As long as it is there, its inode's number is nobody else's: the descriptor holds it.
#[derive(Debug)]
pub(crate) struct Node {
    /// Opened to be found again, not to be read (O_PATH).
    fd: OwnedFd,
    /// Its entry on the board, once it was opened for writing.
    entry: AtomicU32,
}

impl Node {
    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self { fd, entry: AtomicU32::new(UNASKED) }
    }

    /// A name by which it is reached whatever it is called, and if it is called nothing.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// The same for other processes.
    pub(crate) fn path_from_outside(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Opens it. Whether the program may was for the kernel to say.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(open(self.path(), flags | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Its entry on the board, made if there is none; nothing for files that are not this user's, or not to be told from others.
    pub(crate) fn entry(&self, session: &Session) -> Option<EntryIndex> {
        match self.entry.load(Ordering::Relaxed) {
            UNASKED => self.ask(session),
            NONE => None,
            // One that was given back, as if nobody had the file open, is another file's by now.
            found => match EntryIndex(found - 2) {
                index if session.board().entry(index).is_some() => Some(index),
                _ => self.ask(session),
            },
        }
    }

    #[cold]
    fn ask(&self, session: &Session) -> Option<EntryIndex> {
        let mine = FileKey::of(&self.fd).ok().flatten().filter(|found| found.owner_uid == session.uid());
        let made = mine.and_then(|found| session.board().find_or_make(found.key).ok().flatten());
        let entry = made.map(|entry| entry.index());
        self.entry.store(entry.map_or(NONE, |entry| entry.0 + 2), Ordering::Relaxed);
        entry
    }

    /// Syncs its bytes.
    #[expect(clippy::disallowed_methods, reason = "ends a log, which names what is kept before what")]
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let file = self.open(OFlags::RDONLY).map(File::from);
        file.and_then(|file| file.sync_data()).map_err(|error| error.raw_os_error().unwrap_or(EIO))
    }

    /// Its owner changed: who serves it is to be asked anew.
    pub(crate) fn forget_entry(&self) {
        self.entry.store(UNASKED, Ordering::Relaxed);
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
