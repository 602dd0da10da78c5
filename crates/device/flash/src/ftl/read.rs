//! Reading: from map entry to verified bytes.

use crate::counters::Cause;
use crate::error::FlashError;
use crate::ftl::Ftl;
use crate::geometry::{BlockId, PageId, UNIT_BYTES, UnitId};
use crate::location::BufferPlace;
use crate::location::{EntryIndex, Location};
use crate::spare::{PageKind, SpareRecord, crc_in, crcs_match};

/// Entries that are read at once: one page, or units that lie one after the other on one NAND page.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: EntryIndex,
    entries: u64,
    location: Location,
}

/// Why an entry could not be read; the caller knows whose entry it is.
pub(crate) enum ReadError {
    Lost { entry: EntryIndex, why: &'static str },
    Flash(FlashError),
}

impl From<FlashError> for ReadError {
    fn from(error: FlashError) -> Self {
        Self::Flash(error)
    }
}

impl Ftl {
    /// Fills `into` from byte `within` of entry `first` on. Pieces on different planes are read at the same time:
    /// `at_ps` ends when the last is there.
    pub(crate) fn read(
        &mut self,
        kind: PageKind,
        first: EntryIndex,
        within: usize,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), ReadError> {
        let entry_bytes = match kind {
            PageKind::Page => self.geometry.page_bytes as usize,
            PageKind::Units => UNIT_BYTES,
        };
        let start_ps = *at_ps;
        let (mut entry, mut within, mut rest) = (first, within, into);
        while !rest.is_empty() {
            let wanted = (within + rest.len()).div_ceil(entry_bytes) as u64;
            let run = self.run_at(kind, entry, wanted)?;
            let bytes = (run.entries as usize * entry_bytes - within).min(rest.len());
            let (piece, after) = rest.split_at_mut(bytes);
            let done_ps = self.read_run(kind, run, within, piece, cause, start_ps)?;
            *at_ps = (*at_ps).max(done_ps);
            entry += run.entries;
            within = 0;
            rest = after;
        }
        Ok(())
    }

    /// The page whose medium lends `len` bytes from byte `within` of a whole-page entry on: counted and timed as a
    /// read, and not verified. `None` where they cannot be lent; then nothing was counted, and [`Ftl::read`] reads them.
    #[inline]
    pub(crate) fn lend_from(
        &mut self,
        entry: EntryIndex,
        within: usize,
        len: usize,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Option<PageId> {
        let page = self.lendable_page(entry)?;
        let block = self.geometry.block_of(page);
        self.media.lend(page, within, len)?;
        let units = (within + len).div_ceil(UNIT_BYTES) - within / UNIT_BYTES;
        let bytes = (units * UNIT_BYTES) as u64;
        self.state.count_read(cause, bytes);
        *at_ps = self.timing.read(&self.geometry, block, bytes, *at_ps).max(*at_ps);
        self.note_block_lent(block);
        Some(page)
    }

    /// Reads bytes of a whole-page entry that match no checksum, perhaps; false where there are none.
    pub(crate) fn read_as_it_is(&self, entry: EntryIndex, within: usize, into: &mut [u8]) -> bool {
        self.lendable_page(entry).is_some_and(|page| self.media.read(page, within, into).is_ok())
    }

    /// Bytes of a whole-page entry as the medium lends them, without a count of them.
    #[inline]
    pub(crate) fn peek(&self, entry: EntryIndex, within: usize, len: usize) -> Option<&[u8]> {
        self.media.lend(self.lendable_page(entry)?, within, len)
    }

    /// The page of a whole-page entry, if it is on flash and what it holds can be trusted to be there.
    #[inline]
    fn lendable_page(&self, entry: EntryIndex) -> Option<PageId> {
        let Ok(Location::Flash(unit)) = self.map.load(entry) else { return None };
        let page = self.geometry.page_of(unit);
        let (block, page_in_block) = self.geometry.place_of(page);
        let is_there = page_in_block < self.blocks.get(block).written && !self.has_faded(block);
        is_there.then_some(page)
    }

    /// Prefetches bytes of a whole-page entry that are soon read.
    #[inline]
    pub(crate) fn prefetch(&self, entry: EntryIndex, within: usize, len: usize) {
        if let Ok(Location::Flash(unit)) = self.map.load(entry) {
            self.media.prefetch(self.geometry.page_of(unit), within, len);
        }
    }

    /// Prefetches what a read of a unit loads.
    #[inline]
    pub(crate) fn prefetch_unit(&self, entry: EntryIndex) {
        if let (Some(pages), Ok(Location::Flash(unit))) = (&self.pages, self.map.load(entry)) {
            let from = self.geometry.unit_in_page(unit) as usize * UNIT_BYTES;
            pages.announce(self.geometry.page_of(unit), from);
        }
    }

    /// The checksum that a unit was written with, if it is on flash. Who has just read the unit knows that it is there, and that it
    /// matches, unless the medium [gives what was programmed](crate::media::Media::is_exact).
    #[inline]
    pub(crate) fn kept_crc(&self, entry: EntryIndex) -> Option<u32> {
        let Ok(Location::Flash(unit)) = self.map.load(entry) else { return None };
        let spare = self.media.spare(self.geometry.page_of(unit));
        crc_in(spare, self.geometry.units_per_page() as usize, self.geometry.unit_in_page(unit) as usize)
    }

    fn run_at(&self, kind: PageKind, first: EntryIndex, wanted: u64) -> Result<Run, ReadError> {
        let location = self.locate(first)?;
        let mut run = Run { first, entries: 1, location };
        let Location::Flash(unit) = location else { return Ok(run) };
        if kind == PageKind::Units {
            let left_on_page = self.geometry.units_per_page() - self.geometry.unit_in_page(unit);
            while run.entries < wanted.min(u64::from(left_on_page))
                && self.map.load(first + run.entries) == Ok(Location::Flash(UnitId(unit.0 + run.entries)))
            {
                run.entries += 1;
            }
        }
        Ok(run)
    }

    fn locate(&self, entry: EntryIndex) -> Result<Location, ReadError> {
        match self.map.load(entry) {
            Ok(Location::Lost) => {
                Err(ReadError::Lost { entry, why: "a media error destroyed it while it was being moved" })
            }
            Ok(location) => Ok(location),
            Err(_) => Err(ReadError::Lost { entry, why: "its map entry does not match its checksum" }),
        }
    }

    fn read_run(
        &mut self,
        kind: PageKind,
        run: Run,
        within: usize,
        into: &mut [u8],
        cause: Cause,
        at_ps: u64,
    ) -> Result<u64, ReadError> {
        match run.location {
            Location::Unmapped | Location::Lost => {
                into.fill(0);
                Ok(at_ps)
            }
            Location::Buffer(place) => {
                self.read_buffered(run.first, place, within, into)?;
                Ok(at_ps)
            }
            Location::Flash(unit) => Ok(self.read_flash(kind, run, unit, within, into, cause, at_ps)?),
        }
    }

    fn read_buffered(
        &mut self,
        entry: EntryIndex,
        place: BufferPlace,
        within: usize,
        into: &mut [u8],
    ) -> Result<(), ReadError> {
        let found = self.buffer.unit(place).filter(|unit| unit.owner == entry);
        let mut data = [0; UNIT_BYTES];
        let found = found.filter(|unit| self.buffer.copy_whole(unit, &mut data));
        // A map entry of a whole-page extent has no unit; a forged image may claim one.
        match found.and_then(|_| data.get(within..within + into.len())) {
            Some(part) => {
                into.copy_from_slice(part);
                Ok(())
            }
            None => {
                self.state.count_media_error();
                Err(ReadError::Lost { entry, why: "the unit buffer does not match its checksum" })
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one read, described in full")]
    fn read_flash(
        &mut self,
        kind: PageKind,
        run: Run,
        unit: UnitId,
        within: usize,
        into: &mut [u8],
        cause: Cause,
        at_ps: u64,
    ) -> Result<u64, FlashError> {
        let page = self.geometry.page_of(unit);
        if self.media.is_exact() {
            return self.read_exact(unit, within, into, cause, at_ps);
        }
        let block = self.geometry.block_of(page);
        let from = self.geometry.unit_in_page(unit) as usize * UNIT_BYTES + within;
        if kind == PageKind::Units && !self.has_faded(block) && self.copies(run, page, from, into) {
            let units = (from + into.len()).div_ceil(UNIT_BYTES) - from / UNIT_BYTES;
            return Ok(self.note_read(block, units, cause, at_ps));
        }
        let spare = self.spare_for(kind, run, unit)?;
        if self.has_faded(block) {
            return Err(self.media_error(unit, "it was read too often or is too old"));
        }
        if from + into.len() > self.geometry.page_bytes as usize {
            // A forged map of a whole-page extent may point into the middle of a page.
            return Err(self.media_error(unit, "its map entry does not point to a whole page"));
        }
        let first_unit = from / UNIT_BYTES;
        let end_unit = (from + into.len()).div_ceil(UNIT_BYTES);
        let whole = from.is_multiple_of(UNIT_BYTES) && into.len().is_multiple_of(UNIT_BYTES);
        let matches = if whole {
            let read = self.media.read(page, from, into);
            self.noted(read)?;
            crcs_match(&spare, first_unit, into)
        } else {
            self.read_part(&spare, page, from, into)?
        };
        if !matches {
            return Err(self.media_error(unit, "its data does not match its checksum"));
        }
        Ok(self.note_read(block, end_unit - first_unit, cause, at_ps))
    }

    /// The same from a medium that returns exactly what was programmed: neither checksum nor owner is checked.
    fn read_exact(
        &mut self,
        unit: UnitId,
        within: usize,
        into: &mut [u8],
        cause: Cause,
        at_ps: u64,
    ) -> Result<u64, FlashError> {
        let page = self.geometry.page_of(unit);
        let (block, page_in_block) = self.geometry.place_of(page);
        let from = self.geometry.unit_in_page(unit) as usize * UNIT_BYTES + within;
        if page_in_block >= self.blocks.get(block).written {
            return Err(self.media_error(unit, "it was never written"));
        }
        if self.has_faded(block) {
            return Err(self.media_error(unit, "it was read too often or is too old"));
        }
        self.media.read(page, from, into)?;
        let units = (from + into.len()).div_ceil(UNIT_BYTES) - from / UNIT_BYTES;
        Ok(self.note_read(block, units, cause, at_ps))
    }

    /// Counts and times a read of units of a block; when it is done.
    fn note_read(&mut self, block: BlockId, units: usize, cause: Cause, at_ps: u64) -> u64 {
        let bytes = (units * UNIT_BYTES) as u64;
        self.state.count_read(cause, bytes);
        self.note_block_read(block, at_ps);
        self.timing.read(&self.geometry, block, bytes, at_ps)
    }

    /// Fills `into` from a mapped medium, if what is there is what the run's entries own. Any damage is left to be named.
    #[inline]
    fn copies(&self, run: Run, page: PageId, from: usize, into: &mut [u8]) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.copy(PageKind::Units, page, from, into, run.first))
    }

    /// Fills `into` from byte `from` of a page on, which is amid a unit or ends there; whether the units match their checksums.
    /// They are looked at where they are, if the medium lends them: most of what is checked is not wanted.
    fn read_part(
        &mut self,
        spare: &SpareRecord,
        page: PageId,
        from: usize,
        into: &mut [u8],
    ) -> Result<bool, FlashError> {
        let first_unit = from / UNIT_BYTES;
        let (at, len) = (first_unit * UNIT_BYTES, (from + into.len()).next_multiple_of(UNIT_BYTES));
        let (within, len) = (from - at, len - at);
        if let Some(units) = self.media.lend(page, at, len) {
            into.copy_from_slice(&units[within..within + into.len()]);
            return Ok(crcs_match(spare, first_unit, units));
        }
        let mut scratch = self.scratch.take();
        let units = &mut scratch[..len];
        let read = self.media.read(page, at, units);
        let matches = read.is_ok() && crcs_match(spare, first_unit, units);
        into.copy_from_slice(&units[within..within + into.len()]);
        self.scratch.give_back(scratch);
        self.noted(read)?;
        Ok(matches)
    }

    /// Counts a media error that the medium itself reports.
    fn noted(&mut self, read: Result<(), FlashError>) -> Result<(), FlashError> {
        if matches!(read, Err(FlashError::Media { .. })) {
            self.state.count_media_error();
        }
        read
    }

    /// The spare record of a page that a run points into, if the record names that run.
    fn spare_for(&mut self, kind: PageKind, run: Run, unit: UnitId) -> Result<SpareRecord, FlashError> {
        let page = self.geometry.page_of(unit);
        let block = self.geometry.block_of(page);
        let page_in_block = page.0 % u64::from(self.geometry.pages_per_block);
        if page_in_block >= u64::from(self.blocks.get(block).written) {
            return Err(self.media_error(unit, "it was never written"));
        }
        let Some(spare) = self.spare(page) else {
            return Err(self.media_error(unit, "its spare record does not match its checksum"));
        };
        let start = self.geometry.unit_in_page(unit) as usize;
        let owned = (0..run.entries as usize).all(|i| spare.owner(start + i) == run.first + i as u64);
        if spare.kind != kind || !owned {
            return Err(self.media_error(unit, "it holds data of another owner"));
        }
        Ok(spare)
    }
}
