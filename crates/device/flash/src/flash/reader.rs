//! Reads of blocks by threads that do not have the device, while its owner writes, moves and erases (decision 0064).
//!
//! A reader stores nothing and waits for nothing. It loads the map's entry, copies what the entry names, and loads the entry
//! again: an entry that is the same named these bytes all the time. What it cannot vouch for is left to [`Flash::read`], which
//! names damage.

use std::ops::AddAssign;
use std::sync::Arc;

use byway_queue::validated;

use crate::buffer::{BufferReader, WaitingCopy};
use crate::flash::Flash;
use crate::ftl::Ftl;
use crate::geometry::{Geometry, PageId, UNIT_BYTES, UnitId};
use crate::image::namespaces::ExtentId;
use crate::lease::{BlockLease, LeaseTable, Target};
use crate::location::{EntryIndex, Location};
use crate::map::{EntryWord, MapReader};
use crate::media::PageReader;
use crate::protected::Backing;
use crate::spare::PageKind;

/// Copies that are tried of a unit which moves each time.
const ATTEMPTS: u32 = 4;

/// Reads one NVM extent, on any thread.
#[derive(Debug)]
pub struct BlockReader {
    units: UnitReader,
    leases: Arc<LeaseTable>,
    backing: Backing,
    extent: ExtentId,
    first: EntryIndex,
    len_bytes: u64,
}

/// What a read took from flash. It is counted by [`Flash::count_reads`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashReads {
    /// NAND pages.
    pub pages: u64,
    /// Bytes of the units that were read.
    pub bytes: u64,
}

impl AddAssign for FlashReads {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.pages += more.pages;
        self.bytes += more.bytes;
    }
}

impl Flash {
    /// Prefetches the map's entry of the unit at byte `at_bytes` of an extent, for a read that comes soon.
    #[inline]
    pub fn prefetch_entry(&self, extent: ExtentId, at_bytes: u64) {
        if let Ok(entry) = self.entry(extent) {
            self.ftl.map.prefetch(entry.first.wrapping_add(at_bytes / UNIT_BYTES as u64));
        }
    }

    /// Prefetches what a read of the unit at byte `at_bytes` of an NVM extent loads, by the map's entry, which is loaded.
    #[inline]
    pub fn prefetch_unit(&self, extent: ExtentId, at_bytes: u64) {
        if let Ok((first, PageKind::Units)) = self.range(extent, at_bytes, 1) {
            self.ftl.prefetch_unit(first + at_bytes / UNIT_BYTES as u64);
        }
    }

    /// A reader of an NVM extent for other threads. `None` where reads have to come one after the other (modelled time, read disturb,
    /// injected errors), through system calls or beside a writer, and of an extent whose entries are pages.
    ///
    /// What it read counts only if the extent was not removed meanwhile: the caller looks afterwards. It is dropped before one of these is
    /// turned on.
    #[must_use]
    pub fn block_reader(&self, extent: ExtentId) -> Option<BlockReader> {
        let entry = self.entry(extent).ok()?;
        if entry.record.kind.page_kind() != PageKind::Units || self.is_following() {
            return None;
        }
        let (first, len_bytes) = (entry.first, self.extent_bytes(entry));
        let units = self.ftl.reader()?;
        let leases = self.ftl.leases.table();
        Some(BlockReader { units, leases, backing: self.backing.clone(), extent, first, len_bytes })
    }
}

impl BlockReader {
    /// As [`Flash::prefetch_entry`].
    #[inline]
    pub fn prefetch_entry(&self, at_bytes: u64) {
        self.units.map.prefetch(self.first.wrapping_add(at_bytes / UNIT_BYTES as u64));
    }

    /// As [`Flash::prefetch_unit`].
    #[inline]
    pub fn prefetch_unit(&self, at_bytes: u64) {
        if at_bytes < self.len_bytes {
            self.units.prefetch(self.first + at_bytes / UNIT_BYTES as u64);
        }
    }

    /// Fills `into` from byte `at_bytes` of the extent, as [`Flash::read`] would have at some moment of the call; each unit of its own.
    /// `None` where only `Flash::read` can say what is there: `into` may then hold anything.
    #[inline]
    #[must_use]
    pub fn read(&self, at_bytes: u64, into: &mut [u8]) -> Option<FlashReads> {
        let inside = at_bytes.checked_add(into.len() as u64).is_some_and(|end| end <= self.len_bytes);
        if !inside {
            return None;
        }
        let (first, within) = (self.first + at_bytes / UNIT_BYTES as u64, at_bytes % UNIT_BYTES as u64);
        // Before the map's entries are loaded: those that wait no more are named there.
        if self.leases.has_any(first, (within + into.len() as u64).div_ceil(UNIT_BYTES as u64)) {
            return None;
        }
        let reads = self.units.read(first, within as usize, into)?;
        // Mapped state that another program cut off reads as zeroes.
        (!self.backing.is_lost()).then_some(reads)
    }
}

impl BlockReader {
    /// Writes whole units of the extent by a lease of the same device. False where only the device can do it: then none, or some of them,
    /// were written. `is_granted` says whether the thread may still write to the extent. It is asked while the lease cannot be recalled.
    #[inline]
    #[must_use]
    pub fn write_by(
        &self,
        lease: &BlockLease,
        at_bytes: u64,
        data: &[u8],
        is_granted: impl FnOnce() -> bool,
    ) -> bool {
        let unit = UNIT_BYTES as u64;
        let is_whole = at_bytes.is_multiple_of(unit) && data.len().is_multiple_of(UNIT_BYTES);
        let inside = at_bytes.checked_add(data.len() as u64).is_some_and(|end| end <= self.len_bytes);
        let target = Target { extent: self.extent, first: self.first + at_bytes / unit };
        is_whole && inside && lease.write(target, data, is_granted)
    }
}

impl Ftl {
    fn reader(&self) -> Option<UnitReader> {
        if !self.reads_in_any_order() {
            return None;
        }
        self.mapped_reader()
    }

    /// The same whatever reads are modelled as.
    pub(super) fn mapped_reader(&self) -> Option<UnitReader> {
        let pages = self.media.reader()?;
        let (map, buffer) = (self.map.reader(), self.buffer.reader());
        Some(UnitReader { geometry: *self.geometry(), map, buffer, pages })
    }
}

/// Reads map entries, and what they name.
#[derive(Debug)]
pub(super) struct UnitReader {
    geometry: Geometry,
    map: MapReader,
    buffer: BufferReader,
    pages: PageReader,
}

impl UnitReader {
    /// Entry `entry` of the map now.
    #[inline]
    pub(super) fn load(&self, entry: EntryIndex) -> EntryWord {
        self.map.load(entry)
    }

    /// The page of a unit.
    pub(super) fn page_of(&self, unit: UnitId) -> PageId {
        self.geometry.page_of(unit)
    }

    /// As [`BufferReader::copy_waiting`].
    pub(super) fn copy_waiting(&self, entry: EntryIndex, within: usize, into: &mut [u8]) -> WaitingCopy {
        self.buffer.copy_waiting(entry, within, into)
    }

    /// Where the data of an entry is that has this word.
    pub(super) fn location(&self, entry: EntryIndex, word: EntryWord) -> Option<Location> {
        self.map.location(entry, word).ok()
    }

    #[inline]
    fn prefetch(&self, entry: EntryIndex) {
        if let Ok(Location::Flash(unit)) = self.map.location(entry, self.map.load(entry)) {
            let from = self.geometry.unit_in_page(unit) as usize * UNIT_BYTES;
            self.pages.announce(self.geometry.page_of(unit), from);
        }
    }

    #[inline]
    fn read(&self, first: EntryIndex, within: usize, into: &mut [u8]) -> Option<FlashReads> {
        let (mut entry, mut within, mut rest) = (first, within, into);
        let (mut reads, mut last_page) = (FlashReads::default(), None);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_mut((UNIT_BYTES - within).min(rest.len()));
            if let Location::Flash(unit) = self.read_unit(entry, within, piece)? {
                let page = Some(self.geometry.page_of(unit));
                reads.pages += u64::from(page != last_page);
                reads.bytes += UNIT_BYTES as u64;
                last_page = page;
            }
            (entry, within, rest) = (entry + 1, 0, after);
        }
        Some(reads)
    }

    /// Fills `into` from byte `within` of a unit on; where it was.
    #[inline]
    fn read_unit(&self, entry: EntryIndex, within: usize, into: &mut [u8]) -> Option<Location> {
        let mut copy = |word: &EntryWord| self.copy(PageKind::Units, entry, *word, within, into);
        validated(ATTEMPTS, || self.map.load(entry), &mut copy).flatten()
    }

    /// Copies what an entry names; `None` where that is not what was written there, perhaps not any more.
    #[inline]
    pub(super) fn copy(
        &self,
        kind: PageKind,
        entry: EntryIndex,
        word: EntryWord,
        within: usize,
        into: &mut [u8],
    ) -> Option<Location> {
        let location = self.map.location(entry, word).ok()?;
        let is_copied = match location {
            Location::Unmapped => {
                into.fill(0);
                true
            }
            Location::Flash(unit) => {
                let from = self.geometry.unit_in_page(unit) as usize * UNIT_BYTES + within;
                self.pages.copy(kind, self.geometry.page_of(unit), from, into, entry)
            }
            Location::Buffer(place) => {
                kind == PageKind::Units && self.buffer.copy(place, entry, within, into)
            }
            Location::Lost => false,
        };
        is_copied.then_some(location)
    }
}
