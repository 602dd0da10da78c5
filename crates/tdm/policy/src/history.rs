//! Earlier levels of a file.

use crate::level::Level;
use crate::reason::Reason;

/// Levels kept.
const REMEMBERED: usize = 4;

/// A stay at a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stay {
    /// The level.
    pub level: Level,
    /// Its length.
    pub for_ns: u64,
    /// Reason of the move there.
    pub why: Reason,
}

/// The last stays, latest first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct History([Option<Stay>; REMEMBERED]);

impl History {
    /// Adds a stay in place of the oldest.
    pub(crate) fn add(&mut self, stay: Stay) {
        self.0.rotate_right(1);
        self.0[0] = Some(stay);
    }

    /// All stays, latest first.
    pub fn stays(&self) -> impl Iterator<Item = Stay> {
        self.0.into_iter().flatten()
    }
}
