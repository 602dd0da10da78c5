//! Pages programmed: to which block each goes, and where it goes when the medium fails.

use std::ops::Range;

use byway_sys::FileError;

use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::frontier::FrontierKind;
use crate::ftl::Ftl;
use crate::geometry::{BlockId, PageId};
use crate::spare::SpareRecord;
use crate::stall::StallCause;

/// Blocks that a page is tried on before the medium is taken to fail as a whole.
const PROGRAM_ATTEMPTS: u32 = 8;

/// What a page is programmed with.
#[derive(Clone, Copy)]
pub(crate) enum PageData<'a> {
    Bytes(&'a [u8]),
    /// A slot of the unit buffer.
    Slot(u32),
}

impl Ftl {
    /// Programs the next page of a frontier. Nothing points to it yet. Where the medium fails, the block is given up and
    /// the page goes to another one.
    pub(crate) fn program(
        &mut self,
        front: FrontierKind,
        spare: &mut SpareRecord,
        data: PageData<'_>,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<PageId, FlashError> {
        if front != FrontierKind::Gc {
            self.pay_for_room(front, *at_ps);
            self.restore_gc_room(*at_ps)?;
        }
        match data {
            PageData::Bytes(bytes) => self.program_bytes(front, spare, bytes, cause, at_ps),
            PageData::Slot(slot) => {
                let mut page = self.scratch.take();
                self.buffer.copy_page(slot, &mut page);
                let done = self.program_bytes(front, spare, &page, cause, at_ps);
                self.scratch.give_back(page);
                done
            }
        }
    }

    fn program_bytes(
        &mut self,
        front: FrontierKind,
        spare: &mut SpareRecord,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<PageId, FlashError> {
        let mut record = [0; 256];
        let record = &mut record[..self.geometry.spare_record_bytes()];
        let mut attempts_left = PROGRAM_ATTEMPTS;
        loop {
            let (front, block) = self.next_prepared_block(front, *at_ps)?;
            let page_in_block = self.blocks.get(block).written;
            if page_in_block == 0 {
                self.order_since(SyncPoint::BlockOpen, self.blocks.erased_in(block))?;
            }
            // Numbered last: making room may have programmed pages, and what is newest has the highest number.
            spare.seq = self.state.take_seq();
            spare.encode(record);
            let page = self.geometry.page(block, page_in_block);
            self.state.set_last_program(page);
            match self.media.program(page, data, record) {
                Ok(()) => {
                    self.note_program(front, block, data.len(), cause, at_ps);
                    return Ok(page);
                }
                Err(error) => self.go_on_after(error, front, block, &mut attempts_left)?,
            }
        }
    }

    fn note_program(
        &mut self,
        front: FrontierKind,
        block: BlockId,
        bytes: usize,
        cause: Cause,
        at_ps: &mut u64,
    ) {
        *at_ps = self.timing.program(&self.geometry, block, self.bytes_on_bus(bytes), *at_ps);
        self.state.count_programs(cause, 1, bytes as u64);
        self.frontiers.of_mut(front).note_program();
        if self.blocks.note_program(block, self.state.programs()) {
            self.frontiers.of_mut(front).close(block, 0);
            if self.retention.refresh {
                self.choose_side_job();
            }
        }
    }

    /// Whether a page that could not be programmed goes to the next open block. A block that the medium failed in is
    /// bad; one that the image's file could not be written in may be written another time.
    #[cold]
    fn go_on_after(
        &mut self,
        error: FlashError,
        front: FrontierKind,
        block: BlockId,
        attempts_left: &mut u32,
    ) -> Result<(), FlashError> {
        *attempts_left -= 1;
        match error {
            FlashError::MediumFailed { .. } => self.note_program_failure(front, block),
            FlashError::File(FileError::Io { .. }) => {}
            other => return Err(other),
        }
        match *attempts_left {
            _ if self.blocks.are_worn_out() => Err(FlashError::WornOut),
            0 => Err(error),
            _ => Ok(()),
        }
    }

    fn note_program_failure(&mut self, front: FrontierKind, block: BlockId) {
        let left_pages = self.geometry.pages_per_block - self.blocks.get(block).written;
        self.frontiers.of_mut(front).close(block, left_pages);
        self.blocks.fail(block);
        self.choose_side_job();
    }

    /// Data and spare bytes that cross the channel with it.
    fn bytes_on_bus(&self, data_bytes: usize) -> u64 {
        data_bytes as u64 + u64::from(self.geometry.spare_bytes)
    }

    /// The block the next page of a frontier goes to, with room for it: on a full disk, the first open block that has.
    fn next_prepared_block(
        &mut self,
        front: FrontierKind,
        at_ps: u64,
    ) -> Result<(FrontierKind, BlockId), FlashError> {
        let mut slots_left = self.frontiers.of_mut(front).width();
        loop {
            let (front, block) = self.next_block(front, at_ps)?;
            slots_left = slots_left.saturating_sub(1);
            match self.media.prepare(block, self.blocks.get(block).written) {
                Ok(()) => return Ok((front, block)),
                Err(_) if slots_left > 0 => {}
                Err(FlashError::File(FileError::DiskFull { .. })) if self.free_disk_room(at_ps)? => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The block the next page of a frontier goes to, and whose it is. Host writes leave garbage collection the blocks it
    /// needs, and collect a whole block themselves when that leaves them none.
    fn next_block(&mut self, front: FrontierKind, at_ps: u64) -> Result<(FrontierKind, BlockId), FlashError> {
        if front == FrontierKind::Gc {
            return self.next_block_for_gc().ok_or_else(|| self.no_room());
        }
        let planes = self.geometry.plane_count();
        loop {
            let may_open = self.blocks.free_count() > self.blocks_kept_for_gc();
            if let Some(block) = self.frontiers.of_mut(front).next_block(&mut self.blocks, planes, may_open) {
                return Ok((front, block));
            }
            if !self.waited_for(StallCause::GarbageCollection, |ftl| ftl.collect_block(at_ps))? {
                return Err(self.no_room());
            }
        }
    }

    /// Why there is no block to write to.
    #[cold]
    fn no_room(&self) -> FlashError {
        if self.blocks.are_worn_out() { FlashError::WornOut } else { FlashError::Full }
    }

    /// Takes units for media that keep no data: counts the pages that they would fill.
    #[inline]
    pub(crate) fn discard_units(&mut self, units: u64, cause: Cause, at_ps: &mut u64) {
        let filled = self.discarded.add(units);
        if !filled.is_empty() {
            self.count_discarded(filled, cause, at_ps);
        }
    }

    fn count_discarded(&mut self, filled: Range<u64>, cause: Cause, at_ps: &mut u64) {
        let (pages, page_bytes) = (filled.end - filled.start, self.geometry.page_bytes as usize);
        self.state.count_programs(cause, pages, pages * page_bytes as u64);
        for page in filled {
            let block = BlockId((page % u64::from(self.geometry.plane_count())) as u32);
            *at_ps = self.timing.program(&self.geometry, block, self.bytes_on_bus(page_bytes), *at_ps);
        }
    }
}
