//! What somebody said of a file by hand, or of all files of a path.

use std::fmt;

use crate::level::Level;

/// An order: it stands above everything that is measured, but not above what is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// To that level and no other, whatever it brings, before all who are not pinned.
    Pin(Level),
    /// Out of device memory, once. It may come back after some seconds.
    Evict,
    /// Out of device memory until the order is taken back.
    Drain,
    /// Never into device memory.
    Never,
}

impl Order {
    /// The level that it demands.
    pub(crate) const fn level(self) -> Level {
        match self {
            Self::Pin(level) => level,
            Self::Evict | Self::Drain | Self::Never => Level::Pass,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin(level) => write!(f, "pinned to {level}"),
            Self::Evict => write!(f, "evicted"),
            Self::Drain => write!(f, "drained"),
            Self::Never => write!(f, "kept out"),
        }
    }
}
