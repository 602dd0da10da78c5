//! Forgetting for good: what nothing points to any more is wiped where it lies, and a sanitize operation is remembered.
//!
//! A trim, an overwrite and an erase leave bytes behind: in pages that are not yet collected, in erased blocks whose disk
//! room is kept, in the unit buffer. Wiping gives the room back, so that they read as zeroes. Only what is dead is
//! touched, so a wipe may end at any instant.

use std::ops::Range;

use crate::block::BlockUse;
use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::flash::Flash;
use crate::geometry::{BlockId, PageId, UNIT_BYTES};
use crate::image::layout::BUFFER_SLOTS;
use crate::media::Media;
use crate::sanitize::{Overwrite, Sanitize};

/// Bytes that nothing points to, from byte `at` of a page on.
#[derive(Debug, Clone, Copy)]
struct Dead {
    page: PageId,
    at: usize,
    len: usize,
}

type Done = Result<(), FlashError>;

impl Flash {
    /// Blocks of the array, each wiped by [`wipe`](Self::wipe).
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.ftl.geometry().block_count()
    }

    /// Wipes what is dead in some blocks: no byte of it is in the image any more, nor on the disk if something is written
    /// over it. Full blocks that hold nothing else are erased.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`], what the file says.
    pub fn wipe(&mut self, blocks: Range<u32>, over: Option<Overwrite>) -> Result<(), FlashError> {
        self.writable()?;
        self.order(SyncPoint::BlockErase)?;
        if let Some(Overwrite { pattern }) = over {
            for block in blocks.clone().map(BlockId) {
                let overwrite = |media: &mut dyn Media, dead: Dead| {
                    media.overwrite(dead.page, dead.at, dead.len, pattern)
                };
                self.each_dead(block, overwrite)?;
            }
            self.ftl.order_now(SyncPoint::Overwrite)?;
        }
        blocks.map(BlockId).try_for_each(|block| self.wipe_block(block))
    }

    /// Wipes what is dead in the unit buffer.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`].
    pub fn wipe_buffer(&mut self) -> Result<(), FlashError> {
        self.writable()?;
        self.order(SyncPoint::BufferSlot)?;
        for slot in 0..BUFFER_SLOTS {
            for position in 0..self.ftl.geometry().units_per_page() {
                if self.ftl.buffered(slot, position).is_none() {
                    self.ftl.buffer.wipe(slot, position);
                }
            }
        }
        Ok(())
    }

    fn wipe_block(&mut self, id: BlockId) -> Result<(), FlashError> {
        self.each_dead(id, |media, dead| media.wipe(dead.page, dead.at, dead.len))?;
        if self.is_all_dead(id) {
            self.ftl.media.erase(id)?;
            if self.ftl.blocks.get(id).used_for == BlockUse::Full {
                self.ftl.note_erase(id, Cause::Metadata, 0);
            }
        }
        Ok(())
    }

    fn is_all_dead(&self, id: BlockId) -> bool {
        let block = self.ftl.blocks.get(id);
        block.live == 0 && matches!(block.used_for, BlockUse::Free | BlockUse::Full)
    }

    /// Has something done to what nothing points to in a block.
    fn each_dead(&mut self, id: BlockId, mut act: impl FnMut(&mut dyn Media, Dead) -> Done) -> Done {
        let geometry = *self.ftl.geometry();
        if self.is_all_dead(id) {
            let all = Dead { page: geometry.page(id, 0), at: 0, len: geometry.block_bytes() as usize };
            return act(&mut *self.ftl.media, all);
        }
        let written = self.ftl.blocks.get(id).written;
        for page in 0..geometry.pages_per_block {
            self.each_dead_unit(geometry.page(id, page), page < written, &mut act)?;
        }
        Ok(())
    }

    fn each_dead_unit(
        &mut self,
        page: PageId,
        written: bool,
        mut act: impl FnMut(&mut dyn Media, Dead) -> Done,
    ) -> Done {
        let spare = self.ftl.spare(page).filter(|_| written);
        let live = spare.map(|spare| self.ftl.live_in(page, &spare));
        for unit in 0..self.ftl.geometry().units_per_page() {
            if !live.is_some_and(|live| live.contains(unit)) {
                let dead = Dead { page, at: unit as usize * UNIT_BYTES, len: UNIT_BYTES };
                act(&mut *self.ftl.media, dead)?;
            }
        }
        Ok(())
    }

    /// Fills the areas of a namespace with zeroes, those whose memory was given out too.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`].
    pub fn wipe_areas(&mut self, nsid: u32) -> Result<(), FlashError> {
        self.writable()?;
        self.areas.wipe(nsid);
        Ok(())
    }

    /// The sanitize operation that the image remembers.
    #[must_use]
    pub fn sanitize(&self) -> Sanitize {
        self.ftl.state.sanitize()
    }

    /// Stores the state and the passes done of a sanitize operation; the word with them is written last.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`].
    pub fn set_sanitize(&mut self, sanitize: Sanitize) -> Result<(), FlashError> {
        self.writable()?;
        self.ftl.state.set_sanitize(sanitize);
        Ok(())
    }

    /// Whether nothing was written for hosts since the last sanitize operation was done.
    #[must_use]
    pub fn is_all_erased(&self) -> bool {
        self.ftl.state.is_all_erased()
    }
}
