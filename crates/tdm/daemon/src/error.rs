//! Errors of the daemon.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use byway_tdm_engine::table::FileTableError;
use byway_tdm_region::{MemoryError, RegionError};
use thiserror::Error;

/// Why a daemon cannot serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The region cannot be opened.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Its memory failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The shared file table cannot be used.
    #[error(transparent)]
    FileTable(#[from] FileTableError),
    /// A system call on a path failed.
    #[error("{}: could not {doing}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// What the daemon could not do, as a verb phrase: "start a thread".
        doing: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another daemon listens at this socket.
    #[error("{}: a daemon listens there already", .0.display())]
    InUse(PathBuf),
    /// Programs use a shared file table that is gone or of another version.
    #[error("{}: programs that began under another one, or another version, are not served until they end: {users:?}", path.display())]
    OtherFileTable {
        /// Path of the table.
        path: PathBuf,
        /// Numbers of the programs' users.
        users: Vec<u32>,
    },
    /// The boot's identity cannot be read, so logs of earlier boots cannot be recognised.
    #[error("/proc/sys/kernel/random/boot_id cannot be read")]
    NoBoot,
    /// Slots of the region's table are damaged, so their logs' owners are unknown.
    #[error("what the region says of {} of its logs is damaged: `byway tdm recover` lists them", .0.len())]
    Damaged(Vec<u32>),
    /// A region is not removed while a user's programs use it.
    #[error("region {} is not removed: user {uid} has running programs that map its file table, or logs that are not written back; \
             end the programs, run `byway tdm recover`, then retry", path.display())]
    Used {
        /// The region's file.
        path: PathBuf,
        /// The user.
        uid: u32,
    },
    /// Every partition is in use.
    #[error("the region has room for {0} users, all of whom use theirs")]
    NoPartition(usize),
    /// The region is too small.
    #[error("a region of {0} bytes has no room for logs: at least {1} are needed")]
    TooSmall(u64, u64),
}

impl DaemonError {
    /// The message with all its sources.
    pub(crate) fn in_full(&self) -> String {
        let mut said = self.to_string();
        let mut next = self.source();
        while let Some(source) = next {
            said = format!("{said}: {source}");
            next = source.source();
        }
        said
    }

    pub(crate) fn system(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::System { path, doing, source }
    }
}
