//! The check of a device: everything that is kept twice is compared, everything mapped is read.
//!
//! What is wrong in protected state is set right on the way when the checker repairs: shared with the file in a
//! repair, in private memory when an image is only looked at, so that the check goes on over what a repair would leave.

use crate::block::BlockUse;
use crate::counters::Cause;
use crate::error::FlashError;
use crate::finding::{Finding, Hit, Remedy, Watch};
use crate::flash::Flash;
use crate::flash::repair::RepairedPage;
use crate::geometry::{BlockId, UNIT_BYTES};
use crate::image::namespaces::{Entry, NamespaceKind};
use crate::location::{EntryIndex, Location};
use crate::spare::PageKind;

/// Entries or blocks looked at between two progress reports.
const WATCH_EVERY: u64 = 4096;

impl Flash {
    /// Compares the block table with the map and reads everything that is mapped. Changes nothing but read counters.
    pub fn check(&mut self) -> Vec<Finding> {
        self.examine(false, &mut |_, _, _| {})
    }

    /// Sets right what can be, checks the rest, and says both. What an image is opened read-only with is set right in
    /// private memory. What tables say is set right before the device counts as in use.
    ///
    /// # Errors
    /// What syncing the file says.
    pub fn repair(&mut self, watch: Watch<'_>) -> Result<Vec<Finding>, FlashError> {
        let (mut findings, from_seq) = self.repair_protected(watch)?;
        self.begin_use_once_repaired(from_seq)?;
        findings.extend(self.examine(true, watch));
        Ok(findings)
    }

    fn examine(&mut self, repairs: bool, watch: Watch<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.check_blocks(watch, &mut findings);
        self.check_map(watch, &mut findings);
        let entries: Vec<Entry> = self.namespaces.iter().cloned().collect();
        for entry in &entries {
            self.check_extent(entry, repairs, watch, &mut findings);
        }
        findings
    }

    /// Entries that a media error destroyed earlier and that were not written since: known, and said by every read.
    #[must_use]
    pub fn lost_entries(&self) -> u64 {
        let lost = |entry: &Entry| {
            let mut lost = 0;
            self.each_present(entry.first, entry.entries, |index| {
                lost += u64::from(self.ftl.map.load(index) == Ok(Location::Lost));
            });
            lost
        };
        self.namespaces.iter().map(lost).sum()
    }

    fn check_blocks(&self, watch: Watch<'_>, findings: &mut Vec<Finding>) {
        let count = self.ftl.geometry().block_count();
        for block in 0..count {
            if u64::from(block).is_multiple_of(64) {
                watch("blocks", block.into(), count.into());
            }
            self.check_block(BlockId(block), findings);
        }
    }

    fn check_block(&self, id: BlockId, findings: &mut Vec<Finding>) {
        let block = *self.ftl.blocks.get(id);
        if self.ftl.blocks.is_damaged(id) {
            let what = "its entry does not match its checksum; the block is out of use";
            findings.push(Finding::new("block table", format!("block {}", id.0), what, Remedy::Restore));
            return;
        }
        if matches!(block.used_for, BlockUse::Bad | BlockUse::FactoryBad) {
            // Part of the life of a device, and reported in its health.
            return;
        }
        // A block with nothing live may have been cut short in its erase.
        let written = if block.live > 0 { block.written } else { 0 };
        for page in 0..written {
            if self.ftl.spare(self.ftl.geometry().page(id, page)).is_none() {
                let what = "it does not match its checksum";
                findings.push(Finding::new(
                    "spare record",
                    format!("of block {}, page {page}", id.0),
                    what,
                    Remedy::Drop,
                ));
            }
        }
        let found_units = self.ftl.count_live(id);
        if found_units != block.live {
            let what = format!("the map has {found_units} live units in it, its entry says {}", block.live);
            findings.push(Finding::new("block table", format!("block {}", id.0), what, Remedy::Restore));
        }
    }

    /// Looks for entries without an owner. Those of extents are looked at with their data.
    fn check_map(&self, watch: Watch<'_>, findings: &mut Vec<Finding>) {
        let mut owned: Vec<(u64, u64)> =
            self.namespaces.iter().map(|entry| (entry.first, entry.first + entry.entries)).collect();
        owned.sort_unstable();
        if let Some(pair) = owned.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            let what = format!("two namespaces share entries from {} on", pair[1].0);
            findings.push(Finding::new("namespace records", "", what, Remedy::None));
        }
        let mut stray = 0;
        let mut at = 0;
        for (first, end) in owned.into_iter().chain([(self.ftl.map.len(), 0)]) {
            self.each_present(at, first.saturating_sub(at), |index| {
                stray += u64::from(self.ftl.is_mapped(index));
            });
            at = end.max(at);
            watch("map", at.min(self.ftl.map.len()), self.ftl.map.len());
        }
        if stray > 0 {
            let what = format!("{stray} entries point to data but belong to no namespace");
            findings.push(Finding::new("map", "", what, Remedy::Drop));
        }
    }

    /// Calls `look` with every entry of a range whose segment is in use.
    pub(crate) fn each_present(&self, first: EntryIndex, entries: u64, mut look: impl FnMut(EntryIndex)) {
        let (mut index, end) = (first, first + entries);
        while index < end {
            let absent = self.ftl.map.absent_run(index);
            if absent == 0 {
                look(index);
            }
            index += absent.max(1);
        }
    }

    fn check_extent(&mut self, entry: &Entry, repairs: bool, watch: Watch<'_>, findings: &mut Vec<Finding>) {
        let kind = entry.record.kind.page_kind();
        let entry_bytes = self.entry_bytes(kind);
        let mut mapped = Vec::new();
        self.each_present(entry.first, entry.entries, |index| {
            if self.ftl.is_mapped(index) && self.ftl.map.load(index) != Ok(Location::Lost) {
                mapped.push(index - entry.first);
            }
        });
        let mut data = vec![0; entry_bytes as usize];
        let mut bad: Option<Bad> = None;
        for (done, index) in (0..).zip(&mapped) {
            if done % WATCH_EVERY == 0 {
                watch("data", done, mapped.len() as u64);
            }
            let extent = entry.record.extent;
            let read = self.read(extent, index * entry_bytes, &mut data, Cause::Metadata, &mut 0);
            let Err(error) = read else { continue };
            let repaired = repairs.then(|| self.repair_data(entry.first + index)).flatten();
            findings.extend(repaired.as_ref().map(RepairedPage::finding));
            if repaired.is_some_and(|repaired| repaired.is_whole) {
                continue;
            }
            match &mut bad {
                Some(bad) if bad.first + bad.count == *index => bad.count += 1,
                _ => findings.extend(bad.replace(Bad::new(*index, &error)).map(|bad| bad.finding(entry))),
            }
        }
        findings.extend(bad.map(|bad| bad.finding(entry)));
    }

    /// The logical blocks or pages that entry `index` of an extent holds.
    pub(crate) fn hit_of(entry: &Entry, first: u64, count: u64) -> Hit {
        let nsid = entry.record.nsid;
        match entry.record.kind {
            NamespaceKind::Nvm { lba_bytes } => {
                let blocks = |units: u64| units * UNIT_BYTES as u64 / u64::from(lba_bytes.max(1));
                Hit::Blocks { nsid, first_lba: blocks(first), count: blocks(count).max(1) }
            }
            NamespaceKind::Kv => Hit::Pages { nsid, first, count },
        }
    }

    /// The extent that an entry of the map belongs to.
    pub(crate) fn owner_of(&self, index: EntryIndex) -> Option<&Entry> {
        self.namespaces.iter().find(|entry| (entry.first..entry.first + entry.entries).contains(&index))
    }

    /// The entries of the map that a finding of unreadable data hits, with their kind.
    pub(crate) fn entries_hit(&self, finding: &Finding) -> Vec<(EntryIndex, PageKind)> {
        let mut entries = Vec::new();
        for hit in finding.hits.iter().filter(|_| finding.structure == DATA) {
            let (Hit::Blocks { nsid, first_lba: first, count } | Hit::Pages { nsid, first, count }) = hit
            else {
                continue;
            };
            let Some(entry) = self.namespaces.find(*nsid) else { continue };
            let index = |number: u64| match entry.record.kind {
                NamespaceKind::Nvm { lba_bytes } => number * u64::from(lba_bytes) / UNIT_BYTES as u64,
                NamespaceKind::Kv => number,
            };
            let indexes = index(*first)..index(*first + count).min(entry.entries);
            entries.extend(indexes.map(|index| (entry.first + index, entry.record.kind.page_kind())));
        }
        entries
    }
}

/// The structure of findings that are about what hosts stored.
const DATA: &str = "data";

/// Neighbouring entries that cannot be read.
struct Bad {
    first: u64,
    count: u64,
    why: String,
}

impl Bad {
    fn new(first: u64, error: &FlashError) -> Self {
        Self { first, count: 1, why: error.to_string() }
    }

    fn finding(self, entry: &Entry) -> Finding {
        let (what, remedy) = match entry.record.kind.page_kind() {
            PageKind::Units => (format!("it cannot be read: {}", self.why), Remedy::Drop),
            PageKind::Page => {
                (format!("{}; each record there is judged by its own checksums", self.why), Remedy::Restore)
            }
        };
        Finding::new(DATA, "", what, remedy).hitting(Flash::hit_of(entry, self.first, self.count))
    }
}
