//! Reads that disturb their blocks, and data that is refreshed before it is lost.

use crate::block::BlockUse;
use crate::ftl::Ftl;
use crate::geometry::BlockId;

impl Ftl {
    /// Whether what blocks hold fades with time and by being read.
    #[inline]
    pub(crate) fn has_retention(&self) -> bool {
        self.retention.is_on()
    }

    /// Whether what a block holds has faded away.
    #[inline]
    pub(crate) fn has_faded(&self, block: BlockId) -> bool {
        self.retention.is_on() && self.retention.is_lost(block, &self.blocks)
    }

    /// Notes that a page of a block was read, and lets the read pay for a refresh that it makes necessary.
    #[inline]
    pub(crate) fn note_block_read(&mut self, block: BlockId, at_ps: u64) {
        if self.retention.is_on() {
            self.disturb(block, at_ps);
        }
    }

    /// The same of a page that was lent: its reader still looks at it, so that nothing can be moved now.
    #[inline]
    pub(crate) fn note_block_lent(&mut self, block: BlockId) {
        if self.retention.is_on() && self.blocks.get(block).used_for == BlockUse::Full {
            self.blocks.count_read(block);
        }
    }

    #[cold]
    fn disturb(&mut self, block: BlockId, at_ps: u64) {
        self.note_block_lent(block);
        if self.retention.refresh && !self.blocks.are_worn_out() {
            if !self.collector.has_side_job() && self.retention.should_refresh(block, &self.blocks) {
                self.choose_side_job();
            }
            if self.collector.is_refreshing() {
                // A move that fails now is tried again with the next read.
                let _ = self.do_side_job(at_ps);
            }
        }
    }
}
