//! Caps: the highest level open to a file, decided outside the policy.

use std::fmt;

use crate::level::Level;
use crate::why::Why;

/// The highest level open to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The level.
    pub level: Level,
    /// The reason.
    pub why: Why,
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}
