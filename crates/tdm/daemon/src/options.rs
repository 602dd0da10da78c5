//! Options of a daemon.

use std::path::PathBuf;

use byway_tdm_policy::Rules;
use byway_tdm_region::Opening;

use crate::clock::Clock;

/// Where a daemon listens and which memory it owns.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Description of the region, such as `emu:PATH?size=1G`.
    pub region: String,
    /// How it is opened.
    pub opening: Opening,
    /// Path of the socket.
    pub socket: PathBuf,
    /// Folder of the shared file tables, in host memory such as `/dev/shm`.
    pub file_tables: PathBuf,
    /// Bytes of a file's log.
    pub ring_bytes: u64,
    /// Orders for files by path.
    pub rules: Rules,
    /// Which files are promoted to DAX.
    pub promotion: Promotion,
    /// Clock of the policy.
    pub clock: Clock,
}

/// Which files are promoted to DAX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Promotion {
    /// Those pinned by a user or a rule. Other programs see current sizes and times of all others.
    #[default]
    Pinned,
    /// Also absorbed files that are measured to be faster there.
    ByBenefit,
}

impl Options {
    /// Default options for a region and a socket.
    #[must_use]
    pub fn new(region: &str, socket: PathBuf) -> Self {
        Self {
            region: region.to_owned(),
            opening: Opening::default(),
            socket,
            file_tables: "/dev/shm".into(),
            ring_bytes: 16 << 20,
            rules: Rules::default(),
            promotion: Promotion::default(),
            clock: Clock::default(),
        }
    }

    byway_sys::setters! {
        /// How the region is opened.
        opening: Opening;
        /// Folder of the shared file tables, in host memory such as `/dev/shm`.
        file_tables: impl Into<PathBuf>;
        /// Bytes of a file's log.
        ring_bytes: u64;
        /// Orders for files by path.
        rules: Rules;
        /// Which files are promoted to DAX.
        promotion: Promotion;
        /// Clock of the policy.
        clock: Clock;
    }
}
