//! Where a file was before.

use crate::level::Level;
use crate::reason::Reason;

/// Levels that are remembered of each file.
const REMEMBERED: usize = 4;

/// A level that a file was at for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stay {
    /// Which one.
    pub level: Level,
    /// How long.
    pub for_ns: u64,
    /// Why it had gone there.
    pub why: Reason,
}

/// The last of them, the latest first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Past([Option<Stay>; REMEMBERED]);

impl Past {
    /// One more, in place of the oldest.
    pub(crate) fn add(&mut self, stay: Stay) {
        self.0.rotate_right(1);
        self.0[0] = Some(stay);
    }

    /// All that are remembered, the latest first.
    pub fn stays(&self) -> impl Iterator<Item = Stay> {
        self.0.into_iter().flatten()
    }
}
