//! Caps: the highest level open to a file, decided outside the policy.

use std::fmt;

use crate::level::Level;

/// The highest level open to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The level.
    pub level: Level,
    /// The reason, as a sentence.
    pub why: &'static str,
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}
