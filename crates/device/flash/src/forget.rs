//! Forgetting for good: what nothing points to any more is wiped where it lies, and a sanitize operation is remembered.
//!
//! A trim, an overwrite and an erase leave bytes behind: in pages that are not yet collected, in erased blocks whose disk
//! room is kept, in the unit buffer. Wiping gives the room back, so that they read as zeroes. Only what is dead is
//! touched, so a wipe may end at any instant.

use std::ops::Range;

use crate::blocks::BlockUse;

use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::flash::Flash;
use crate::geometry::{BlockId, PageId, UNIT_BYTES};
use crate::image::layout::BUFFER_SLOTS;
use crate::spare::{PageKind, SpareRecord};

/// What is written over bytes before their room is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwrite {
    /// Four bytes, over and over.
    pub pattern: u32,
}

/// How a sanitize operation stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SanitizeState {
    /// None was ever begun.
    #[default]
    Never,
    /// The last one is done.
    Done,
    /// One is going on.
    Running,
}

/// The sanitize operation that the image remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sanitize {
    /// How it stands.
    pub state: SanitizeState,
    /// Its command's dword 10, the low 16 bits.
    pub cdw10: u16,
    /// Passes that are done.
    pub passes: u8,
    /// What is written over everything, if something is.
    pub pattern: u32,
}

impl Sanitize {
    pub(crate) fn to_value(self) -> u64 {
        let state = match self.state {
            SanitizeState::Never => 0,
            SanitizeState::Done => 1,
            SanitizeState::Running => 2,
        };
        state << 32 | u64::from(self.passes) << 16 | u64::from(self.cdw10)
    }

    pub(crate) fn from_value(value: u64, pattern: u32) -> Self {
        let state = match value >> 32 {
            0 => SanitizeState::Never,
            1 => SanitizeState::Done,
            _ => SanitizeState::Running,
        };
        Self { state, cdw10: value as u16, passes: (value >> 16) as u8, pattern }
    }
}

impl Flash {
    /// Blocks of the array, each wiped by [`wipe`](Self::wipe).
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.ftl.geometry.block_count()
    }

    /// Wipes what is dead in some blocks: no byte of it is in the image any more. Full blocks that hold nothing else are
    /// erased.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`], what the file says.
    pub fn wipe(&mut self, blocks: Range<u32>, over: Option<Overwrite>) -> Result<(), FlashError> {
        self.writable()?;
        self.order(SyncPoint::BlockErase)?;
        for block in blocks.map(BlockId) {
            self.wipe_block(block, over)?;
        }
        Ok(())
    }

    /// Wipes what is dead in the unit buffer.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`].
    pub fn wipe_buffer(&mut self) -> Result<(), FlashError> {
        self.writable()?;
        self.order(SyncPoint::BufferSlot)?;
        for slot in 0..BUFFER_SLOTS {
            for position in 0..self.ftl.geometry.units_per_page() {
                if self.ftl.buffered(slot, position).is_none() {
                    self.ftl.buffer.wipe(slot, position);
                }
            }
        }
        Ok(())
    }

    fn wipe_block(&mut self, id: BlockId, over: Option<Overwrite>) -> Result<(), FlashError> {
        let block = *self.ftl.blocks.get(id);
        let geometry = self.ftl.geometry;
        if block.live == 0 && matches!(block.used_for, BlockUse::Free | BlockUse::Full) {
            let first = geometry.page(id, 0);
            self.wipe_pages(first, 0, geometry.block_bytes() as usize, over)?;
            self.ftl.media.erase(id)?;
            if block.used_for == BlockUse::Full {
                self.ftl.note_erase(id, Cause::Metadata, 0);
            }
            return Ok(());
        }
        for page in 0..geometry.pages_per_block {
            self.wipe_page(geometry.page(id, page), page < block.written, over)?;
        }
        Ok(())
    }

    /// Wipes the units of a page that nothing points to.
    fn wipe_page(&mut self, page: PageId, written: bool, over: Option<Overwrite>) -> Result<(), FlashError> {
        let units = self.ftl.geometry.units_per_page();
        let spare = self.ftl.spare(page).filter(|_| written);
        // Of an entry that takes a whole page, the map points to the first unit.
        let whole = |spare: &SpareRecord| spare.kind == PageKind::Page && self.ftl.is_live(page, 0, spare);
        if spare.as_ref().is_some_and(whole) {
            return Ok(());
        }
        for unit in 0..units {
            let is_live = spare.as_ref().is_some_and(|spare| self.ftl.is_live(page, unit, spare));
            if !is_live {
                self.wipe_pages(page, unit as usize * UNIT_BYTES, UNIT_BYTES, over)?;
            }
        }
        Ok(())
    }

    fn wipe_pages(
        &mut self,
        page: PageId,
        at: usize,
        len: usize,
        over: Option<Overwrite>,
    ) -> Result<(), FlashError> {
        self.ftl.media.wipe(page, at, len, over.map(|over| over.pattern))
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

    /// Remembers how a sanitize operation stands, by one store.
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
