//! Caps: the highest level open to a file, decided outside the policy.

use crate::level::Level;
use crate::reason::Reason;

/// The highest level open to a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cap {
    /// The level.
    pub level: Level,
    /// The reason, one of [`Reason::STORED`].
    pub why: Reason,
}
