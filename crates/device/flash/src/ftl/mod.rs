//! The translation layer: reads, writes and trims of logical units and pages.
//!
//! A write programs its data to a new place and then flips the map entry by one store. What was acknowledged is never
//! overwritten in place. Between the flip and the block counts stands an intent in protected state, so that counts are
//! exact after a kill.

mod discarded;
mod disturb;
mod gc;
mod lease;
pub(crate) mod program;
pub(crate) mod read;
pub(crate) mod recovery;
mod scratch;

use byway_sys::{FileError, checksum};

use crate::block::BlockUse;
use crate::blocks::BlockTable;
use crate::buffer::{Stream, UnitBuffer};
use crate::collector::Collector;
use crate::counters::Cause;
use crate::durability::{Durability, Epoch, SyncPoint};
use crate::error::FlashError;
use crate::event::{FlashEvent, Reporter};
use crate::frontier::{FrontierKind, Frontiers};
use crate::ftl::discarded::Discarded;
use crate::ftl::lease::Leases;
use crate::ftl::program::PageData;
use crate::ftl::scratch::Scratch;
use crate::geometry::{BlockId, Geometry, PageId, UNIT_BYTES, UnitId};
use crate::image::layout::Layout;
use crate::location::{Before, EntryIndex, Location};
use crate::map::UnitMap;
use crate::media::{Media, PageReader};
use crate::protected::Backing;
use crate::retention::RetentionLimits;
use crate::spare::{PageKind, SpareRecord, seq_in};
use crate::stall::{StallCause, StallTimer, Stalls};
use crate::state::State;
use crate::syncs::{FinishedSync, PendingSync, Syncs};
use crate::timing::FlashTiming;
use crate::victims::GcPolicy;

pub(crate) struct Ftl {
    geometry: Geometry,
    pub(crate) media: Box<dyn Media>,
    /// Reads units of mapped media in one pass.
    pages: Option<PageReader>,
    timing: FlashTiming,
    pub(crate) syncs: Syncs,
    /// A loss of power is being recovered from: numbers of programs that are synced meanwhile are not vouched for.
    recovers: bool,
    pub(crate) state: State,
    pub(crate) map: UnitMap,
    pub(crate) blocks: BlockTable,
    pub(crate) buffer: UnitBuffer,
    frontiers: Frontiers,
    collector: Collector,
    retention: RetentionLimits,
    scratch: Scratch,
    discarded: Discarded,
    pub(crate) leases: Leases,
    /// Waits of commands, those that users of the flash noted too.
    pub(crate) stalls: Stalls,
    /// Time of upkeep that no command waited for, by cause.
    pub(crate) upkeep: Stalls,
    /// Number of the next program when a step of collection ahead of writes failed: the next step is tried after another program.
    collection_failed_at_seq: Option<u64>,
}

impl Ftl {
    pub(crate) fn open(
        geometry: Geometry,
        layout: &Layout,
        backing: &Backing,
        media: Box<dyn Media>,
        timing: FlashTiming,
        blocks: BlockTable,
        syncs: Syncs,
    ) -> Result<Self, FlashError> {
        let mut ftl = Self {
            syncs,
            recovers: false,
            pages: media.reader(),
            media,
            timing,
            state: State::open(backing, layout)?,
            map: UnitMap::open(backing, layout, &geometry)?,
            buffer: UnitBuffer::open(backing, layout, &geometry)?,
            frontiers: Frontiers::open(&geometry, &blocks),
            collector: Collector::default(),
            retention: RetentionLimits::default(),
            blocks,
            geometry,
            scratch: Scratch::new(geometry.page_bytes as usize),
            discarded: Discarded::new(geometry.units_per_page()),
            leases: Leases::default(),
            stalls: Stalls::default(),
            upkeep: Stalls::default(),
            collection_failed_at_seq: None,
        };
        // Beside a writer nothing is written, and its slots change.
        if !backing.is_beside() {
            ftl.take_up_slots();
        }
        Ok(ftl)
    }

    #[inline]
    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn set_timing(&mut self, on: bool) {
        self.timing.set(on);
    }

    /// Whether reads may come in any order: they take no modelled time, disturb no block, and none is too old.
    pub(crate) const fn reads_in_any_order(&self) -> bool {
        !self.timing.is_on() && !self.retention.is_on()
    }

    pub(crate) fn set_gc_policy(&mut self, policy: GcPolicy) {
        self.collector.set_policy(policy);
    }

    pub(crate) fn set_reporter(&mut self, reporter: Reporter) {
        self.collector.set_reporter(reporter);
    }

    pub(crate) fn set_retention(&mut self, limits: RetentionLimits) {
        self.retention = limits;
    }

    /// Repairs the block counts of a flip that was cut short; says how many blocks were counted anew.
    pub(crate) fn finish_intent(&mut self) -> u32 {
        let Some((entry, old)) = self.state.intent() else { return 0 };
        let new = (entry < self.map.len()).then(|| self.map.load(entry).ok()).flatten();
        let mut blocks: Vec<BlockId> =
            [old, new].into_iter().flatten().filter_map(|place| self.block_at(place)).collect();
        blocks.dedup();
        for block in &blocks {
            let live = self.count_live(*block);
            self.blocks.set_live(*block, live);
        }
        self.state.clear_intent();
        blocks.len() as u32
    }

    fn block_at(&self, location: Location) -> Option<BlockId> {
        match location {
            Location::Flash(unit) if unit.0 < self.geometry.unit_count() => {
                Some(self.geometry.block_of(self.geometry.page_of(unit)))
            }
            _ => None,
        }
    }

    /// Units of a block that the map points to.
    pub(crate) fn count_live(&self, block: BlockId) -> u32 {
        (0..self.blocks.get(block).written)
            .map(|page| self.geometry.page(block, page))
            .filter_map(|page| self.spare(page).map(|spare| self.live_in(page, &spare).count()))
            .sum()
    }

    pub(crate) fn spare(&self, page: PageId) -> Option<SpareRecord> {
        SpareRecord::decode(self.media.spare(page), self.geometry.units_per_page() as usize)
    }

    /// Writes one whole page for one entry to a frontier. Says whether the entry was unmapped before.
    pub(crate) fn write_page(
        &mut self,
        front: FrontierKind,
        entry: EntryIndex,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<bool, FlashError> {
        if !self.media.keeps_data() {
            self.discard_units(u64::from(self.geometry.units_per_page()), cause, at_ps);
            return Ok(false);
        }
        self.make_ready(entry, 1, *at_ps)?;
        let mut spare = self.spare_of(PageKind::Page, cause, data, |_| entry);
        let page = self.program(front, &mut spare, PageData::Bytes(data), cause, at_ps)?;
        Ok(self.flip(entry, Location::Flash(self.geometry.unit(page, 0)), PageKind::Page))
    }

    /// Takes disk room for entries of the map; on a full disk, that of blocks which hold nothing.
    #[inline]
    fn make_ready(&mut self, first: EntryIndex, count: u64, at_ps: u64) -> Result<(), FlashError> {
        loop {
            match self.map.make_ready(first, count) {
                Err(FlashError::File(FileError::DiskFull { .. })) if self.free_disk_room(at_ps)? => {}
                done => return done,
            }
        }
    }

    /// Writes whole units for consecutive entries: full pages go to flash, the rest gathers in the buffer.
    /// Says how many entries were unmapped before. On an error the first units may have been written.
    pub(crate) fn write_units(
        &mut self,
        first: EntryIndex,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<u64, FlashError> {
        let units = (data.len() / UNIT_BYTES) as u64;
        if !self.media.keeps_data() {
            self.discard_units(units, cause, at_ps);
            return Ok(0);
        }
        self.make_ready(first, units, *at_ps)?;
        let (mut entry, mut newly) = (first, 0);
        let mut pages = data.chunks_exact(self.geometry.page_bytes as usize);
        for page in &mut pages {
            newly += self.write_full_page(entry, page, cause, at_ps)?;
            entry += u64::from(self.geometry.units_per_page());
        }
        for unit in pages.remainder().chunks_exact(UNIT_BYTES) {
            newly +=
                u64::from(self.append(Stream::Host, entry, unit, checksum::crc32c(unit), cause, at_ps)?);
            entry += 1;
        }
        Ok(newly)
    }

    fn write_full_page(
        &mut self,
        first: EntryIndex,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<u64, FlashError> {
        let mut spare = self.spare_of(PageKind::Units, cause, data, |unit| first + unit as u64);
        let page = self.program(FrontierKind::Host, &mut spare, PageData::Bytes(data), cause, at_ps)?;
        let units = 0..self.geometry.units_per_page();
        Ok(units.map(|unit| u64::from(self.flip_to_page(first + u64::from(unit), page, unit))).sum())
    }

    fn flip_to_page(&mut self, entry: EntryIndex, page: PageId, unit: u32) -> bool {
        self.flip(entry, Location::Flash(self.geometry.unit(page, unit)), PageKind::Units)
    }

    fn spare_of(
        &self,
        kind: PageKind,
        cause: Cause,
        data: &[u8],
        owner: impl Fn(usize) -> EntryIndex,
    ) -> SpareRecord {
        let mut spare = SpareRecord::new(kind, cause as u8, self.geometry.units_per_page() as usize);
        for (unit, bytes) in data.chunks_exact(UNIT_BYTES).enumerate() {
            spare.set(unit, owner(unit), checksum::crc32c(bytes));
        }
        spare
    }

    /// Adds a unit to the buffer slot of `stream` and points the map there. Says whether it was unmapped before.
    pub(crate) fn append(
        &mut self,
        stream: Stream,
        entry: EntryIndex,
        data: &[u8],
        crc: u32,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<bool, FlashError> {
        if !self.buffer.has_room(stream) {
            self.open_slot(stream, cause, at_ps)?;
        }
        let seq = self.state.take_seq();
        let place = self.buffer.push(stream, entry, data, crc, seq);
        Ok(self.flip(entry, Location::Buffer(place), PageKind::Units))
    }

    /// Gives a stream an empty slot, once what the last one holds is in flash.
    fn open_slot(&mut self, stream: Stream, cause: Cause, at_ps: &mut u64) -> Result<(), FlashError> {
        for slot in self.buffer.held(stream) {
            self.flush_slot(stream, slot, cause, at_ps)?;
        }
        let (slot, since) = self.buffer.next(stream).ok_or(FlashError::Full)?;
        self.order_since(SyncPoint::BufferSlot, since)?;
        self.buffer.begin(slot);
        Ok(())
    }

    /// Programs the page of a buffer slot and gives the slot up.
    pub(crate) fn flush_slot(
        &mut self,
        stream: Stream,
        slot: u32,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let units = self.geometry.units_per_page();
        let mut spare = SpareRecord::new(PageKind::Units, cause as u8, units as usize);
        let mut live = 0;
        for position in 0..units {
            if let Some((owner, crc)) = self.buffered(slot, position) {
                spare.set(position as usize, owner, crc);
                live += 1;
            }
        }
        if live > 0 {
            let page = self.program(stream.into(), &mut spare, PageData::Slot(slot), cause, at_ps)?;
            for position in 0..units {
                if let Some((owner, _)) = self.buffered(slot, position) {
                    self.flip_to_page(owner, page, position);
                }
            }
        }
        self.buffer.give_up(slot, self.syncs.epoch());
        Ok(())
    }

    /// Owner and checksum of a buffered unit that the map points to.
    pub(crate) fn buffered(&self, slot: u32, position: u32) -> Option<(EntryIndex, u32)> {
        let unit = self.buffer.unit_at(slot, position)?;
        let here = Location::Buffer(unit.place);
        let is_live = unit.owner < self.map.len() && self.map.load(unit.owner) == Ok(here);
        is_live.then_some((unit.owner, unit.crc))
    }

    /// Puts what was stored so far on the medium before what follows; see [`SyncPoint`].
    pub(crate) fn order(&mut self, point: SyncPoint) -> Result<(), FlashError> {
        if self.syncs.durability() == Durability::Process {
            return Ok(());
        }
        self.order_now(point)
    }

    /// As [`Ftl::order`], whatever a completion promises.
    pub(crate) fn order_now(&mut self, point: SyncPoint) -> Result<(), FlashError> {
        let synced = self.waited_for(StallCause::Sync, |ftl| ftl.syncs.order_now(point))?;
        self.note_sync(synced);
        Ok(())
    }

    pub(crate) fn order_since(&mut self, point: SyncPoint, epoch: Epoch) -> Result<(), FlashError> {
        if self.syncs.is_synced(epoch) { Ok(()) } else { self.order(point) }
    }

    /// Puts everything stored so far on the medium, as it has been promised.
    pub(crate) fn sync(&mut self, point: SyncPoint) -> Result<(), FlashError> {
        let synced = self.waited_for(StallCause::Sync, |ftl| ftl.syncs.sync(point))?;
        self.note_sync(synced);
        Ok(())
    }

    /// Does work that a command waits for, and counts how long it took.
    fn waited_for<R>(&mut self, cause: StallCause, work: impl FnOnce(&mut Self) -> R) -> R {
        let timer = StallTimer::start(self.stalls.total_ns());
        let done = work(self);
        let waited_ns = timer.stop(self.stalls.total_ns());
        self.stalls.note(cause, waited_ns);
        done
    }

    /// Begins a sync that another thread waits for.
    pub(crate) fn begin_sync(&mut self, point: SyncPoint) -> PendingSync {
        self.syncs.begin(point, self.state.next_seq())
    }

    pub(crate) fn end_sync(&mut self, sync: FinishedSync) -> Result<(), FlashError> {
        self.stalls.note(StallCause::Sync, sync.took_ns());
        let programs = self.syncs.end(sync)?;
        self.state.note_synced(programs);
        Ok(())
    }

    fn note_sync(&mut self, synced: bool) {
        if synced && !self.recovers {
            self.state.note_synced(self.state.next_seq());
        }
    }

    /// Points `entry` at `new` by one store and moves the block counts along. Says whether it was unmapped before.
    #[inline]
    pub(crate) fn flip(&mut self, entry: EntryIndex, new: Location, kind: PageKind) -> bool {
        // A damaged entry has lost its block; the count of that block stays too high, which costs room, not data.
        let old = self.map.load(entry).unwrap_or(Location::Lost);
        let units = match kind {
            PageKind::Page => self.geometry.units_per_page(),
            PageKind::Units => 1,
        };
        let before = self.before(entry, old);
        self.state.set_intent(entry, old);
        self.map.store(entry, new, before);
        if let Some(block) = self.block_at(old) {
            self.blocks.remove_live(block, units);
        }
        if let Some(block) = self.block_at(new) {
            self.blocks.add_live(block, units);
        }
        self.state.clear_intent();
        old == Location::Unmapped
    }

    /// What an entry that leaves `old` was at the last sync.
    #[inline]
    fn before(&mut self, entry: EntryIndex, old: Location) -> Before {
        match old {
            Location::Unmapped => Before::Unmapped,
            Location::Lost => Before::Lost,
            Location::Flash(_) | Location::Buffer(_) => match self.map.before(entry) {
                Before::Mapped => Before::Mapped,
                before => self.before_unless_synced(old, before),
            },
        }
    }

    #[cold]
    fn before_unless_synced(&mut self, old: Location, before: Before) -> Before {
        // Of a damaged record nothing is found after a loss of power, whatever its number.
        let seq = match old {
            Location::Flash(unit) => Some(seq_in(self.media.spare(self.geometry.page_of(unit)))),
            _ => self.seq_at(old),
        };
        if self.syncs.may_cover(seq) {
            // Whether `old` is what the last sync covered is being decided. A sync that fails is reported by the next.
            let synced = self.syncs.order_now(SyncPoint::EntryMove).unwrap_or(false);
            self.note_sync(synced);
        }
        if seq >= Some(self.state.synced_seq()) { before } else { Before::Mapped }
    }

    /// The number of what was programmed, or put in the buffer, at a place.
    pub(crate) fn seq_at(&self, location: Location) -> Option<u64> {
        match location {
            Location::Flash(unit) => self.spare(self.geometry.page_of(unit)).map(|spare| spare.seq),
            Location::Buffer(place) => self.buffer.unit(place).map(|unit| unit.seq),
            Location::Unmapped | Location::Lost => None,
        }
    }

    /// Forgets an entry. Says whether it was mapped.
    pub(crate) fn trim(&mut self, entry: EntryIndex, kind: PageKind) -> bool {
        if self.map.load(entry) == Ok(Location::Unmapped) {
            return false;
        }
        self.flip(entry, Location::Unmapped, kind);
        true
    }

    #[inline]
    pub(crate) fn is_mapped(&self, entry: EntryIndex) -> bool {
        self.map.load(entry) != Ok(Location::Unmapped)
    }

    /// Mapped entries among `first..first + entries`.
    pub(crate) fn count_mapped(&self, first: EntryIndex, entries: u64) -> u64 {
        let (mut index, end, mut mapped) = (first, first + entries, 0);
        while index < end {
            let absent = self.map.absent_run(index);
            mapped += u64::from(absent == 0 && self.is_mapped(index));
            index += absent.max(1);
        }
        mapped
    }

    /// Erases full blocks that hold nothing live and gives their room back.
    pub(crate) fn reclaim_empty_blocks(&mut self, at_ps: u64) -> Result<(), FlashError> {
        let empty: Vec<BlockId> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.used_for == BlockUse::Full && block.live == 0)
            .map(|(id, _)| id)
            .collect();
        if !empty.is_empty() {
            self.order(SyncPoint::BlockErase)?;
        }
        for block in empty {
            match self.media.erase_and_free(block) {
                Ok(()) => self.note_erase(block, Cause::Metadata, at_ps),
                Err(FlashError::MediumFailed { .. }) => self.give_up(block),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes a block that holds nothing out of use.
    pub(crate) fn give_up(&mut self, block: BlockId) {
        self.collector.leave(block);
        self.collector.report(FlashEvent::BlockGivenUp { block: block.0 });
        self.blocks.give_up(block);
    }

    pub(crate) fn note_erase(&mut self, block: BlockId, cause: Cause, at_ps: u64) {
        self.collector.leave(block);
        self.timing.erase(&self.geometry, block, at_ps);
        self.state.count_erase(cause);
        self.blocks.note_erase(block, self.syncs.epoch());
    }

    pub(crate) fn media_error(&mut self, unit: UnitId, why: &'static str) -> FlashError {
        self.state.count_media_error();
        let page = self.geometry.page_of(unit);
        let block = self.geometry.block_of(page);
        let page = (page.0 % u64::from(self.geometry.pages_per_block)) as u32;
        FlashError::Media { block: block.0, page, why }
    }
}
