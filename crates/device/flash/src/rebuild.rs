//! Map and block table made anew from spare records, as far as they are damaged.
//!
//! The newest program of an entry is what the map should point to: pages are written in ascending sequence numbers,
//! and a block is erased only when the map points nowhere into it.

use std::collections::HashMap;

use byway_sys::checksum::{self, flipped_bit};

use crate::block::BlockUse;
use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::finding::{Finding, Remedy, Watch};
use crate::flash::{Flash, kind_of};
use crate::frontier::Front;
use crate::geometry::{BlockId, PageId, UNIT_BYTES, UnitId};
use crate::map::{Before, EntryIndex, Location};
use crate::mend::mend_bit;
use crate::spare::{NO_OWNER, PageKind, SpareRecord};

/// What lives in a page whose spare record is lost: its units, each with its owner.
type Orphan = (PageKind, Vec<(usize, EntryIndex)>);

/// A program of an entry: its sequence number and where it is.
type Program = (u64, UnitId);

impl Flash {
    /// Sets protected state right by what the pages say: damaged entries of the map and the block table, counts, the
    /// next sequence number. It says what it did; what it could not do, [`check`](Self::check) finds.
    ///
    /// The sequence number comes back: the device has to be in use before its state says so.
    pub(crate) fn mend_protected(&mut self, watch: Watch<'_>) -> Result<(Vec<Finding>, u64), FlashError> {
        let mut findings = Vec::new();
        if !self.ftl.media.keeps_data() {
            return Ok((findings, 0));
        }
        let (unreadable, from_seq) = self.mend_spare_records(watch, &mut findings);
        self.mend_blocks(&mut findings);
        self.mend_map(unreadable, watch, &mut findings)?;
        self.mend_buffer(&mut findings);
        self.make_spare_records_anew(from_seq, &mut findings);
        self.recount(&mut findings);
        Ok((findings, from_seq))
    }

    /// Sets flipped bits of spare records right; how many remain that cannot be read, and the number past those of all others.
    fn mend_spare_records(&mut self, watch: Watch<'_>, findings: &mut Vec<Finding>) -> (u64, u64) {
        let (mut unreadable, mut newest) = (0, None);
        let count = self.ftl.geometry.block_count();
        for block in (0..count).map(BlockId) {
            watch("spare records", block.0.into(), count.into());
            let (live, written) = self.live_and_written(block);
            for page in 0..written {
                let id = self.ftl.geometry.page(block, page);
                match self.ftl.spare(id) {
                    // A record that is gone may be one that was erased, or a page programmed in vain.
                    Some(spare) if live && spare.is_void() => unreadable += 1,
                    Some(spare) if spare.is_made_anew() => unreadable += u64::from(live),
                    Some(spare) => newest = newest.max(Some(spare.seq)),
                    None if !live => {}
                    None if self.mend_spare(id) => {
                        let place = format!("of block {}, page {page}", block.0);
                        let what = "a bit of it was flipped";
                        findings.push(Finding::new("spare record", place, what, Remedy::Restore));
                    }
                    None => unreadable += 1,
                }
            }
        }
        // An image without a page has no newest one.
        let past = newest.and_then(|newest: u64| newest.checked_add(1)).unwrap_or(0);
        if self.ftl.state.next_seq() < past {
            let what = "the next sequence number is not past those of written pages";
            findings.push(Finding::new("device state", "", what, Remedy::Restore));
        }
        (unreadable, past.max(self.ftl.state.next_seq()))
    }

    /// Whether a block may hold live data, and how many of its pages are worth a look.
    fn live_and_written(&self, id: BlockId) -> (bool, u32) {
        let block = self.ftl.blocks.get(id);
        if self.ftl.blocks.is_damaged(id) {
            return (false, self.ftl.geometry.pages_per_block);
        }
        (block.live > 0, block.written)
    }

    fn mend_spare(&mut self, page: PageId) -> bool {
        let units = self.ftl.geometry.units_per_page() as usize;
        let record = self.ftl.media.spare_mut(page);
        if record.iter().all(|byte| *byte == 0) {
            return false;
        }
        mend_bit(record, |bytes| SpareRecord::decode(bytes, units).is_some())
    }

    /// Gives blocks whose entries were damaged new ones.
    fn mend_blocks(&mut self, findings: &mut Vec<Finding>) {
        let ids = (0..self.ftl.geometry.block_count()).map(BlockId);
        let damaged: Vec<BlockId> = ids.filter(|id| self.ftl.blocks.is_damaged(*id)).collect();
        let whole = || self.ftl.blocks.iter().filter(|(id, _)| !self.ftl.blocks.is_damaged(*id));
        let erases: u64 = whole().map(|(_, block)| u64::from(block.erases)).sum();
        let mean = erases / whole().count().max(1) as u64;
        for id in damaged {
            let pages = 0..self.ftl.geometry.pages_per_block;
            let is_written = |page: &u32| self.ftl.spare(self.ftl.geometry.page(id, *page)).is_some();
            let written = pages.rev().find(is_written).map_or(0, |page| page + 1);
            self.ftl.blocks.restore(id, written, mean as u32);
            let what = "its entry did not match its checksum; made anew from its pages";
            findings.push(Finding::new("block table", format!("block {}", id.0), what, Remedy::Restore));
        }
    }

    /// After a loss of power: sets damaged entries of the map right, so that recovery judges them as any other. Which were trimmed
    /// and which are gone it cannot tell: counts may be older than the map.
    pub(crate) fn mend_map_before_recovery(&mut self, findings: &mut Vec<Finding>) {
        let damaged = self.damaged_entries();
        if damaged.is_empty() {
            return;
        }
        let candidates = self.candidates(&damaged, &HashMap::new());
        let newest = self.newest_programs(candidates, self.ftl.geometry.pages_per_block, &mut |_, _, _| {});
        for index in damaged {
            // What is not there was programmed in vain.
            let place = self.found_place(index, newest.get(&index).copied(), 0);
            if place.is_some() {
                self.set_right(index, place, findings);
            }
        }
    }

    fn damaged_entries(&self) -> Vec<EntryIndex> {
        let mut damaged = Vec::new();
        self.each_present(0, self.ftl.map.len(), |index| {
            if self.ftl.map.load(index).is_err() {
                damaged.push(index);
            }
        });
        damaged
    }

    fn mend_map(
        &mut self,
        unreadable: u64,
        watch: Watch<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), FlashError> {
        let damaged = self.damaged_entries();
        let short = self.short_blocks();
        if damaged.is_empty() && short.is_empty() {
            return Ok(());
        }
        let candidates = self.candidates(&damaged, &short);
        let newest = self.newest_programs(candidates, 0, watch);
        for index in damaged {
            let place = self.found_place(index, newest.get(&index).copied(), unreadable);
            self.set_right(index, place, findings);
        }
        // An entry that was damaged is missed by its block no more: what is unmapped there is so for a good reason.
        let short = self.short_blocks();
        let lost: Vec<(EntryIndex, UnitId)> = newest
            .into_iter()
            .filter(|(index, (_, unit))| {
                let block = self.ftl.geometry.block_of(self.ftl.geometry.page_of(*unit));
                self.ftl.map.load(*index) == Ok(Location::Unmapped) && short.contains_key(&block.0)
            })
            .map(|(index, (_, unit))| (index, unit))
            .collect();
        self.restore_lost(&lost, short.values().map(|units| u64::from(*units)).sum(), findings)
    }

    /// Blocks whose entry tells of more live units than the map has in them, and how many more.
    fn short_blocks(&self) -> HashMap<u32, u32> {
        let missing = |id: BlockId| {
            let live = self.ftl.blocks.get(id).live;
            (live > 0).then(|| live.saturating_sub(self.ftl.count_live(id)))
        };
        let ids = (0..self.ftl.geometry.block_count()).map(BlockId);
        ids.filter_map(|id| Some((id.0, missing(id)?))).filter(|(_, missing)| *missing > 0).collect()
    }

    /// Entries whose newest program is to be found.
    fn candidates(&self, damaged: &[EntryIndex], short: &HashMap<u32, u32>) -> HashMap<EntryIndex, Program> {
        let mut candidates: HashMap<EntryIndex, Program> =
            damaged.iter().map(|index| (*index, (0, UnitId(u64::MAX)))).collect();
        for block in short.keys() {
            self.each_program(BlockId(*block), 0, |owner, _| {
                if self.ftl.map.load(owner) == Ok(Location::Unmapped) && self.owner_of(owner).is_some() {
                    candidates.entry(owner).or_insert((0, UnitId(u64::MAX)));
                }
            });
        }
        candidates
    }

    /// The newest program of each candidate; those without any are left out. `pages` of a block are looked at, at least.
    fn newest_programs(
        &self,
        mut candidates: HashMap<EntryIndex, Program>,
        pages: u32,
        watch: Watch<'_>,
    ) -> HashMap<EntryIndex, Program> {
        let count = self.ftl.geometry.block_count();
        for block in 0..count {
            watch("spare records", block.into(), count.into());
            self.each_program(BlockId(block), pages, |owner, program| {
                if let Some(newest) = candidates.get_mut(&owner)
                    && (newest.1.0 == u64::MAX || program.0 > newest.0)
                {
                    *newest = program;
                }
            });
        }
        candidates.retain(|_, program| program.1.0 != u64::MAX);
        candidates
    }

    /// Calls `look` with every owner that a block's spare records name.
    fn each_program(&self, id: BlockId, pages: u32, mut look: impl FnMut(EntryIndex, Program)) {
        for page in 0..self.ftl.blocks.get(id).written.max(pages) {
            let page = self.ftl.geometry.page(id, page);
            let Some(spare) = self.ftl.spare(page) else { continue };
            let units = match spare.kind {
                PageKind::Page => 1,
                PageKind::Units => self.ftl.geometry.units_per_page(),
            };
            for unit in 0..units {
                let owner = spare.owner(unit as usize);
                if owner < self.ftl.map.len() {
                    look(owner, (spare.seq, self.ftl.geometry.unit(page, unit)));
                }
            }
        }
    }

    /// Where a damaged entry's data is: by the entry itself but for one bit, or by its newest program. Not where the
    /// unit buffer or a spare record that cannot be read may hold something newer.
    fn found_place(&self, index: EntryIndex, newest: Option<Program>, unreadable: u64) -> Option<Location> {
        match self.ftl.map.mended(index) {
            Some(Location::Flash(unit)) if self.is_owner(index, unit) => return Some(Location::Flash(unit)),
            Some(Location::Buffer(place))
                if self.ftl.buffer.unit(place).is_some_and(|unit| unit.owner == index) =>
            {
                return Some(Location::Buffer(place));
            }
            Some(place @ (Location::Unmapped | Location::Lost)) => return Some(place),
            _ => {}
        }
        let (seq, unit) = newest?;
        (unreadable == 0 && !self.ftl.buffer.names_newer(index, seq)).then_some(Location::Flash(unit))
    }

    fn is_owner(&self, index: EntryIndex, unit: UnitId) -> bool {
        let (page, within) = (self.ftl.geometry.page_of(unit), self.ftl.geometry.unit_in_page(unit));
        self.ftl.spare(page).is_some_and(|spare| spare.owner(within as usize) == index)
    }

    fn set_right(&mut self, index: EntryIndex, place: Option<Location>, findings: &mut Vec<Finding>) {
        let finding = |what: &str, remedy| Finding::new("map", format!("entry {index}"), what, remedy);
        let mut found = match place {
            Some(_) => finding("it did not match its checksum; restored", Remedy::Restore),
            None => {
                finding("it does not match its checksum, and where its data is cannot be told", Remedy::Drop)
            }
        };
        if let (None, Some(entry)) = (place, self.owner_of(index)) {
            found = found.hitting(Self::hit_of(entry, index - entry.first, 1));
        }
        self.ftl.map.store(index, place.unwrap_or(Location::Lost), Before::Mapped);
        findings.push(found);
    }

    /// Points entries that lost their words at their newest programs. Their blocks tell of them first: should the power be lost
    /// when some of them are restored, the others are missed still.
    fn restore_lost(
        &mut self,
        lost: &[(EntryIndex, UnitId)],
        missing: u64,
        findings: &mut Vec<Finding>,
    ) -> Result<(), FlashError> {
        if lost.is_empty() {
            return Ok(());
        }
        self.count_as_restored(lost);
        if !self.is_read_only() {
            self.ftl.order_now(SyncPoint::LiveCount)?;
        }
        for (index, unit) in lost {
            if self.is_read_only() || self.ftl.map.make_ready(*index, 1).is_ok() {
                self.ftl.map.store(*index, Location::Flash(*unit), Before::Mapped);
            }
        }
        let mut what = format!("{} entries were gone; restored from spare records", lost.len());
        if lost.len() as u64 > missing {
            what += ", some of which may have been trimmed before";
        }
        findings.push(Finding::new("map", "", what, Remedy::Restore));
        Ok(())
    }

    /// Counts in each block what is alive in it by the map, and these entries.
    fn count_as_restored(&mut self, lost: &[(EntryIndex, UnitId)]) {
        let mut more: HashMap<BlockId, u32> = HashMap::new();
        for (index, unit) in lost {
            let block = self.ftl.geometry.block_of(self.ftl.geometry.page_of(*unit));
            let is_page =
                self.owner_of(*index).is_some_and(|entry| kind_of(entry.record.kind) == PageKind::Page);
            *more.entry(block).or_default() += if is_page { self.ftl.geometry.units_per_page() } else { 1 };
        }
        for (block, units) in more {
            self.ftl.blocks.set_live(block, self.ftl.count_live(block) + units);
        }
    }

    /// Sets flipped bits of the unit buffer right, by what the map says of it.
    fn mend_buffer(&mut self, findings: &mut Vec<Finding>) {
        let mut named = Vec::new();
        self.each_present(0, self.ftl.map.len(), |index| {
            if let Ok(Location::Buffer(place)) = self.ftl.map.load(index) {
                named.push((place, index));
            }
        });
        for (place, index) in named {
            if self.ftl.buffer.mend(place, index) {
                let what = "a bit of it was flipped";
                findings.push(Finding::new("unit buffer", format!("{place}"), what, Remedy::Restore));
            }
        }
    }

    /// Gives pages new spare records that live data is in and whose own are damaged or gone. They name whose the data is, and vouch
    /// for nothing of it: without them a loss of power would be taken for what lost the pages, and what they held before for
    /// what there is. Records that are damaged and name nothing that is live go.
    fn make_spare_records_anew(&mut self, from_seq: u64, findings: &mut Vec<Finding>) {
        let orphans = self.orphans();
        for (page, (kind, units)) in &orphans {
            let spare = self.spare_without_word(*page, *kind, units, from_seq.saturating_sub(1));
            self.replace_spare(*page, &spare);
        }
        let mut pages: Vec<(PageId, &str)> = orphans
            .into_keys()
            .map(|page| (page, "it was damaged; whose its data is was told by the map"))
            .collect();
        let blocks = (0..self.ftl.geometry.block_count()).map(BlockId);
        for block in blocks.filter(|block| self.ftl.count_live(*block) > 0).collect::<Vec<_>>() {
            let written = self.ftl.blocks.get(block).written;
            for page in (0..written).map(|page| self.ftl.geometry.page(block, page)) {
                if self.ftl.spare(page).is_none() {
                    self.ftl.media.void(page);
                    pages.push((page, "it was damaged, and nothing is in its page"));
                }
            }
        }
        pages.sort_unstable();
        for (page, what) in pages {
            let (block, page) = self.ftl.geometry.place_of(page);
            let place = format!("of block {}, page {page}", block.0);
            findings.push(Finding::new("spare record", place, what, Remedy::Restore));
        }
    }

    /// Pages that the map points to and whose records say nothing, each with the units that are live.
    fn orphans(&self) -> HashMap<PageId, Orphan> {
        let mut orphans: HashMap<PageId, Orphan> = HashMap::new();
        for entry in self.namespaces.iter() {
            let kind = kind_of(entry.record.kind);
            self.each_present(entry.first, entry.entries, |index| {
                let Ok(Location::Flash(unit)) = self.ftl.map.load(index) else { return };
                let page = self.ftl.geometry.page_of(unit);
                if self.ftl.spare(page).is_none_or(|spare| spare.is_void()) {
                    let orphan = orphans.entry(page).or_insert_with(|| (kind, Vec::new()));
                    orphan.1.push((self.ftl.geometry.unit_in_page(unit) as usize, index));
                }
            });
        }
        orphans
    }

    /// A record that names owners, and checksums that the page does not match.
    fn spare_without_word(
        &self,
        page: PageId,
        kind: PageKind,
        owned: &[(usize, EntryIndex)],
        seq: u64,
    ) -> SpareRecord {
        let units = self.ftl.geometry.units_per_page() as usize;
        let mut data = vec![0; units * UNIT_BYTES];
        // What cannot be read matches nothing anyway.
        let _ = self.ftl.media.read(page, 0, &mut data);
        let mut spare = SpareRecord::made_anew(kind, units, seq);
        for (unit, bytes) in data.chunks_exact(UNIT_BYTES).enumerate() {
            let owner = owned.iter().find(|(owned, _)| *owned == unit).map_or(NO_OWNER, |(_, owner)| *owner);
            spare.set(unit, owner, !checksum::crc32c(bytes));
        }
        spare
    }

    /// The first word comes last: it makes it count.
    fn replace_spare(&mut self, page: PageId, spare: &SpareRecord) {
        let mut bytes = vec![0; self.ftl.geometry.spare_record_bytes()];
        spare.encode(&mut bytes);
        self.ftl.media.void(page);
        let record = self.ftl.media.spare_mut(page);
        record[8..].copy_from_slice(&bytes[8..]);
        record[..8].copy_from_slice(&bytes[..8]);
    }

    /// Counts anew what is live in each block.
    fn recount(&mut self, findings: &mut Vec<Finding>) {
        for id in (0..self.ftl.geometry.block_count()).map(BlockId) {
            let block = *self.ftl.blocks.get(id);
            if matches!(block.used_for, BlockUse::Retired | BlockUse::Free) {
                continue;
            }
            let found_units = self.ftl.count_live(id);
            if found_units != block.live {
                self.ftl.blocks.set_live(id, found_units);
                let what = format!("its entry told of {} live units, the map has {found_units}", block.live);
                let place = format!("block {}", id.0);
                findings.push(Finding::new("block table", place, what, Remedy::Restore));
            }
        }
    }

    /// Sets flipped bits right in the page that holds an entry, by the checksums of its units.
    pub(crate) fn mend_data(&mut self, index: EntryIndex) -> Option<Mended> {
        let Ok(Location::Flash(unit)) = self.ftl.map.load(index) else { return None };
        let page = self.ftl.geometry.page_of(unit);
        let spare = self.ftl.spare(page).filter(|spare| !spare.is_made_anew())?;
        let mut data = vec![0; self.ftl.geometry.page_bytes as usize];
        self.ftl.media.read(page, 0, &mut data).ok()?;
        let (mut bits, mut is_whole) = (0, true);
        // What is dead may have been wiped.
        let live = self.ftl.live_in(page, &spare);
        for unit in live.iter().map(|unit| unit as usize) {
            match mend_unit(&mut data[unit * UNIT_BYTES..][..UNIT_BYTES], spare.crc(unit)) {
                Some(mended) => bits += u32::from(mended),
                None => is_whole = false,
            }
        }
        if bits == 0 {
            return None;
        }
        let record = self.ftl.media.spare(page).to_vec();
        // The same bytes but for the bits that were flipped: however much of it gets there, nothing is worse.
        self.ftl.media.program(page, &data, &record).ok()?;
        let (block, within) = self.ftl.geometry.place_of(page);
        Some(Mended { place: format!("{within} of block {}", block.0), bits, is_whole })
    }

    /// Writes a page of a key-value namespace anew as it is, or, where the medium does not give it at all, as zeroes.
    fn write_as_it_is(&mut self, index: EntryIndex) {
        let mut data = vec![0; self.ftl.geometry.page_bytes as usize];
        if !self.ftl.is_mapped(index)
            || self.ftl.read(PageKind::Page, index, 0, &mut data, Cause::Metadata, &mut 0).is_ok()
        {
            return;
        }
        if !self.ftl.read_as_it_is(index, 0, &mut data) {
            data.fill(0);
        }
        // Where there is no room for it the page stays as it is: the next repair tries again.
        let _ = self.ftl.write_page(Front::Values, index, &data, Cause::Metadata, &mut 0);
    }

    /// Forgets entries that belong to no namespace, and marks entries of blocks' namespaces lost whose data cannot be
    /// read, so that every read says so until they are written again. Only where all namespaces are known. Pages of
    /// key-value namespaces are for their engines, and for [`Flash::accept_pages`] after them.
    pub fn drop_lost(&mut self, findings: &[Finding]) {
        let stray = self.stray_entries();
        for index in &stray {
            self.ftl.trim(*index, PageKind::Units);
        }
        if !stray.is_empty() {
            // Whose they were, and how much of a block each was, nobody knows.
            self.recount(&mut Vec::new());
        }
        let hit: Vec<_> = findings.iter().flat_map(|finding| self.entries_hit(finding)).collect();
        for (index, kind) in hit {
            match kind {
                PageKind::Units if self.ftl.is_mapped(index) => {
                    _ = self.ftl.flip(index, Location::Lost, kind)
                }
                PageKind::Units | PageKind::Page => {}
            }
        }
    }

    /// Gives pages of key-value namespaces that do not match their checksums new ones. Their engines verify
    /// what stands there by checksums of its own, and must have dropped before what did not hold: nothing tells it from what does
    /// any more to whoever reads a part of a value.
    ///
    /// # Errors
    /// What syncing the file says: then the pages stay as they are.
    pub fn accept_pages(&mut self, findings: &[Finding]) -> Result<(), FlashError> {
        let hit: Vec<_> = findings.iter().flat_map(|finding| self.entries_hit(finding)).collect();
        let pages = hit.into_iter().filter(|(_, kind)| *kind == PageKind::Page).map(|(index, _)| index);
        let pages: Vec<EntryIndex> = pages.collect();
        if !pages.is_empty() {
            self.order(SyncPoint::PageAccept)?;
        }
        pages.into_iter().for_each(|index| self.write_as_it_is(index));
        Ok(())
    }

    fn stray_entries(&self) -> Vec<EntryIndex> {
        let mut stray = Vec::new();
        self.each_present(0, self.ftl.map.len(), |index| {
            if self.ftl.is_mapped(index) && self.owner_of(index).is_none() {
                stray.push(index);
            }
        });
        stray
    }
}

/// What was set right of a page.
pub(crate) struct Mended {
    place: String,
    /// Bits that were flipped: one of a unit at most.
    bits: u32,
    /// Now all of it can be read.
    pub(crate) is_whole: bool,
}

impl Mended {
    pub(crate) fn finding(&self) -> Finding {
        let what = match self.bits {
            1 => "a bit of its data was flipped".to_owned(),
            bits => format!("{bits} bits of its data were flipped"),
        };
        Finding::new("page", &self.place, what, Remedy::Restore)
    }
}

/// Sets right the one bit of a unit that makes it match its checksum; whether there was one to set right, `None` where
/// that does not help.
fn mend_unit(unit: &mut [u8], crc: u32) -> Option<bool> {
    let difference = checksum::crc32c(unit) ^ crc;
    if difference == 0 {
        return Some(false);
    }
    let bit = flipped_bit(unit.len(), difference)?;
    unit[bit / 8] ^= 1 << (bit % 8);
    Some(true)
}
