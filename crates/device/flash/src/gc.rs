//! Garbage collection: greedy. The full block with least live data is emptied and erased.
//!
//! Live data moves to blocks of its own, so that what lives long gathers. Which block to take is decided in one
//! function, [`Ftl::choose_victim`].

use crate::blocks::BlockUse;
use crate::buffer::Stream;
use crate::counters::Cause;
use crate::error::FlashError;
use crate::ftl::Ftl;
use crate::geometry::{BlockId, PageId, UNIT_BYTES};
use crate::map::Location;
use crate::read::crcs_match;
use crate::spare::{PageKind, SpareRecord};

impl Ftl {
    /// Empties and erases one block; false when there is none worth it.
    pub(crate) fn collect_block(&mut self, at_ps: u64) -> Result<bool, FlashError> {
        let Some(victim) = self.choose_victim() else { return Ok(false) };
        // Moves wait for their reads but nobody waits for the moves: what they keep busy is charged to the planes.
        let mut gc_ps = at_ps;
        for page in 0..self.geometry.pages_per_block {
            if self.blocks.get(victim).live == 0 {
                break;
            }
            let page = self.geometry.page(victim, page);
            match self.spare(page) {
                Some(spare) => self.move_page(page, &spare, &mut gc_ps)?,
                None => return Ok(self.retire(victim)),
            }
        }
        if self.count_live(victim) != 0 {
            return Ok(self.retire(victim));
        }
        self.media.erase(victim)?;
        self.note_erase(victim, Cause::Gc, gc_ps);
        Ok(true)
    }

    /// The full block with fewest live units, if emptying it gains anything.
    fn choose_victim(&self) -> Option<BlockId> {
        let full = self.geometry.units_per_block();
        self.blocks
            .iter()
            .filter(|(_, block)| block.used_for == BlockUse::Full && block.live < full)
            .min_by_key(|(_, block)| block.live)
            .map(|(id, _)| id)
    }

    /// Takes a block out of use whose records cannot be trusted. What can be read of it still is.
    fn retire(&mut self, block: BlockId) -> bool {
        self.state.count_media_error();
        self.blocks.retire(block);
        true
    }

    fn move_page(&mut self, page: PageId, spare: &SpareRecord, at_ps: &mut u64) -> Result<(), FlashError> {
        let units = self.geometry.units_per_page();
        let live: Vec<u32> = match spare.kind {
            PageKind::Page if self.is_live(page, 0, spare) => (0..units).collect(),
            PageKind::Page => Vec::new(),
            PageKind::Units => (0..units).filter(|unit| self.is_live(page, *unit, spare)).collect(),
        };
        if live.is_empty() {
            return Ok(());
        }
        let mut data = self.take_scratch();
        let moved = self.read_for_move(page, live.len(), &mut data, at_ps).and_then(|()| match spare.kind {
            PageKind::Page => self.move_whole(spare, &data, at_ps),
            PageKind::Units => self.move_units(&live, spare, &data, at_ps),
        });
        self.give_scratch(data);
        moved
    }

    fn read_for_move(
        &mut self,
        page: PageId,
        units: usize,
        data: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let bytes = (units * UNIT_BYTES) as u64;
        self.media.read(page, 0, data)?;
        self.state.count_read(Cause::Gc, bytes);
        *at_ps = self.timing.read(&self.geometry, self.geometry.block_of(page), bytes, *at_ps);
        Ok(())
    }

    fn move_whole(&mut self, spare: &SpareRecord, data: &[u8], at_ps: &mut u64) -> Result<(), FlashError> {
        let owner = spare.owner(0);
        // A damaged page moves with its checksums, so that the units of it that are whole can still be read.
        let mut moved = *spare;
        moved.cause = Cause::Gc as u8;
        let to = self.program(Stream::Gc, &mut moved, data, Cause::Gc, at_ps)?;
        self.flip(owner, Location::Flash(self.geometry.unit(to, 0)), PageKind::Page);
        Ok(())
    }

    fn move_units(
        &mut self,
        live: &[u32],
        spare: &SpareRecord,
        data: &[u8],
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        for unit in live.iter().map(|unit| *unit as usize) {
            let bytes = &data[unit * UNIT_BYTES..][..UNIT_BYTES];
            let (owner, crc) = (spare.owner(unit), spare.crc(unit));
            if crcs_match(spare, unit, bytes) {
                self.append(Stream::Gc, owner, bytes, crc, Cause::Gc, at_ps)?;
            } else {
                self.state.count_media_error();
                self.flip(owner, Location::Lost, PageKind::Units);
            }
        }
        Ok(())
    }
}
