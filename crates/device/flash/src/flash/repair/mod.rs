//! Map and block table made anew from spare records, as far as they are damaged.
//!
//! The newest program of an entry is what the map should point to: pages are written in ascending sequence numbers,
//! and a block is erased only when the map points nowhere into it.

mod data;
mod map;
mod open;
mod spare;

use crate::block::BlockUse;
use crate::counters::Cause;
use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::finding::{Finding, Remedy, Watch};
use crate::flash::Flash;
use crate::frontier::FrontierKind;
use crate::geometry::BlockId;
use crate::location::{EntryIndex, Location};
use crate::spare::PageKind;

pub(crate) use data::RepairedPage;

impl Flash {
    /// Restores protected state from the pages: damaged entries of the map and the block table, counts. Returns what it
    /// changed, and the next sequence number: the caller stores it once the superblock says "in use".
    /// [`check`](Self::check) finds what could not be repaired.
    pub(crate) fn repair_protected(&mut self, watch: Watch<'_>) -> Result<(Vec<Finding>, u64), FlashError> {
        let mut findings = Vec::new();
        if !self.ftl.media.keeps_data() {
            return Ok((findings, 0));
        }
        let (unreadable, from_seq) = self.repair_spare_records(watch, &mut findings);
        self.repair_blocks(&mut findings);
        self.repair_map(unreadable, watch, &mut findings)?;
        self.repair_buffer(&mut findings);
        self.make_spare_records_anew(from_seq, &mut findings);
        self.recount(&mut findings);
        Ok((findings, from_seq))
    }

    /// Gives blocks whose entries were damaged new ones.
    fn repair_blocks(&mut self, findings: &mut Vec<Finding>) {
        let ids = (0..self.ftl.geometry().block_count()).map(BlockId);
        let damaged: Vec<BlockId> = ids.filter(|id| self.ftl.blocks.is_damaged(*id)).collect();
        let whole = || self.ftl.blocks.iter().filter(|(id, _)| !self.ftl.blocks.is_damaged(*id));
        let erases: u64 = whole().map(|(_, block)| u64::from(block.erases)).sum();
        let mean = erases / whole().count().max(1) as u64;
        for id in damaged {
            let pages = 0..self.ftl.geometry().pages_per_block;
            let is_written = |page: &u32| self.ftl.spare(self.ftl.geometry().page(id, *page)).is_some();
            let written = pages.rev().find(is_written).map_or(0, |page| page + 1);
            self.ftl.blocks.restore(id, written, mean as u32);
            let what = "its entry did not match its checksum; made anew from its pages";
            findings.push(Finding::new("block table", format!("block {}", id.0), what, Remedy::Restore));
        }
    }

    /// Sets flipped bits of the unit buffer right, by what the map says of it.
    fn repair_buffer(&mut self, findings: &mut Vec<Finding>) {
        let mut named = Vec::new();
        self.each_present(0, self.ftl.map.len(), |index| {
            if let Ok(Location::Buffer(place)) = self.ftl.map.load(index) {
                named.push((place, index));
            }
        });
        for (place, index) in named {
            if self.ftl.buffer.repair(place, index) {
                let what = "a bit of it was flipped";
                findings.push(Finding::new("unit buffer", format!("{place}"), what, Remedy::Restore));
            }
        }
    }

    /// Counts anew what is live in each block.
    fn recount(&mut self, findings: &mut Vec<Finding>) {
        for id in (0..self.ftl.geometry().block_count()).map(BlockId) {
            let block = *self.ftl.blocks.get(id);
            if matches!(block.used_for, BlockUse::Retired | BlockUse::Free) {
                continue;
            }
            let found_units = self.ftl.count_live(id);
            if found_units != block.live {
                self.ftl.blocks.set_live(id, found_units);
                let what = format!("its entry counted {} live units, the map has {found_units}", block.live);
                let place = format!("block {}", id.0);
                findings.push(Finding::new("block table", place, what, Remedy::Restore));
            }
        }
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
            // The damaged entries named neither an owner nor a length: live counts are taken from the map.
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

    /// Gives pages of key-value namespaces that do not match their checksums new ones. The engine verifies each record by the
    /// record's own checksum, and must drop damaged records first: afterwards a read of a part of a value, which verifies by the
    /// page's checksum alone, cannot detect them.
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

    /// Writes a page of a key-value namespace anew as it is, or, where the medium does not give it at all, as zeroes.
    fn write_as_it_is(&mut self, index: EntryIndex) {
        let mut data = vec![0; self.ftl.geometry().page_bytes as usize];
        if !self.ftl.is_mapped(index)
            || self.ftl.read(PageKind::Page, index, 0, &mut data, Cause::Metadata, &mut 0).is_ok()
        {
            return;
        }
        if !self.ftl.read_as_it_is(index, 0, &mut data) {
            data.fill(0);
        }
        // Where there is no room for it the page stays as it is: the next repair tries again.
        let _ = self.ftl.write_page(FrontierKind::Values, index, &data, Cause::Metadata, &mut 0);
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
