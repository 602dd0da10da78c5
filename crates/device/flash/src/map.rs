//! The map from logical units and pages to where their data is.
//!
//! An entry is one self-checking word, so a flip from the old place to the new one happens wholly or not at all.
//! Segments of the map take disk room when an entry in them is first set.

use crate::error::FlashError;
use crate::geometry::{Geometry, UnitId};
use crate::image::layout::{Layout, MAP_ENTRY_BYTES, MAP_SEGMENT_BYTES, Range, map_entries};
use crate::protected::{Backing, Protected};
use crate::word;

const KIND_SHIFT: u32 = 44;
// Two bits each, so that no flipped bit makes an entry a word of zeroes.
const KIND_FLASH: u64 = 0b0011;
const KIND_BUFFER: u64 = 0b0101;
const KIND_LOST: u64 = 0b0110;

/// A word of zeroes: never set, or trimmed.
const UNMAPPED: u64 = 0;

/// A segment that has its disk room. Any other value but zero is damage: the segment is read, and takes room again
/// before it is written.
const PRESENT: u8 = 0xA5;
const ABSENT: u8 = 0;

/// Index of an entry in the map, over all namespaces: the owner that spare records name.
pub(crate) type EntryIndex = u64;

/// Where the data of an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    Unmapped,
    Flash(UnitId),
    /// In the protected unit buffer.
    Buffer {
        slot: u32,
        position: u32,
    },
    /// It was acknowledged and then destroyed by a media error; reads say so until it is written again.
    Lost,
}

impl Location {
    fn to_value(self) -> Option<u64> {
        let (kind, place) = match self {
            Self::Unmapped => return None,
            Self::Flash(unit) => (KIND_FLASH, unit.0),
            Self::Buffer { slot, position } => (KIND_BUFFER, u64::from(slot) << 16 | u64::from(position)),
            Self::Lost => (KIND_LOST, 0),
        };
        Some(kind << KIND_SHIFT | place)
    }

    fn from_value(value: u64) -> Option<Self> {
        let place = value & ((1 << KIND_SHIFT) - 1);
        match value >> KIND_SHIFT {
            KIND_FLASH => Some(Self::Flash(UnitId(place))),
            KIND_BUFFER => {
                Some(Self::Buffer { slot: (place >> 16) as u32, position: (place & 0xFFFF) as u32 })
            }
            KIND_LOST => Some(Self::Lost),
            _ => None,
        }
    }

    /// As kept in the intent word, where unmapped is a value too.
    pub(crate) fn to_raw(self) -> u64 {
        self.to_value().unwrap_or(0)
    }

    pub(crate) fn from_raw(raw: u64) -> Option<Self> {
        if raw == 0 { Some(Self::Unmapped) } else { Self::from_value(raw) }
    }
}

/// An entry that does not match its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedEntry;

/// All entries of a device.
#[derive(Debug)]
pub(crate) struct UnitMap {
    table: Protected,
    presence: Protected,
    range: Range,
    backing: Backing,
    entries: u64,
    units: u64,
}

impl UnitMap {
    pub(crate) fn open(backing: &Backing, layout: &Layout, geometry: &Geometry) -> Result<Self, FlashError> {
        Ok(Self {
            table: backing.map(layout.map)?,
            presence: backing.map(layout.map_presence)?,
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

    /// Where the data of entry `index` is.
    #[inline]
    pub(crate) fn load(&self, index: EntryIndex) -> Result<Location, DamagedEntry> {
        if !self.is_present(index) {
            return Ok(Location::Unmapped);
        }
        let word = self.table.word((index * MAP_ENTRY_BYTES) as usize);
        if word == UNMAPPED {
            return Ok(Location::Unmapped);
        }
        let location = word::unseal(word, index).and_then(Location::from_value).ok_or(DamagedEntry)?;
        match location {
            Location::Flash(unit) if unit.0 >= self.units => Err(DamagedEntry),
            location => Ok(location),
        }
    }

    /// What a damaged entry is with one bit set right: unmapped, or where its data is.
    pub(crate) fn mended(&self, index: EntryIndex) -> Option<Location> {
        let word = self.table.word((index * MAP_ENTRY_BYTES) as usize);
        if word.is_power_of_two() {
            return Some(Location::Unmapped);
        }
        let value = word::mended(word, index)? & word::MAX_VALUE;
        Location::from_value(value)
            .filter(|place| !matches!(place, Location::Flash(unit) if unit.0 >= self.units))
    }

    /// Marks segments right whose mark is damaged or gone though they hold entries; how many.
    pub(crate) fn mend_presence(&mut self) -> u64 {
        let words = (MAP_SEGMENT_BYTES / MAP_ENTRY_BYTES) as usize;
        let mut mended = 0;
        for segment in 0..self.presence.len().min(self.table.len() / MAP_SEGMENT_BYTES as usize) {
            let first = segment * words;
            let holds = |index: usize| {
                let word = self.table.word(index * MAP_ENTRY_BYTES as usize);
                word != UNMAPPED && word::unseal(word, index as u64).is_some()
            };
            let is_right = match self.presence[segment] {
                PRESENT => true,
                ABSENT => !(first..first + words).any(holds),
                _ => false,
            };
            if !is_right {
                self.presence[segment] = PRESENT;
                mended += 1;
            }
        }
        mended
    }

    /// Points entry `index` at `location`, by one store. Its segment [is ready](Self::make_ready).
    #[inline]
    pub(crate) fn store(&mut self, index: EntryIndex, location: Location) {
        let word = location.to_value().map_or(UNMAPPED, |value| word::seal(value, index));
        self.table.set_word((index * MAP_ENTRY_BYTES) as usize, word);
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
        self.presence[segment] = PRESENT;
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
        self.presence[segment_of(index)] != ABSENT
    }
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
