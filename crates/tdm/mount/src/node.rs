//! A file or folder below, known to the kernel by a number.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use byway_tdm_engine::client::{Errno, Session};
use byway_tdm_engine::table::{EntryIndex, FileKey};
use rustix::fs::{Mode, OFlags, open};

/// EIO.
pub(crate) const EIO: Errno = 5;

/// No open for writing has asked for an entry yet.
const UNASKED: u32 = 0;
/// The file has no entry.
const NONE: u32 = 1;

/// A file or folder. Its descriptor keeps the inode number from being reused.
#[derive(Debug)]
pub(crate) struct Node {
    /// Opened with O_PATH.
    fd: OwnedFd,
    /// Its entry in the shared file table, once opened for writing.
    entry: AtomicU32,
}

impl Node {
    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self { fd, entry: AtomicU32::new(UNASKED) }
    }

    /// A path through `/proc` that works whatever its name.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// The same path for other processes.
    pub(crate) fn path_from_outside(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Opens it. The kernel has checked the program's permission.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(open(self.path(), flags | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Its entry, made if needed. `None` for other users' files and those without a birth time.
    pub(crate) fn entry(&self, session: &Session) -> Option<EntryIndex> {
        match self.entry.load(Ordering::Relaxed) {
            UNASKED => self.ask(session),
            NONE => None,
            // The entry was reclaimed and may be another file's.
            found => match EntryIndex(found - 2) {
                index if session.file_table().entry(index).is_some() => Some(index),
                _ => self.ask(session),
            },
        }
    }

    #[cold]
    fn ask(&self, session: &Session) -> Option<EntryIndex> {
        let mine = FileKey::of(&self.fd).ok().flatten().filter(|found| found.owner_uid == session.uid());
        let made = mine.and_then(|found| session.file_table().find_or_make(found.key).ok().flatten());
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

    /// The owner has changed: ask for an entry again.
    pub(crate) fn forget_entry(&self) {
        self.entry.store(UNASKED, Ordering::Relaxed);
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
