//! Files and levels.

use std::fmt;

/// A file's number, given by the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0)
    }
}

/// Level of a file: each takes more device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// PASS: the kernel alone.
    #[default]
    Pass,
    /// ABSORB: written below and logged in device memory. A sync makes the records durable.
    Absorb,
    /// DAX: device memory holds the file.
    Dax,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Absorb, Self::Dax];

    /// Its name in tables.
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
