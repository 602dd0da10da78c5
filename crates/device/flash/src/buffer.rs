//! The unit buffer: units gather in power-protected memory until they fill a page.
//!
//! One slot for what callers write and one for garbage collection. A position is written, named, counted and only
//! then pointed to by the map; a slot is reused only when the map points nowhere into it.

use crate::error::FlashError;
use crate::geometry::{Geometry, UNIT_BYTES};
use crate::image::layout::Layout;
use crate::map::EntryIndex;
use crate::protected::{Backing, Protected};

/// Who fills a slot, and the open blocks that go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Host,
    Gc,
}

/// Bytes of the header of a slot: filled positions, then owner and checksum of each.
const HEADER_BYTES: usize = 512;
const OWNERS: usize = 8;
const CRCS: usize = 256;

/// Headers come first; data starts at the next alignment of the layout.
const DATA: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct UnitBuffer {
    memory: Protected,
    page_bytes: usize,
    units: u32,
}

impl UnitBuffer {
    pub(crate) fn open(backing: &Backing, layout: &Layout, geometry: &Geometry) -> Result<Self, FlashError> {
        let memory = backing.map(layout.buffer)?;
        Ok(Self { memory, page_bytes: geometry.page_bytes as usize, units: geometry.units_per_page() })
    }

    /// Positions used in the slot of `stream`.
    #[inline]
    pub(crate) fn filled(&self, stream: Stream) -> u32 {
        (self.memory.word(header(stream)) as u32).min(self.units)
    }

    pub(crate) fn is_full(&self, stream: Stream) -> bool {
        self.filled(stream) == self.units
    }

    /// Adds a unit to a slot that is not full and says its position. The map does not point to it yet.
    pub(crate) fn push(&mut self, stream: Stream, owner: EntryIndex, data: &[u8], crc: u32) -> u32 {
        let position = self.filled(stream);
        let at = self.data_at(stream, position);
        self.memory[at..at + UNIT_BYTES].copy_from_slice(data);
        let (owner_at, crc_at) = (owner_at(stream, position), crc_at(stream, position));
        self.memory.set_word(owner_at, owner);
        self.memory.set_word(crc_at, u64::from(crc));
        self.memory.set_word(header(stream), u64::from(position + 1));
        position
    }

    /// Owner and checksum of a position.
    pub(crate) fn unit(&self, stream: Stream, position: u32) -> (EntryIndex, u32) {
        let crc = self.memory.word(crc_at(stream, position));
        (self.memory.word(owner_at(stream, position)), crc as u32)
    }

    /// The unit at a place that the map names, if there is such a place and it is `owner`'s.
    pub(crate) fn find(&self, slot: u32, position: u32, owner: EntryIndex) -> Option<(&[u8], u32)> {
        let stream = Stream::of_slot(slot)?;
        if position >= self.filled(stream) {
            return None;
        }
        let (found, crc) = self.unit(stream, position);
        let at = self.data_at(stream, position);
        (found == owner).then(|| (&self.memory[at..at + UNIT_BYTES], crc))
    }

    /// Whether any position holds something of `owner`, current or not.
    pub(crate) fn names(&self, owner: EntryIndex) -> bool {
        let holds = |stream| (0..self.filled(stream)).any(|position| self.unit(stream, position).0 == owner);
        [Stream::Host, Stream::Gc].into_iter().any(holds)
    }

    /// The whole page of a slot.
    pub(crate) fn page(&self, stream: Stream) -> &[u8] {
        &self.memory[self.data_at(stream, 0)..][..self.page_bytes]
    }

    /// Fills a position that the map does not point to with zeroes.
    pub(crate) fn wipe(&mut self, stream: Stream, position: u32) {
        let at = self.data_at(stream, position);
        self.memory[at..at + UNIT_BYTES].fill(0);
    }

    /// Empties a slot that the map points nowhere into.
    pub(crate) fn clear(&mut self, stream: Stream) {
        self.memory.set_word(header(stream), 0);
    }

    fn data_at(&self, stream: Stream, position: u32) -> usize {
        DATA + stream.slot() as usize * self.page_bytes + position as usize * UNIT_BYTES
    }
}

impl Stream {
    pub(crate) const fn slot(self) -> u32 {
        match self {
            Self::Host => 0,
            Self::Gc => 1,
        }
    }

    const fn of_slot(slot: u32) -> Option<Self> {
        match slot {
            0 => Some(Self::Host),
            1 => Some(Self::Gc),
            _ => None,
        }
    }
}

const fn header(stream: Stream) -> usize {
    stream.slot() as usize * HEADER_BYTES
}

const fn owner_at(stream: Stream, position: u32) -> usize {
    header(stream) + OWNERS + position as usize * 8
}

const fn crc_at(stream: Stream, position: u32) -> usize {
    header(stream) + CRCS + position as usize * 8
}
