//! Where the data of an entry of the map is, as words of the map keep it.

use std::fmt;

use crate::geometry::UnitId;

const KIND_SHIFT: u32 = 44;
const BEFORE_SHIFT: u32 = 42;
// Two bits each, so that no flipped bit makes an entry a word of zeroes.
const KIND_FLASH: u64 = 0b0011;
const KIND_BUFFER: u64 = 0b0101;
const KIND_LOST: u64 = 0b0110;

/// Index of an entry in the map, over all namespaces: the owner that spare records name.
pub(crate) type EntryIndex = u64;

/// Where a unit is in the buffer, and of which turn of its slot: a slot whose header did not reach the medium holds
/// what an earlier turn did, perhaps of the same owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferPlace {
    pub(crate) slot: u8,
    pub(crate) position: u8,
    /// Low bits of the unit's number.
    pub(crate) seq_low: u32,
}

/// Bits of a unit's number in a word of the map.
const SEQ_BITS: u32 = 26;

impl BufferPlace {
    pub(crate) fn new(slot: u32, position: u32, seq: u64) -> Self {
        Self { slot: slot as u8, position: position as u8, seq_low: (seq & ((1 << SEQ_BITS) - 1)) as u32 }
    }

    /// As kept in a word of the map: 42 bits.
    pub(crate) fn to_value(self) -> u64 {
        u64::from(self.seq_low) << 16 | u64::from(self.slot) << 8 | u64::from(self.position)
    }

    pub(crate) const fn from_value(value: u64) -> Self {
        let seq_low = (value >> 16 & ((1 << SEQ_BITS) - 1)) as u32;
        Self { slot: (value >> 8) as u8, position: value as u8, seq_low }
    }
}

impl fmt::Display for BufferPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}, position {}", self.slot, self.position)
    }
}

/// Where the data of an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    Unmapped,
    Flash(UnitId),
    /// In the protected unit buffer.
    Buffer(BufferPlace),
    /// It was acknowledged and then destroyed by a media error; reads say so until it is written again.
    Lost,
}

/// What an entry was at the last sync, where it moved since: what it is again if its new place did not reach the
/// medium. Once the place did, this says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// It had data, which is still where it was: spare records and the buffer name it.
    Mapped,
    Unmapped,
    Lost,
}

impl Before {
    pub(crate) const fn to_value(self) -> u64 {
        (match self {
            Self::Mapped => 0,
            Self::Unmapped => 1,
            Self::Lost => 2,
        }) << BEFORE_SHIFT
    }

    pub(crate) const fn from_value(value: u64) -> Self {
        match value >> BEFORE_SHIFT & 3 {
            1 => Self::Unmapped,
            2 => Self::Lost,
            _ => Self::Mapped,
        }
    }
}

impl Location {
    pub(crate) fn to_value(self) -> Option<u64> {
        let (kind, place) = match self {
            Self::Unmapped => return None,
            Self::Flash(unit) => (KIND_FLASH, unit.0),
            Self::Buffer(place) => (KIND_BUFFER, place.to_value()),
            Self::Lost => (KIND_LOST, 0),
        };
        Some(kind << KIND_SHIFT | place)
    }

    pub(crate) fn from_value(value: u64) -> Option<Self> {
        let place = value & ((1 << BEFORE_SHIFT) - 1);
        match value >> KIND_SHIFT {
            KIND_FLASH => Some(Self::Flash(UnitId(place))),
            KIND_BUFFER => Some(Self::Buffer(BufferPlace::from_value(place))),
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
