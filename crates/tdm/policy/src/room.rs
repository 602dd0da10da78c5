//! Uses of device memory.

use std::fmt;

use crate::level::Level;

/// A use of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Redo logs of absorbed files.
    Log,
    /// DAX-resident files.
    Pinned,
}

impl Room {
    /// Both uses.
    pub const ALL: [Self; 2] = [Self::Log, Self::Pinned];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The use of a level.
    pub(crate) const fn of(level: Level) -> Option<Self> {
        match level {
            Level::Pass => None,
            Level::Absorb => Some(Self::Log),
            Level::Dax => Some(Self::Pinned),
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Log => "log",
            Self::Pinned => "pinned",
        })
    }
}
