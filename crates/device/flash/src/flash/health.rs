//! How the medium holds up: bad blocks, spares, wear.

use crate::flash::Flash;
use crate::wear::WearSummary;

/// Erases that a block is taken to stand. TLC of its time is rated at one to three thousand; assumed.
pub const RATED_ERASES: u32 = 3_000;

/// The medium in a health log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlashHealth {
    /// Blocks that may go bad before the device can only be read.
    pub spare_blocks: u32,
    /// Of these, blocks that did not.
    pub spare_blocks_left: u32,
    /// The same in percent, as NVMe has it.
    pub available_spare_percent: u8,
    /// Life used, in percent of what erases and spares allow, whichever is further; it goes on to 255.
    pub percentage_used: u8,
    /// Blocks that were bad when the device was made.
    pub factory_bad_blocks: u32,
    /// Blocks that failed to be programmed or erased.
    pub grown_bad_blocks: u32,
    /// Blocks out of use because their records are damaged.
    pub retired_blocks: u32,
    /// Erases of the blocks in use.
    pub wear: WearSummary,
    /// Blocks that are erased, or are erased when they are opened.
    pub free_blocks: u32,
    /// Reads, since the device was opened, that had wrong bits which could be corrected.
    pub corrected_reads: u64,
    /// More blocks went bad than there were to spare: everything is still read, nothing is written.
    pub worn_out: bool,
}

impl Flash {
    /// How the medium holds up.
    #[must_use]
    pub fn health(&self) -> FlashHealth {
        let blocks = &self.ftl.blocks;
        let ((spare_blocks, left), bad, wear) = (blocks.spares(), blocks.bad(), blocks.wear());
        // Without any from the start, the next block that goes bad is the end.
        let available = percent(left, spare_blocks);
        let spares_used = if spare_blocks == 0 { 100 } else { percent(spare_blocks - left, spare_blocks) };
        let erases_used = (wear.mean * 100.0 / f64::from(RATED_ERASES)) as u8;
        FlashHealth {
            spare_blocks,
            spare_blocks_left: left,
            available_spare_percent: available,
            percentage_used: erases_used.max(spares_used),
            factory_bad_blocks: bad.factory,
            grown_bad_blocks: bad.grown,
            retired_blocks: bad.retired,
            wear,
            free_blocks: blocks.free_count(),
            corrected_reads: self.ftl.media.corrected_reads(),
            worn_out: blocks.are_worn_out(),
        }
    }
}

/// Part of a whole in percent.
const fn percent(part: u32, whole: u32) -> u8 {
    if whole == 0 { 0 } else { (part as u64 * 100 / whole as u64) as u8 }
}
