//! The map from logical units and pages to where their data is.
//!
//! An entry is one self-checking word, so a flip from the old place to the new one happens wholly or not at all.
//! Segments of the map take disk room when an entry in them is first set.

use byway_sys::MappingReader;
use byway_sys::cacheline::prefetch;

use crate::error::FlashError;
use crate::geometry::Geometry;
use crate::image::layout::{Layout, MAP_ENTRY_BYTES, MAP_SEGMENT_BYTES, Range, map_entries};
use crate::location::{Before, EntryIndex, Location};
use crate::protected::{Backing, Published};
use crate::word;

/// A word of zeroes: never set, or trimmed.
const UNMAPPED: u64 = 0;

/// A segment that has its disk room. Any other value but zero is damage: the segment is read, and takes room again
/// before it is written.
const PRESENT: u8 = 0xA5;
const ABSENT: u8 = 0;

/// An entry that does not match its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedEntry;

/// All entries of a device.
#[derive(Debug)]
pub(crate) struct UnitMap {
    table: Published,
    presence: Published,
    range: Range,
    backing: Backing,
    entries: u64,
    units: u64,
}

impl UnitMap {
    pub(crate) fn open(backing: &Backing, layout: &Layout, geometry: &Geometry) -> Result<Self, FlashError> {
        Ok(Self {
            table: backing.map_published(layout.map)?,
            presence: backing.map_published(layout.map_presence)?,
            range: layout.map,
            backing: backing.clone(),
            entries: map_entries(geometry),
            units: geometry.unit_count(),
        })
    }

    /// Entries there are.
    pub(crate) const fn len(&self) -> u64 {
        self.entries
    }

    /// Prefetches entry `index`, which will soon be read.
    #[inline]
    pub(crate) fn prefetch(&self, index: EntryIndex) {
        prefetch(&self.table, index.wrapping_mul(MAP_ENTRY_BYTES) as usize);
    }

    /// Where the data of entry `index` is.
    #[inline]
    pub(crate) fn load(&self, index: EntryIndex) -> Result<Location, DamagedEntry> {
        if !self.is_present(index) {
            return Ok(Location::Unmapped);
        }
        located(self.table.word((index * MAP_ENTRY_BYTES) as usize), index, self.units)
    }

    /// A reader for other threads.
    pub(crate) fn reader(&self) -> MapReader {
        let (table, presence) = (self.table.reader(), self.presence.reader());
        MapReader { table, presence, entries: self.entries, units: self.units }
    }

    /// What a damaged entry is with one bit set right: unmapped, or where its data is.
    pub(crate) fn repaired(&self, index: EntryIndex) -> Option<Location> {
        let word = self.table.word((index * MAP_ENTRY_BYTES) as usize);
        if word.is_power_of_two() {
            return Some(Location::Unmapped);
        }
        let value = word::repaired(word, index)? & word::MAX_VALUE;
        Location::from_value(value)
            .filter(|place| !matches!(place, Location::Flash(unit) if unit.0 >= self.units))
    }

    /// Marks segments right whose mark is damaged or gone though they hold entries; how many.
    pub(crate) fn repair_presence(&mut self) -> u64 {
        let words = (MAP_SEGMENT_BYTES / MAP_ENTRY_BYTES) as usize;
        let stored = self.backing.stored(self.range);
        let mut repaired = 0;
        for segment in 0..self.presence.len().min(self.table.len() / MAP_SEGMENT_BYTES as usize) {
            let first = segment * words;
            let holds = |index: usize| {
                let word = self.table.word(index * MAP_ENTRY_BYTES as usize);
                word != UNMAPPED && word::unseal(word, index as u64).is_some()
            };
            let is_right = match self.presence[segment] {
                PRESENT => true,
                ABSENT if !is_stored(&stored, segment as u64 * MAP_SEGMENT_BYTES) => true,
                ABSENT => !(first..first + words).any(holds),
                _ => false,
            };
            if !is_right {
                self.presence.write(segment, &[PRESENT]);
                repaired += 1;
            }
        }
        repaired
    }

    /// What entry `index` was at the last sync, as long as its place is younger.
    #[inline]
    pub(crate) fn before(&self, index: EntryIndex) -> Before {
        Before::from_value(self.table.word((index * MAP_ENTRY_BYTES) as usize))
    }

    /// Points entry `index` at `location`, by one store. Its segment [is ready](Self::make_ready).
    #[inline]
    pub(crate) fn store(&mut self, index: EntryIndex, location: Location, before: Before) {
        let sealed = |value| word::seal(value | before.to_value(), index);
        let word = location.to_value().map_or(UNMAPPED, sealed);
        self.table.set_word((index * MAP_ENTRY_BYTES) as usize, word);
    }

    /// Frees the file ranges of map segments that were never used: any bytes there are damage.
    pub(crate) fn give_back_absent(&self) -> Result<(), FlashError> {
        let mut index = 0;
        while index < self.entries {
            let absent = self.absent_from(index);
            if absent > 0 {
                self.backing.release(self.range.part(index * MAP_ENTRY_BYTES, absent * MAP_ENTRY_BYTES))?;
            }
            index += absent.max(MAP_SEGMENT_BYTES / MAP_ENTRY_BYTES);
        }
        Ok(())
    }

    /// Takes the room of segments that are used once more: a cut may have undone that it was taken.
    pub(crate) fn take_present(&self) -> Result<(), FlashError> {
        let segments = self.entries.div_ceil(MAP_SEGMENT_BYTES / MAP_ENTRY_BYTES);
        for segment in (0..segments).filter(|segment| self.presence[*segment as usize] != ABSENT) {
            self.backing.allocate(self.range.part(segment * MAP_SEGMENT_BYTES, MAP_SEGMENT_BYTES))?;
        }
        Ok(())
    }

    /// Entries from `first`, the beginning of a segment, that are absent segment after segment.
    fn absent_from(&self, first: EntryIndex) -> u64 {
        let mut index = first;
        while index < self.entries && !self.is_present(index) {
            index += MAP_SEGMENT_BYTES / MAP_ENTRY_BYTES;
        }
        index.min(self.entries) - first
    }

    /// Takes disk room for the entries `first..first + count`, so that setting them cannot fail.
    #[inline]
    pub(crate) fn make_ready(&mut self, first: EntryIndex, count: u64) -> Result<(), FlashError> {
        for segment in segment_of(first)..=segment_of(first + count.max(1) - 1) {
            if self.presence[segment] != PRESENT {
                self.take_room(segment)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn take_room(&mut self, segment: usize) -> Result<(), FlashError> {
        self.backing.allocate(self.range.part(segment as u64 * MAP_SEGMENT_BYTES, MAP_SEGMENT_BYTES))?;
        self.presence.write(segment, &[PRESENT]);
        Ok(())
    }

    /// Entries from `first` on that are known to be unmapped because their segment was never used.
    pub(crate) fn absent_run(&self, first: EntryIndex) -> u64 {
        if first >= self.entries || self.is_present(first) {
            return 0;
        }
        (segment_of(first) as u64 + 1) * (MAP_SEGMENT_BYTES / MAP_ENTRY_BYTES) - first
    }

    #[inline]
    fn is_present(&self, index: EntryIndex) -> bool {
        is_present_in(index, |at| self.presence.word(at))
    }
}

/// Whether the segment of an entry was ever used, by a word of the marks.
#[inline]
fn is_present_in(index: EntryIndex, word: impl FnOnce(usize) -> u64) -> bool {
    let segment = segment_of(index);
    word(segment / 8 * 8).to_le_bytes()[segment % 8] != ABSENT
}

/// Reads entries while the device moves them.
#[derive(Debug)]
pub(crate) struct MapReader {
    table: MappingReader,
    presence: MappingReader,
    entries: u64,
    units: u64,
}

/// An entry as it was at one moment. An entry that is the same again was that all the time, or moved there again meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryWord(u64);

impl MapReader {
    /// Entry `index`, before everything that is read after it.
    #[inline]
    pub(crate) fn load(&self, index: EntryIndex) -> EntryWord {
        if index >= self.entries || !self.is_present(index) {
            return EntryWord(UNMAPPED);
        }
        EntryWord(self.table.load_u64((index * MAP_ENTRY_BYTES) as usize).unwrap_or(UNMAPPED))
    }

    /// Whether the entries `first..first + count` have their disk room, so that setting them cannot fail.
    #[inline]
    pub(crate) fn is_ready(&self, first: EntryIndex, count: u64) -> bool {
        let end = first.saturating_add(count.max(1));
        let has_room = |segment: usize| {
            let word = self.presence.load_u64(segment / 8 * 8).unwrap_or(0);
            word.to_le_bytes()[segment % 8] == PRESENT
        };
        end <= self.entries && (segment_of(first)..=segment_of(end - 1)).all(has_room)
    }

    /// Prefetches entry `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: EntryIndex) {
        self.table.prefetch(index.wrapping_mul(MAP_ENTRY_BYTES) as usize);
    }

    /// Where the data of an entry is.
    #[inline]
    pub(crate) fn location(&self, index: EntryIndex, word: EntryWord) -> Result<Location, DamagedEntry> {
        located(word.0, index, self.units)
    }

    #[inline]
    fn is_present(&self, index: EntryIndex) -> bool {
        is_present_in(index, |at| self.presence.load_u64(at).unwrap_or(0))
    }
}

/// Where the data of an entry is that has this word.
#[inline]
fn located(word: u64, index: EntryIndex, units: u64) -> Result<Location, DamagedEntry> {
    if word == UNMAPPED {
        return Ok(Location::Unmapped);
    }
    let location = word::unseal(word, index).and_then(Location::from_value).ok_or(DamagedEntry)?;
    match location {
        Location::Flash(unit) if unit.0 >= units => Err(DamagedEntry),
        location => Ok(location),
    }
}

/// Whether something is stored of the segment that begins at this byte of the map.
fn is_stored(stored: &[std::ops::Range<u64>], at: u64) -> bool {
    stored.iter().any(|range| range.start < at + MAP_SEGMENT_BYTES && range.end > at)
}

/// Makes the checksums of entries fit, for fuzzers.
pub(crate) fn reseal(region: &mut [u8]) {
    for (index, bytes) in (0..).zip(region.chunks_exact_mut(MAP_ENTRY_BYTES as usize)) {
        word::reseal(bytes, index);
    }
}

#[inline]
const fn segment_of(index: EntryIndex) -> usize {
    (index * MAP_ENTRY_BYTES / MAP_SEGMENT_BYTES) as usize
}
