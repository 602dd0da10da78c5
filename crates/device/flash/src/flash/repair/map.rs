//! Repair of the map: an entry points to the newest program that a spare record names for it.

use std::collections::HashMap;

use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::finding::{Finding, Remedy, Watch};
use crate::flash::Flash;
use crate::geometry::{BlockId, UnitId};
use crate::location::{Before, EntryIndex, Location};
use crate::spare::PageKind;

/// A program of an entry: its sequence number and where it is.
type Program = (u64, UnitId);

impl Flash {
    /// Repairs damaged entries of the map after a loss of power, so that recovery checks them like all others. Block counts may
    /// be older than the map here, so they do not show which entries were trimmed and which are lost.
    pub(crate) fn repair_map_before_recovery(&mut self, findings: &mut Vec<Finding>) {
        let damaged = self.damaged_entries();
        if damaged.is_empty() {
            return;
        }
        let candidates = self.candidates(&damaged, &HashMap::new());
        let newest = self.newest_programs(candidates, self.ftl.geometry().pages_per_block, &mut |_, _, _| {});
        for index in damaged {
            // Without a place, its program was cut short and counts for nothing.
            let place = self.found_place(index, newest.get(&index).copied(), 0);
            if place.is_some() {
                self.set_right(index, place, findings);
            }
        }
    }

    pub(super) fn repair_map(
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
                let block = self.ftl.geometry().block_of(self.ftl.geometry().page_of(*unit));
                self.ftl.map.load(*index) == Ok(Location::Unmapped) && short.contains_key(&block.0)
            })
            .map(|(index, (_, unit))| (index, unit))
            .collect();
        self.restore_lost(&lost, short.values().map(|units| u64::from(*units)).sum(), findings)
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

    /// Blocks whose entry counts more live units than the map has in them, with the difference.
    fn short_blocks(&self) -> HashMap<u32, u32> {
        let missing = |id: BlockId| {
            let live = self.ftl.blocks.get(id).live;
            (live > 0).then(|| live.saturating_sub(self.ftl.count_live(id)))
        };
        let ids = (0..self.ftl.geometry().block_count()).map(BlockId);
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
        let count = self.ftl.geometry().block_count();
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
            let page = self.ftl.geometry().page(id, page);
            let Some(spare) = self.ftl.spare(page) else { continue };
            let units = match spare.kind {
                PageKind::Page => 1,
                PageKind::Units => self.ftl.geometry().units_per_page(),
            };
            for unit in 0..units {
                let owner = spare.owner(unit as usize);
                if owner < self.ftl.map.len() {
                    look(owner, (spare.seq, self.ftl.geometry().unit(page, unit)));
                }
            }
        }
    }

    /// Where a damaged entry's data is: by the entry itself but for one bit, or by its newest program. Not where the
    /// unit buffer or a spare record that cannot be read may hold something newer.
    fn found_place(&self, index: EntryIndex, newest: Option<Program>, unreadable: u64) -> Option<Location> {
        match self.ftl.map.repaired(index) {
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
        let (page, within) = (self.ftl.geometry().page_of(unit), self.ftl.geometry().unit_in_page(unit));
        self.ftl.spare(page).is_some_and(|spare| spare.owner(within as usize) == index)
    }

    fn set_right(&mut self, index: EntryIndex, place: Option<Location>, findings: &mut Vec<Finding>) {
        let finding = |what: &str, remedy| Finding::new("map", format!("entry {index}"), what, remedy);
        let mut found = match place {
            Some(_) => finding("it did not match its checksum; restored", Remedy::Restore),
            None => {
                finding("it does not match its checksum, and no record says where its data is", Remedy::Drop)
            }
        };
        if let (None, Some(entry)) = (place, self.owner_of(index)) {
            found = found.hitting(Self::hit_of(entry, index - entry.first, 1));
        }
        self.ftl.map.store(index, place.unwrap_or(Location::Lost), Before::Mapped);
        findings.push(found);
    }

    /// Points entries that lost their words at their newest programs. Live counts of blocks are raised first: if power is lost
    /// when some entries are restored, the counts still show that the others are missing.
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
            let block = self.ftl.geometry().block_of(self.ftl.geometry().page_of(*unit));
            let is_page =
                self.owner_of(*index).is_some_and(|entry| entry.record.kind.page_kind() == PageKind::Page);
            *more.entry(block).or_default() += if is_page { self.ftl.geometry().units_per_page() } else { 1 };
        }
        for (block, units) in more {
            self.ftl.blocks.set_live(block, self.ftl.count_live(block) + units);
        }
    }
}
