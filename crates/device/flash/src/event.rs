//! Events of blocks, for the log of the flash's owner.
//!
//! The flash does not log by itself: it is linked into the preload library of `tdm`, which writes nothing for its program.

use crate::counters::Cause;

/// An event of one block. None comes with every command: a victim is chosen once for a block that is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashEvent {
    /// Garbage collection, a refresh or wear levelling (`cause`) begins to empty a block.
    VictimChosen {
        /// Number of the block.
        block: u32,
        /// Units in it that hold data, of 4 KiB each.
        live_units: u64,
        /// The reason why it is emptied.
        cause: Cause,
    },
    /// A block failed when it was programmed or erased, and is bad from now on.
    BlockGivenUp {
        /// Number of the block.
        block: u32,
    },
    /// The records of a block contradict the map: it is not used again, and stays readable.
    BlockRetired {
        /// Number of the block.
        block: u32,
    },
}

/// The function that gets the events; none by default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporter(pub(crate) fn(FlashEvent));

impl Default for Reporter {
    fn default() -> Self {
        Self(|_| {})
    }
}
