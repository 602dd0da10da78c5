//! Garbage collection, in slices that host writes pay.
//!
//! While the room for host writes is below a mark, each page written for a host pays for moving some pages of a
//! victim: as many as the victim costs for each page it will give, and more the less room there is. So no write waits
//! for a whole block; one that finds no room left after all does, as the last resort. One page written moves at most
//! [`SLICE_UNITS_MAX`] units and what they share a page with, a page more of a side job, and erases two blocks: a test holds
//! every write to that, at 95 percent and with as little as 5 percent on top.
//!
//! A half-collected block is an ordinary full block with less live data: nothing about it is kept, and after a kill it
//! may be chosen again. Live data moves to blocks of its own, so that what lives long gathers.

use byway_sys::cacheline::prefetch_all;

use crate::block::BlockUse;
use crate::buffer::Stream;
use crate::collector::Victim;
use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::event::FlashEvent;
use crate::frontier::FrontierKind;
use crate::ftl::Ftl;
use crate::ftl::program::PageData;
use crate::geometry::{BlockId, PageId, RESERVED_BLOCKS, UNIT_BYTES};
use crate::location::Location;
use crate::spare::crcs_match;
use crate::spare::{PageKind, SpareRecord, owners_in};
use crate::stall::StallCause;

/// Units that one host page pays for at most.
const SLICE_UNITS_MAX: u64 = 64;

/// Pages that a slice looks at at most: those with nothing live cost a peek at their spare record.
const SLICE_PAGES_MAX: u32 = 48;

/// Pages ahead of which a victim's spare records are asked for, and the entries of the map that they name: a page that moves
/// takes a microsecond, memory that was not looked at for long a few tenths.
const RECORDS_AHEAD: u32 = 6;
const ENTRIES_AHEAD: u32 = 3;

/// Units that one host page pays for towards wear levelling, while a block is too young.
const LEVELLING_UNITS: u64 = 1;

/// Part of the mark at which writes pay by which upkeep begins before, and units that a step of it moves.
const AHEAD_SHARE: u64 = 4;
const AHEAD_UNITS: u64 = 16;

/// Blocks that garbage collection has room for whenever a host's page is written. The reserve is more, unless blocks fail.
const GC_ROOM_BLOCKS: u32 = 2;

/// Times a page is read before what is on it is taken to be out of reach.
const READ_ATTEMPTS: u32 = 3;

/// Times a block is erased before it is given up, where giving it up would leave no room to empty another.
const ERASE_ATTEMPTS: u32 = 4;

/// What one slice may do.
#[derive(Debug, Clone, Copy)]
struct Slice {
    units: u64,
    pages: u32,
}

impl Slice {
    const WHOLE_BLOCK: Self = Self { units: u64::MAX, pages: u32::MAX };

    const fn is_used_up(self) -> bool {
        self.units == 0 || self.pages == 0
    }
}

impl Ftl {
    /// Lets a page that is about to be written for a host pay its share of making room.
    #[inline]
    pub(crate) fn pay_for_room(&mut self, front: FrontierKind, at_ps: u64) {
        let is_short = self.room_pages(front) < self.gc_start_pages(front);
        if is_short || self.collector.has_side_job() || self.blocks.wanted_dead().is_some() {
            self.waited_for(StallCause::GarbageCollection, |ftl| ftl.make_room(front, at_ps));
        }
    }

    fn make_room(&mut self, front: FrontierKind, at_ps: u64) {
        if self.collector.has_side_job() {
            // What fails here fails again, and is reported, when there is no room left to put it off.
            let _ = self.do_side_job(at_ps);
        }
        if let Some(dead) = self.blocks.wanted_dead() {
            // As with side jobs.
            let _ = self.collect_dead(dead, at_ps);
        }
        let (room_pages, mark_pages) = (self.room_pages(front), self.gc_start_pages(front));
        if room_pages < mark_pages {
            self.collect_share(room_pages, mark_pages, at_ps);
        }
    }

    /// Erases a block that holds nothing before its room is needed: a choice among more free blocks spreads wear better.
    fn collect_dead(&mut self, block: BlockId, at_ps: u64) -> Result<(), FlashError> {
        let victim = self.collector.take_block(block, &self.blocks);
        self.collect_slice(victim, Slice { units: SLICE_UNITS_MAX, pages: SLICE_PAGES_MAX }, at_ps)
    }

    /// On a full disk: gives the disk room of one block back that holds nothing, erased by now or full; whether there was one.
    #[cold]
    pub(crate) fn free_disk_room(&mut self, at_ps: u64) -> Result<bool, FlashError> {
        loop {
            let blocks = &self.blocks;
            if self.media.give_up_room(&|block| blocks.get(block).used_for == BlockUse::Free)? {
                return Ok(true);
            }
            match self.blocks.dead() {
                Some(dead) => self.collect_dead(dead, at_ps)?,
                None => return Ok(false),
            }
        }
    }

    fn collect_share(&mut self, room_pages: u64, mark_pages: u64, at_ps: u64) {
        let Some(victim) = self.collector.take_victim(&self.blocks) else { return };
        // Twice the share at half the mark, four times at a quarter: the room stays around the mark.
        let per_page = u64::from(self.geometry.units_per_page()) * victim.live_units();
        let share = (per_page * mark_pages).div_ceil(victim.gain_units().max(1) * room_pages.max(1));
        let slice = Slice { units: share.clamp(1, SLICE_UNITS_MAX), pages: SLICE_PAGES_MAX };
        // As with side jobs.
        let _ = self.collect_slice(victim, slice, at_ps);
    }

    /// Whether a block that holds nothing waits to be erased, or hosts that write units have so little room that they pay for more, or
    /// soon. Values die together, so their blocks are left alone: most will hold nothing before their room is needed.
    pub(crate) fn owes_room(&self) -> bool {
        let (front, mark) = (FrontierKind::Host, self.gc_start_pages(FrontierKind::Host));
        let is_written = self.frontiers.of(front).is_open();
        let is_short = || is_written && self.room_pages(front) < mark + mark / AHEAD_SHARE;
        let has_failed = self.collection_failed_at_seq == Some(self.state.next_seq());
        !has_failed && (self.blocks.wanted_dead().is_some() || is_short())
    }

    /// Empties a block a little, ahead of the writes that would pay for it.
    pub(crate) fn collect_ahead(&mut self, at_ps: u64) {
        let dead = self.blocks.wanted_dead();
        let victim = match dead {
            Some(dead) => Some(self.collector.take_block(dead, &self.blocks)),
            None => self.collector.take_victim(&self.blocks),
        };
        let slice = Slice { units: AHEAD_UNITS, pages: SLICE_PAGES_MAX };
        let collected = victim.map(|victim| {
            self.waited_for(StallCause::GarbageCollection, |ftl| ftl.collect_slice(victim, slice, at_ps))
        });
        // What fails here fails again, and is reported, when a write needs it.
        let has_failed = !matches!(collected, Some(Ok(())));
        self.collection_failed_at_seq = has_failed.then(|| self.state.next_seq());
    }

    /// Goes on emptying a block for its own sake.
    #[cold]
    pub(crate) fn do_side_job(&mut self, at_ps: u64) -> Result<(), FlashError> {
        let Some(mut job) = self.collector.take_side_job() else { return Ok(()) };
        let units = match job.cause() {
            Cause::WearLevelling => LEVELLING_UNITS,
            _ => u64::from(self.geometry.units_per_page()),
        };
        let emptied = self.empty_some(&mut job, Slice { units, pages: SLICE_PAGES_MAX }, at_ps);
        if !matches!(emptied, Ok(true)) {
            self.collector.put_side_job_back(job);
        }
        emptied.map(drop)
    }

    /// Pages that can be written to a frontier before garbage collection must have given a block.
    fn room_pages(&self, front: FrontierKind) -> u64 {
        let free = self.blocks.free_count().saturating_sub(self.blocks_kept_for_gc());
        self.frontiers.of(front).room_pages() + u64::from(free) * u64::from(self.geometry.pages_per_block)
    }

    /// Room below which writes pay: half of what the open blocks hold, which the array has on top.
    fn gc_start_pages(&self, front: FrontierKind) -> u64 {
        u64::from(front.width(&self.geometry)) * u64::from(self.geometry.pages_per_block) / 2
    }

    /// Makes garbage collection's own room anew where blocks that failed have taken it: with room for two blocks it can
    /// finish one though another fails meanwhile.
    #[inline]
    pub(crate) fn restore_gc_room(&mut self, at_ps: u64) -> Result<(), FlashError> {
        while self.blocks.free_count() < GC_ROOM_BLOCKS && self.is_short_of_gc_room() {
            if !self.waited_for(StallCause::GarbageCollection, |ftl| ftl.collect_block(at_ps))? {
                break;
            }
        }
        Ok(())
    }

    fn is_short_of_gc_room(&self) -> bool {
        self.gc_room_units() < u64::from(GC_ROOM_BLOCKS) * u64::from(self.geometry.units_per_block())
    }

    fn gc_room_units(&self) -> u64 {
        let free_pages = u64::from(self.blocks.free_count()) * u64::from(self.geometry.pages_per_block);
        let pages = free_pages + self.frontiers.of(FrontierKind::Gc).room_pages();
        pages * u64::from(self.geometry.units_per_page())
    }

    /// The block that the next page goes to which garbage collection moves. When failures have left no block to open, it is
    /// what others have open: a block that is emptied gives more than is taken there.
    pub(crate) fn next_block_for_gc(&mut self) -> Option<(FrontierKind, BlockId)> {
        let planes = self.geometry.plane_count();
        let fronts = [FrontierKind::Gc].into_iter().chain(FrontierKind::ALL);
        let mut next = |front| {
            let frontier = self.frontiers.of_mut(front);
            Some((front, frontier.next_block(&mut self.blocks, planes, front == FrontierKind::Gc)?))
        };
        fronts.into_iter().find_map(&mut next)
    }

    /// Free blocks that hosts leave to garbage collection, so that it can always finish a block.
    pub(crate) fn blocks_kept_for_gc(&self) -> u32 {
        RESERVED_BLOCKS + self.frontiers.of(FrontierKind::Gc).closed_slots()
    }

    /// Looks for a block to empty for its own sake.
    pub(crate) fn choose_side_job(&mut self) {
        self.collector.choose_side_job(&self.blocks, &self.retention);
    }

    /// Empties and erases one block, however long it takes; false when there is none worth it. On a device without spares,
    /// where the next erase could fail too, nothing is done any more.
    pub(crate) fn collect_block(&mut self, at_ps: u64) -> Result<bool, FlashError> {
        if self.blocks.are_worn_out() {
            return Ok(false);
        }
        let Some(victim) = self.collector.take_victim(&self.blocks) else { return Ok(false) };
        self.collect_slice(victim, Slice::WHOLE_BLOCK, at_ps)?;
        Ok(true)
    }

    /// Works on a victim as long as the slice allows, and keeps it for the next one.
    fn collect_slice(&mut self, mut victim: Victim, slice: Slice, at_ps: u64) -> Result<(), FlashError> {
        let emptied = self.empty_some(&mut victim, slice, at_ps);
        if !matches!(emptied, Ok(true)) {
            self.collector.put_back(victim);
        }
        emptied.map(drop)
    }

    /// Moves what the slice allows, and erases the block once it is empty; true when there is no more to do on it.
    fn empty_some(&mut self, victim: &mut Victim, mut slice: Slice, at_ps: u64) -> Result<bool, FlashError> {
        // Moves wait for their reads but no command waits for the moves: what they keep busy is charged to the planes.
        let mut gc_ps = at_ps;
        while victim.next_page() < self.blocks.get(victim.block()).written {
            if slice.is_used_up() {
                return Ok(false);
            }
            self.prefetch_ahead(victim);
            let page = self.geometry.page(victim.block(), victim.next_page());
            match self.move_page(page, victim.cause(), &mut gc_ps) {
                Ok(units) => slice.units = slice.units.saturating_sub(units),
                Err(Moving::Untrusted) => {
                    self.retire(victim.block());
                    return Ok(true);
                }
                Err(Moving::Failed(error)) => return Err(error),
            }
            slice.pages -= 1;
            victim.pass_page();
        }
        if self.blocks.get(victim.block()).live > 0 {
            // Every page was seen, and nothing is ever pointed into a block that is not open: a record was not what
            // it had been.
            self.retire(victim.block());
            return Ok(true);
        }
        self.order(SyncPoint::BlockErase)?;
        self.erase(victim, gc_ps)?;
        self.choose_side_job();
        Ok(true)
    }

    /// Asks for what the next pages of a victim will be looked up in.
    #[inline]
    fn prefetch_ahead(&self, victim: &Victim) {
        let written = self.blocks.get(victim.block()).written;
        let record = |pages| {
            let page = Some(victim.next_page() + pages).filter(|page| *page < written)?;
            Some(self.media.spare(self.geometry.page(victim.block(), page)))
        };
        if let Some(record) = record(RECORDS_AHEAD) {
            prefetch_all(record);
        }
        if let Some(record) = record(ENTRIES_AHEAD) {
            let units = self.geometry.units_per_page() as usize;
            owners_in(record, units).for_each(|owner| self.map.prefetch(owner));
        }
    }

    /// Erases a block that was emptied. One that fails, or failed before, is given up.
    fn erase(&mut self, victim: &Victim, at_ps: u64) -> Result<(), FlashError> {
        let block = victim.block();
        if self.blocks.get(block).used_for == BlockUse::Failing {
            self.give_up(block);
            return Ok(());
        }
        match self.try_erase(victim) {
            Ok(()) => self.note_erase(block, victim.cause(), at_ps),
            Err(FlashError::MediumFailed { .. }) => self.give_up(block),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Erases a block, several times where it cannot be spared: another like it would not find room to be emptied into.
    fn try_erase(&mut self, victim: &Victim) -> Result<(), FlashError> {
        let mut erased = self.media.erase(victim.block());
        for _ in 1..ERASE_ATTEMPTS {
            let failed = matches!(erased, Err(FlashError::MediumFailed { .. }));
            if !failed || self.gc_room_units() > victim.live_units() {
                break;
            }
            erased = self.media.erase(victim.block());
        }
        erased
    }

    /// Takes a block out of use whose records cannot be trusted. What can be read of it still is.
    fn retire(&mut self, block: BlockId) {
        self.state.count_media_error();
        self.collector.report(FlashEvent::BlockRetired { block: block.0 });
        self.blocks.retire(block);
    }

    /// Moves what is live of a page; says how many units.
    fn move_page(&mut self, page: PageId, cause: Cause, at_ps: &mut u64) -> Result<u64, Moving> {
        let Some(spare) = self.spare(page) else {
            let block = self.geometry.block_of(page);
            return if self.blocks.get(block).live == 0 { Ok(0) } else { Err(Moving::Untrusted) };
        };
        let live = self.live_in(page, &spare);
        if live.count() == 0 {
            return Ok(0);
        }
        let mut data = self.scratch.take();
        let moved = self.read_for_move(page, live, &mut data, cause, at_ps).and_then(|()| match spare.kind {
            PageKind::Page => self.move_whole(&spare, &data, cause, at_ps).map_err(Moving::Failed),
            PageKind::Units => self.move_units(live, &spare, &data, cause, at_ps).map_err(Moving::Failed),
        });
        self.scratch.give_back(data);
        moved.map(|()| u64::from(live.count()))
    }

    /// Units of a page that hold something: those that the map points to, and all of a page that was written for one
    /// entry, of which the map names the first.
    pub(crate) fn live_in(&self, page: PageId, spare: &SpareRecord) -> LiveUnits {
        let units = self.geometry.units_per_page();
        let is_named = |unit: u32| {
            let owner = spare.owner(unit as usize);
            let here = Location::Flash(self.geometry.unit(page, unit));
            owner < self.map.len() && self.map.load(owner) == Ok(here)
        };
        let bit = |unit| u32::from(is_named(unit)) << unit;
        LiveUnits(match spare.kind {
            PageKind::Page => ((1 << units) - 1) * bit(0),
            PageKind::Units => (0..units).map(bit).sum(),
        })
    }

    /// Reads the live units of a page to their places in `into`.
    fn read_for_move(
        &mut self,
        page: PageId,
        live: LiveUnits,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), Moving> {
        // Whether the medium or its records failed, the data is only here: the block is left as it is.
        let faded = self.has_faded(self.geometry.block_of(page));
        if faded || !self.copy_lent(page, live, into) && !self.read_span(page, live, into) {
            return Err(Moving::Untrusted);
        }
        let bytes = u64::from(live.count()) * UNIT_BYTES as u64;
        self.state.count_read(cause, bytes);
        *at_ps = self.timing.read(&self.geometry, self.geometry.block_of(page), bytes, *at_ps);
        Ok(())
    }

    /// Copies live units from where they lie, if the medium lends its pages.
    fn copy_lent(&self, page: PageId, live: LiveUnits, into: &mut [u8]) -> bool {
        let Some(lent) = self.media.lend(page, 0, into.len()) else { return false };
        for at in live.iter().map(|unit| unit as usize * UNIT_BYTES) {
            into[at..at + UNIT_BYTES].copy_from_slice(&lent[at..at + UNIT_BYTES]);
        }
        true
    }

    /// Reads from the first to the last live unit at once, several times if it fails.
    fn read_span(&self, page: PageId, live: LiveUnits, into: &mut [u8]) -> bool {
        let (first, last) = (live.first().unwrap_or(0) as usize, live.last().unwrap_or(0) as usize);
        let span = first * UNIT_BYTES..(last + 1) * UNIT_BYTES;
        (0..READ_ATTEMPTS).any(|_| self.media.read(page, span.start, &mut into[span.clone()]).is_ok())
    }

    fn move_whole(
        &mut self,
        spare: &SpareRecord,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let owner = spare.owner(0);
        // A damaged page moves with its checksums, so that the units of it that are whole can still be read.
        let mut moved = *spare;
        moved.cause = cause as u8;
        let to = self.program(FrontierKind::Gc, &mut moved, PageData::Bytes(data), cause, at_ps)?;
        self.flip(owner, Location::Flash(self.geometry.unit(to, 0)), PageKind::Page);
        Ok(())
    }

    fn move_units(
        &mut self,
        live: LiveUnits,
        spare: &SpareRecord,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        for unit in live.iter().map(|unit| unit as usize) {
            let bytes = &data[unit * UNIT_BYTES..][..UNIT_BYTES];
            let (owner, crc) = (spare.owner(unit), spare.crc(unit));
            if crcs_match(spare, unit, bytes) {
                self.append(Stream::Gc, owner, bytes, crc, cause, at_ps)?;
            } else {
                self.state.count_media_error();
                self.flip(owner, Location::Lost, PageKind::Units);
            }
        }
        Ok(())
    }
}

/// Why a page was not moved.
enum Moving {
    /// It cannot be read, or its record not be trusted: its block is not to be erased.
    Untrusted,
    /// There was nowhere to put it.
    Failed(FlashError),
}

/// A set of units of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveUnits(u32);

impl LiveUnits {
    pub(crate) const fn contains(self, unit: u32) -> bool {
        self.0 >> unit & 1 == 1
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    fn first(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }

    fn last(self) -> Option<u32> {
        self.0.checked_ilog2()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |unit| self.0 >> unit & 1 != 0)
    }
}
