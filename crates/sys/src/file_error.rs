//! Why a file could not do what was asked, in a sentence.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

use crate::owner::OwnerProcess;

/// Names of operations in errors. A failed write, allocation or sync stops the file.
pub(crate) const READING: &str = "reading";
pub(crate) const WRITING: &str = "writing";
pub(crate) const ALLOCATING: &str = "taking room in";
pub(crate) const SYNCING: &str = "syncing";
pub(crate) const PUNCHING: &str = "giving back room of";

/// Why the file could not do what was asked. Each is one sentence for a person.
#[derive(Debug, Error)]
pub enum FileError {
    /// Nothing has that name.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file of that name is there and would be overwritten.
    #[error("{} exists already and is left as it is", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another opener, in this process or another, holds the lock.
    #[error("{} is in use: another opener holds it", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A forked child used what its parent had opened.
    #[error("{}", OwnerProcess::refusal(path.display(), *process))]
    OtherProcess {
        /// The file.
        path: PathBuf,
        /// The process that opened it.
        process: u32,
    },
    /// The file, its folder or its file system may not be written.
    #[error("{} cannot be written here: it is read-only to this user or on this file system", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The file has several names, of which replacing it would change one.
    #[error(
        "{} has {links} names (hard links), and replacing it would leave the others with the old file: remove them first",
        path.display()
    )]
    HardLinked {
        /// The file.
        path: PathBuf,
        /// Its names.
        links: u64,
    },
    /// The file's owner cannot be kept by the file that is to replace it.
    #[error("{} belongs to user {uid} and group {gid}, and this user cannot give them the file that replaces it", path.display())]
    OwnerNotKept {
        /// The file.
        path: PathBuf,
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// Another file has the name of the one that was to be replaced.
    #[error("{} was replaced by another file meanwhile, which is left as it is", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A new file has the name of the one that it replaces, but its folder could not be synced.
    #[error(
        "{} is replaced by the new file, which may not survive a power loss: syncing its folder failed: {source}",
        path.display()
    )]
    NameNotSynced {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// This user may not do that, whether or not the file is there.
    #[error("{} may not be {done} by this user", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// What may not be done.
        done: &'static str,
    },
    /// The file system has no room, or the user's quota or file size limit is reached.
    #[error("the disk that holds {} is full: {doing} found no room", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The operation that found no room, as a participle: "writing".
        doing: &'static str,
    },
    /// The file ends before the bytes that were asked for.
    #[error("{} ends before byte {end}", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// End of the range that was asked for.
        end: u64,
    },
    /// Another program truncated or overwrote it while it was open.
    #[error("{} was cut short or overwritten by another program while it was open: its {end} bytes are no longer what was written", path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// Its length in bytes, as this opener made or found it.
        end: u64,
    },
    /// Writing it failed before, so nothing more is written.
    #[error("{} takes no writes since {doing} it failed; open it again once its file system is well", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
        /// What failed.
        doing: &'static str,
    },
    /// Anything else the system says.
    #[error("{doing} {} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed operation, as a participle: "opening".
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl FileError {
    /// Whether the bytes that are there could not be read, or were not there to be read.
    #[must_use]
    pub fn is_of_reading(&self) -> bool {
        matches!(self, Self::Short { .. } | Self::CutShort { .. } | Self::Io { doing: READING, .. })
    }

    /// The same, where it is no matter of writing that the file may not be `done` so.
    pub(crate) fn denied(self, done: &'static str) -> Self {
        match self {
            Self::ReadOnly { path } => Self::Denied { path, done },
            other => other,
        }
    }
}

/// The error that the system's answer makes.
pub(crate) fn refusal(path: &Path, doing: &'static str, source: io::Error) -> FileError {
    let path = path.to_path_buf();
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => FileError::Missing { path },
        Some(Errno::EXIST) => FileError::Exists { path },
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => FileError::ReadOnly { path },
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => FileError::DiskFull { path, doing },
        _ => FileError::Io { path, doing, source },
    }
}
