//! Why a daemon does not serve.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use byway_tdm_engine::table::BoardError;
use byway_tdm_region::{MemoryError, RegionError};
use thiserror::Error;

/// What stops a daemon.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A board.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The system, about a path.
    #[error("{}: could not {doing}", path.display())]
    System {
        /// About what.
        path: PathBuf,
        /// Doing what.
        doing: &'static str,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// Another daemon listens there.
    #[error("{}: a daemon listens there already", .0.display())]
    InUse(PathBuf),
    /// Programs use a board that is gone, or not of this version.
    #[error("{}: programs that began under another one, or another version, are not served until they end: {users:?}", path.display())]
    OtherBoard {
        /// The board.
        path: PathBuf,
        /// The programs.
        users: Vec<u32>,
    },
    /// The system does not say which boot this is: whether a log is of an earlier one cannot be known.
    #[error("/proc/sys/kernel/random/boot_id cannot be read")]
    NoBoot,
    /// Slots of the region's table are broken: which logs they were of is not known.
    #[error("what the region says of {} of its logs is damaged: `byway tdm recover` tells more", .0.len())]
    Damaged(Vec<u32>),
    /// Every slice of the region is some user's who uses it.
    #[error("the region has room for {0} users, all of whom use theirs")]
    NoSlice(usize),
    /// The region is too small.
    #[error("a region of {0} bytes has no room for logs: at least {1} are needed")]
    TooSmall(u64, u64),
}

impl DaemonError {
    /// With what the system said.
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
