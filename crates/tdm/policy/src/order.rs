//! Orders for a file, by hand or by a rule.

use std::fmt;

use crate::level::Level;

/// An order. It precedes measurements, but not caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Keep at this level, before files that are not pinned.
    Pin(Level),
    /// Demote once; the file may return after some seconds.
    Evict,
    /// Demote until the order ends.
    Drain,
    /// Never promote.
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
