//! Files, and the levels they are served at.

use std::fmt;

/// A file, by the number that the daemon made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0)
    }
}

/// How a file is served; more device memory with each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// By the kernel alone.
    #[default]
    Pass,
    /// Written below and logged in device memory: a sync persists the records.
    Absorb,
    /// Device memory is its home.
    Dax,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Absorb, Self::Dax];

    /// As tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Absorb => "ABSORB",
            Self::Dax => "DAX",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
