//! Spare records: flipped bits set right, and those of live data made anew that are damaged or gone.

use std::collections::HashMap;

use byway_sys::checksum;

use crate::bit_repair::repair_bit;
use crate::finding::{Finding, Remedy, Watch};
use crate::flash::Flash;
use crate::geometry::{BlockId, PageId, UNIT_BYTES};
use crate::location::{EntryIndex, Location};
use crate::spare::{NO_OWNER, PageKind, SpareRecord};

/// What lives in a page whose spare record is lost: its units, each with its owner.
type Orphan = (PageKind, Vec<(usize, EntryIndex)>);

impl Flash {
    /// Sets flipped bits of spare records right; how many remain that cannot be read, and the number past those of all others.
    pub(super) fn repair_spare_records(
        &mut self,
        watch: Watch<'_>,
        findings: &mut Vec<Finding>,
    ) -> (u64, u64) {
        let (mut unreadable, mut newest) = (0, None);
        let count = self.ftl.geometry().block_count();
        for block in (0..count).map(BlockId) {
            watch("spare records", block.0.into(), count.into());
            let (live, written) = self.live_and_written(block);
            for page in 0..written {
                let id = self.ftl.geometry().page(block, page);
                match self.ftl.spare(id) {
                    // A void record may be one that was erased, or that of a page whose program was cut short.
                    Some(spare) if live && spare.is_void() => unreadable += 1,
                    Some(spare) if spare.is_made_anew() => unreadable += u64::from(live),
                    Some(spare) => newest = newest.max(Some(spare.seq)),
                    None if !live => {}
                    None if self.repair_spare(id) => {
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
            return (false, self.ftl.geometry().pages_per_block);
        }
        (block.live > 0, block.written)
    }

    fn repair_spare(&mut self, page: PageId) -> bool {
        let units = self.ftl.geometry().units_per_page() as usize;
        let mut record = self.ftl.media.spare(page).to_vec();
        if record.iter().all(|byte| *byte == 0) {
            return false;
        }
        let is_repaired = repair_bit(&mut record, |bytes| SpareRecord::decode(bytes, units).is_some());
        if is_repaired {
            self.ftl.media.write_spare(page, 0, &record);
        }
        is_repaired
    }

    /// Gives pages new spare records that live data is in and whose own are damaged or gone. They name whose the data is, and vouch
    /// for nothing of it: without them a loss of power would be taken for what lost the pages, and what they held before for
    /// what there is. Records that are damaged and name nothing that is live go.
    pub(super) fn make_spare_records_anew(&mut self, from_seq: u64, findings: &mut Vec<Finding>) {
        let orphans = self.orphans();
        for (page, (kind, units)) in &orphans {
            let spare = self.spare_without_word(*page, *kind, units, from_seq.saturating_sub(1));
            self.replace_spare(*page, &spare);
        }
        let mut pages: Vec<(PageId, &str)> = orphans
            .into_keys()
            .map(|page| (page, "it was damaged; its owners were restored from the map"))
            .collect();
        let blocks = (0..self.ftl.geometry().block_count()).map(BlockId);
        for block in blocks.filter(|block| self.ftl.count_live(*block) > 0).collect::<Vec<_>>() {
            let written = self.ftl.blocks.get(block).written;
            for page in 0..written {
                let page = self.ftl.geometry().page(block, page);
                if self.ftl.spare(page).is_none() {
                    self.ftl.media.void(page);
                    pages.push((page, "it was damaged, and nothing is in its page"));
                }
            }
        }
        pages.sort_unstable();
        for (page, what) in pages {
            let (block, page) = self.ftl.geometry().place_of(page);
            let place = format!("of block {}, page {page}", block.0);
            findings.push(Finding::new("spare record", place, what, Remedy::Restore));
        }
    }

    /// Pages that the map points to and whose records say nothing, each with the units that are live.
    fn orphans(&self) -> HashMap<PageId, Orphan> {
        let mut orphans: HashMap<PageId, Orphan> = HashMap::new();
        for entry in self.namespaces.iter() {
            let kind = entry.record.kind.page_kind();
            self.each_present(entry.first, entry.entries, |index| {
                let Ok(Location::Flash(unit)) = self.ftl.map.load(index) else { return };
                let page = self.ftl.geometry().page_of(unit);
                if self.ftl.spare(page).is_none_or(|spare| spare.is_void()) {
                    let orphan = orphans.entry(page).or_insert_with(|| (kind, Vec::new()));
                    orphan.1.push((self.ftl.geometry().unit_in_page(unit) as usize, index));
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
        let units = self.ftl.geometry().units_per_page() as usize;
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
        let mut bytes = vec![0; self.ftl.geometry().spare_record_bytes()];
        spare.encode(&mut bytes);
        self.ftl.media.void(page);
        self.ftl.media.write_spare(page, 8, &bytes[8..]);
        self.ftl.media.write_spare(page, 0, &bytes[..8]);
    }
}
