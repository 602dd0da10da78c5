//! Purposes that device memory is divided between.

use std::fmt;

use crate::level::Level;

/// A purpose that device memory is divided between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Redo logs of absorbed files.
    Log,
    /// DAX-resident files.
    Resident,
}

impl Room {
    /// Both purposes.
    pub const ALL: [Self; 2] = [Self::Log, Self::Resident];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The purpose of a level; `None` for PASS, which takes no device memory.
    pub(crate) const fn of(level: Level) -> Option<Self> {
        match level {
            Level::Pass => None,
            Level::Absorb => Some(Self::Log),
            Level::Dax => Some(Self::Resident),
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Log => "log",
            Self::Resident => "DAX",
        })
    }
}
