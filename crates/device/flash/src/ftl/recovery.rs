//! Recovery: what the last opener left is made whole.
//!
//! A process that died left everything it stored, in order: one flip may be half counted, and one page programmed
//! that nothing points to. A loss of real power left what was synced last, and of everything stored since any version
//! of any sector. By the order of syncs (`docs/decisions/0007-sync-order-and-power-loss-recovery.md`) the data that an
//! entry of the map had at the last sync is still there, and an entry that moved says whether it had any. So each entry
//! is looked at once: where its new place did not reach the medium, it goes back. Only what was programmed since the last sync
//! is read; block counts follow from the map.

use std::collections::HashMap;

use byway_sys::checksum;

use crate::block::{Block, BlockUse};
use crate::buffer::Stream;
use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::frontier::Frontiers;
use crate::ftl::Ftl;
use crate::ftl::read::ReadError;
use crate::geometry::{BlockId, PageId, UNIT_BYTES};
use crate::location::{Before, EntryIndex, Location};
use crate::spare::crcs_match;
use crate::spare::{PageKind, SpareRecord};

/// What opening an image found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The image had not been closed.
    pub unclean: bool,
    /// Real power may have been lost with what was not synced: the kernel was started anew since.
    pub power_lost: bool,
    /// Blocks whose live data was counted anew.
    pub recounted_blocks: u32,
    /// Namespaces whose removal was finished.
    pub removed_namespaces: u32,
    /// Map entries that were looked at after a loss of power.
    pub entries: u64,
    /// Of these, entries that are again what they were at the last sync.
    pub reverted: u64,
    /// Of these, entries whose data is lost: reads of them fail. After a kill, units that waited in leases and are damaged so that
    /// it is not known whose they are.
    pub lost: u64,
}

/// Entries of the map that belong to one namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owned {
    pub(crate) first: EntryIndex,
    pub(crate) entries: u64,
    pub(crate) kind: PageKind,
}

impl Ftl {
    /// After the death of a process: finishes the flip that was under way, takes in what was written by leases if there were any, and takes the page back
    /// that was programmed for nothing.
    pub(crate) fn recover_from_death(&mut self, read_only: bool, had_leases: bool, found: &mut Recovery) {
        found.recounted_blocks = self.finish_intent();
        if had_leases {
            self.take_in_left(found);
        }
        let pages = u64::from(self.geometry.block_count()) * u64::from(self.geometry.pages_per_block);
        let last = self.state.last_program().filter(|page| page.0 < pages);
        if !read_only && let Some(page) = last {
            // What cannot be done now is a danger only to a write that real power takes away.
            let _ = self.take_back(page);
        }
    }

    /// After a loss of real power. `owned` is sorted and does not overlap.
    pub(crate) fn recover_from_power_loss(
        &mut self,
        owned: &[Owned],
        read_only: bool,
        had_leases: bool,
        found: &mut Recovery,
    ) -> Result<(), FlashError> {
        if !read_only {
            self.map.give_back_absent()?;
            self.map.take_present()?;
        }
        self.forget_unowned(owned);
        let doubtful = self.find_doubtful(owned, found)?;
        self.revert(&doubtful, found)?;
        let unsynced = self.correct_blocks(owned);
        self.state.clear_intent();
        if had_leases {
            self.take_in_proven(owned);
        }
        self.take_up_slots();
        found.recounted_blocks = self.geometry.block_count();
        if read_only {
            return Ok(());
        }
        self.recovers = true;
        let settled = self.settle_unsynced(unsynced);
        self.recovers = false;
        settled
    }

    /// Takes pages back that no sync covered, and empties the buffer. What is synced on the way, by a thread that makes room or
    /// opens a block, does not count as such before all of it is done: should the power be lost again, it is found again.
    fn settle_unsynced(&mut self, unsynced: Vec<PageId>) -> Result<(), FlashError> {
        // Blocks that were erased here are programmed now.
        self.order_now(SyncPoint::BlockOpen)?;
        for page in unsynced {
            self.take_back(page)?;
        }
        self.flush_slots()?;
        // Units in the buffer that nothing points to were never synced, whole or not. The numbers that are synced
        // from here on would vouch for them at the next loss.
        self.order_now(SyncPoint::BufferSlot)?;
        self.buffer.empty();
        Ok(())
    }

    /// What no namespace owns was written for one whose record did not reach the medium.
    fn forget_unowned(&mut self, owned: &[Owned]) {
        let mut at = 0;
        let end = Owned { first: self.map.len(), entries: 0, kind: PageKind::Units };
        for part in owned.iter().chain([&end]) {
            self.each_present(at, part.first, |ftl, entry| {
                if ftl.is_mapped(entry) {
                    ftl.map.store(entry, Location::Unmapped, Before::Mapped);
                }
            });
            at = part.first + part.entries;
        }
    }

    fn each_present(
        &mut self,
        first: EntryIndex,
        end: EntryIndex,
        mut each: impl FnMut(&mut Self, EntryIndex),
    ) {
        let mut entry = first;
        while entry < end {
            match self.map.absent_run(entry) {
                0 => {
                    each(self, entry);
                    entry += 1;
                }
                absent => entry += absent,
            }
        }
    }

    /// Entries whose place may not hold what it was flipped to for. A page that the host cannot read now ends it: to go on would
    /// be to give up what may be there.
    fn find_doubtful(
        &mut self,
        owned: &[Owned],
        found: &mut Recovery,
    ) -> Result<Vec<(EntryIndex, PageKind)>, FlashError> {
        let (mut doubtful, mut refusal) = (Vec::new(), Ok(()));
        let synced_seq = self.state.synced_seq();
        for part in owned {
            self.each_present(part.first, part.first + part.entries, |ftl, entry| {
                if ftl.is_mapped(entry) {
                    found.entries += 1;
                    match ftl.is_certain(entry, part.kind, synced_seq) {
                        Ok(true) => {}
                        Ok(false) => doubtful.push((entry, part.kind)),
                        Err(error) => refusal = Err(error),
                    }
                }
            });
        }
        refusal.map(|()| doubtful)
    }

    /// Whether an entry's place holds its data. What was synced and is damaged counts as certain: it is reported when
    /// it is read, and never replaced by something older.
    fn is_certain(&mut self, entry: EntryIndex, kind: PageKind, synced_seq: u64) -> Result<bool, FlashError> {
        match self.map.load(entry) {
            Ok(Location::Unmapped | Location::Lost) | Err(_) => Ok(true),
            Ok(Location::Buffer(place)) => {
                let unit = self.buffer.unit(place).filter(|unit| unit.owner == entry);
                Ok(unit.is_some_and(|unit| unit.seq < synced_seq || self.buffer.is_whole(&unit)))
            }
            Ok(Location::Flash(unit)) => {
                let page = self.geometry.page_of(unit);
                let Some(spare) = self.spare(page) else { return Ok(true) };
                let within = self.geometry.unit_in_page(unit) as usize;
                let owns = spare.kind == kind && spare.owner(within) == entry;
                Ok(owns && (spare.seq < synced_seq || self.is_whole(page, within, &spare)?))
            }
        }
    }

    /// Whether the data of a unit, or of a whole page that has one owner, is what its record says. What the medium fails to read
    /// may be: reads report it, and nothing older is put in its place.
    fn is_whole(&mut self, page: PageId, within: usize, spare: &SpareRecord) -> Result<bool, FlashError> {
        let (first, units) = match spare.kind {
            PageKind::Page => (0, self.geometry.units_per_page() as usize),
            PageKind::Units => (within, 1),
        };
        let mut scratch = self.scratch.take();
        let data = &mut scratch[..units * UNIT_BYTES];
        let whole = match self.media.read(page, first * UNIT_BYTES, data) {
            Ok(()) => Ok(crcs_match(spare, first, data)),
            Err(error) if is_of_host(&error) => Err(error),
            Err(_) => Ok(true),
        };
        self.scratch.give_back(scratch);
        whole
    }

    /// Sets entries back to what they were at the last sync.
    fn revert(
        &mut self,
        doubtful: &[(EntryIndex, PageKind)],
        found: &mut Recovery,
    ) -> Result<(), FlashError> {
        let mut places = self.places_of(doubtful);
        for (entry, kind) in doubtful {
            let before = match self.map.before(*entry) {
                Before::Unmapped => Location::Unmapped,
                Before::Lost => Location::Lost,
                Before::Mapped => {
                    let places = places.remove(entry).unwrap_or_default();
                    self.newest_certain(*entry, *kind, places)?.unwrap_or_else(|| {
                        found.lost += 1;
                        Location::Lost
                    })
                }
            };
            found.reverted += u64::from(before != Location::Lost);
            self.map.store(*entry, before, Before::Mapped);
        }
        Ok(())
    }

    /// Every place on flash and in the buffer that names one of these entries, with its number.
    fn places_of(&mut self, entries: &[(EntryIndex, PageKind)]) -> HashMap<EntryIndex, Vec<(u64, Location)>> {
        let mut places: HashMap<_, Vec<_>> = entries.iter().map(|(entry, _)| (*entry, Vec::new())).collect();
        if places.is_empty() {
            return places;
        }
        for unit in self.buffer.units() {
            if let Some(places) = places.get_mut(&unit.owner) {
                places.push((unit.seq, Location::Buffer(unit.place)));
            }
        }
        for page in self.pages() {
            let Some(spare) = self.spare(page) else { continue };
            for unit in 0..owners(&spare) {
                if let Some(places) = places.get_mut(&spare.owner(unit)) {
                    places.push((spare.seq, Location::Flash(self.geometry.unit(page, unit as u32))));
                }
            }
        }
        places
    }

    fn newest_certain(
        &mut self,
        entry: EntryIndex,
        kind: PageKind,
        mut places: Vec<(u64, Location)>,
    ) -> Result<Option<Location>, FlashError> {
        let (synced_seq, doubted) = (self.state.synced_seq(), self.map.load(entry));
        places.sort_unstable_by_key(|(seq, _)| std::cmp::Reverse(*seq));
        for (_, place) in places {
            self.map.store(entry, place, Before::Mapped);
            let certain = self.is_certain(entry, kind, synced_seq);
            if let (Err(_), Ok(doubted)) = (&certain, doubted) {
                // It is asked again at the next opening.
                self.map.store(entry, doubted, Before::Mapped);
            }
            if certain? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn pages(&self) -> impl Iterator<Item = PageId> + use<> {
        let pages = u64::from(self.geometry.block_count()) * u64::from(self.geometry.pages_per_block);
        (0..pages).map(PageId)
    }

    /// Makes the block table follow from the map. Blocks that were open are full: what of them was programmed is not
    /// known. Gives the pages that were programmed since the last sync.
    fn correct_blocks(&mut self, owned: &[Owned]) -> Vec<PageId> {
        let live = self.live_by_block(owned);
        let (synced_seq, mut next_seq) = (self.state.synced_seq(), self.next_buffered_seq());
        let (mut corrected, mut unsynced) = (Vec::new(), Vec::new());
        for (id, live) in (0..).map(BlockId).zip(live) {
            let mut used = false;
            for page in (0..self.geometry.pages_per_block).map(|page| self.geometry.page(id, page)) {
                let Some(spare) = self.spare(page) else {
                    used = true;
                    continue;
                };
                if spare.is_void() {
                    continue;
                }
                used = true;
                next_seq = next_seq.max(spare.seq.saturating_add(1));
                if spare.seq >= synced_seq {
                    unsynced.push(page);
                }
            }
            corrected.push((id, self.corrected(id, live, used)));
        }
        self.state.raise_next_seq(next_seq);
        self.blocks.correct(corrected);
        self.frontiers = Frontiers::open(&self.geometry, &self.blocks);
        unsynced
    }

    fn corrected(&mut self, id: BlockId, live: u32, used: bool) -> Block {
        let block = *self.blocks.get(id);
        let used_for = match block.used_for {
            used_for @ (BlockUse::Retired | BlockUse::Failing | BlockUse::Bad) => used_for,
            // Erased, or opened since the last sync: nothing in it counts.
            BlockUse::Free if live == 0 && (!used || self.media.erase(id).is_ok()) => BlockUse::Free,
            _ => BlockUse::Full,
        };
        let written = if matches!(used_for, BlockUse::Free | BlockUse::Bad) {
            0
        } else {
            self.geometry.pages_per_block
        };
        Block { used_for, written, live, ..block }
    }

    fn live_by_block(&mut self, owned: &[Owned]) -> Vec<u32> {
        let mut live = vec![0; self.geometry.block_count() as usize];
        for part in owned {
            let units = match part.kind {
                PageKind::Page => self.geometry.units_per_page(),
                PageKind::Units => 1,
            };
            self.each_present(part.first, part.first + part.entries, |ftl, entry| {
                if let Ok(Location::Flash(unit)) = ftl.map.load(entry) {
                    let block = ftl.geometry.block_of(ftl.geometry.page_of(unit));
                    live[block.0 as usize] += units;
                }
            });
        }
        live
    }

    fn next_buffered_seq(&self) -> u64 {
        self.buffer.units().map(|unit| unit.seq.saturating_add(1)).max().unwrap_or(0)
    }

    /// Sees to it that a page is not taken for the last of entries that it does not hold: its writes were not
    /// acknowledged, and a later loss of power must not bring them back.
    fn take_back(&mut self, page: PageId) -> Result<(), FlashError> {
        let Some(spare) = self.spare(page) else { return Ok(()) };
        let overtaken: Vec<EntryIndex> = (0..owners(&spare))
            .map(|unit| spare.owner(unit))
            .filter(|owner| *owner < self.map.len())
            .filter(|owner| {
                let current = self.map.load(*owner).ok().and_then(|place| self.seq_at(place));
                current.is_some_and(|seq| seq < spare.seq)
            })
            .collect();
        if overtaken.is_empty() {
            return Ok(());
        }
        if self.live_in(page, &spare).count() == 0 {
            self.media.void(page);
            return Ok(());
        }
        overtaken.into_iter().try_for_each(|entry| self.write_anew(entry))
    }

    /// Writes a unit anew as it is, so that it is the newest of its entry.
    fn write_anew(&mut self, entry: EntryIndex) -> Result<(), FlashError> {
        let mut unit = [0; UNIT_BYTES];
        match self.read(PageKind::Units, entry, 0, &mut unit, Cause::Metadata, &mut 0) {
            Ok(()) => {}
            Err(ReadError::Flash(error)) if is_of_host(&error) => return Err(error),
            // What the medium does not give is reported when it is read.
            Err(_) => return Ok(()),
        }
        let crc = checksum::crc32c(&unit);
        self.append(Stream::Gc, entry, &unit, crc, Cause::Metadata, &mut 0)?;
        Ok(())
    }

    /// Programs what is in the buffer: after a loss of power more slots may be held than streams have in use.
    fn flush_slots(&mut self) -> Result<(), FlashError> {
        for stream in [Stream::Host, Stream::Gc] {
            for slot in self.buffer.held(stream) {
                self.flush_slot(stream, slot, Cause::Metadata, &mut 0)?;
            }
        }
        Ok(())
    }
}

/// Whether it is the image's file that could not be read, which says nothing of what is in it.
const fn is_of_host(error: &FlashError) -> bool {
    matches!(error, FlashError::File(_) | FlashError::Image(_))
}

/// Units of a record that name an owner of their own.
fn owners(spare: &SpareRecord) -> usize {
    match spare.kind {
        PageKind::Page => 1,
        PageKind::Units => spare.units(),
    }
}
