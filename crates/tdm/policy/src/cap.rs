//! What keeps a file from a level, whatever it would save: the daemon and its clients see it, not the policy.

use std::fmt;

use crate::level::Level;

/// The highest level that is open to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// That level.
    pub level: Level,
    /// Why none above it, in a sentence.
    pub why: &'static str,
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}
