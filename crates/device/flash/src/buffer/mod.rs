//! The unit buffer: units gather in power-protected memory until they fill a page.
//!
//! Slots for what callers write and slots for garbage collection, each used in turn. A position is written, named,
//! counted and only then pointed to by the map. A slot is filled again only when the map points nowhere into it, and
//! once that is on the medium: the turns make room for a sync to come by itself.

use byway_sys::{MappingReader, checksum};

use crate::durability::Epoch;
use crate::error::FlashError;
use crate::geometry::{Geometry, UNIT_BYTES};
use crate::image::layout::{BUFFER_SLOTS, Layout};
use crate::location::{BufferPlace, EntryIndex};
use crate::media::copy_checked;
use crate::protected::{Backing, Published};

/// Writer of a slot (host or garbage collection), which selects the open blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Host,
    Gc,
}

/// Bytes of the header of a slot, one sector: filled positions, then owner, checksum and number of each.
const HEADER_BYTES: usize = 512;
const OWNERS: usize = 8;
const CRCS: usize = 160;
const SEQS: usize = 320;

/// Headers come first; data starts at the next alignment of the layout.
const DATA: usize = 64 << 10;

const SLOTS_A_STREAM: u32 = BUFFER_SLOTS / 2;

/// A unit in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferedUnit<'a> {
    pub(crate) place: BufferPlace,
    pub(crate) owner: EntryIndex,
    pub(crate) crc: u32,
    pub(crate) seq: u64,
    pub(crate) data: &'a [u8],
}

impl BufferedUnit<'_> {
    pub(crate) fn is_whole(&self) -> bool {
        checksum::crc32c(self.data) == self.crc
    }
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// The map points into it.
    Held,
    /// The map points nowhere into it since this epoch.
    Free(Epoch),
}

#[derive(Debug)]
pub(crate) struct UnitBuffer {
    memory: Published,
    page_bytes: usize,
    units: u32,
    states: [SlotState; BUFFER_SLOTS as usize],
    /// The slot that each stream fills.
    current: [u32; 2],
}

impl UnitBuffer {
    pub(crate) fn open(backing: &Backing, layout: &Layout, geometry: &Geometry) -> Result<Self, FlashError> {
        let memory = backing.map_published(layout.buffer)?;
        let states = [SlotState::Free(Epoch::default()); BUFFER_SLOTS as usize];
        let current = [Stream::Host, Stream::Gc].map(|stream| stream as u32 * SLOTS_A_STREAM);
        Ok(Self {
            memory,
            page_bytes: geometry.page_bytes as usize,
            units: geometry.units_per_page(),
            states,
            current,
        })
    }

    /// Takes up slots that the map points into: they are held, and the last of a stream is the one it fills.
    pub(crate) fn take_up(&mut self, held: impl Fn(u32) -> bool) {
        for slot in (0..BUFFER_SLOTS).filter(|slot| held(*slot)) {
            self.states[slot as usize] = SlotState::Held;
            self.current[(slot / SLOTS_A_STREAM) as usize] = slot;
        }
    }

    /// Slots of a stream that the map points into.
    pub(crate) fn held(&self, stream: Stream) -> Vec<u32> {
        slots(stream).filter(|slot| self.states[*slot as usize] == SlotState::Held).collect()
    }

    /// The slot that a stream fills.
    pub(crate) const fn current(&self, stream: Stream) -> u32 {
        self.current[stream as usize]
    }

    /// Positions of a slot that count.
    #[inline]
    pub(crate) fn filled(&self, slot: u32) -> u32 {
        (self.memory.word(header(slot)) as u32).min(self.units)
    }

    #[inline]
    pub(crate) fn has_room(&self, stream: Stream) -> bool {
        let slot = self.current(stream);
        self.states[slot as usize] == SlotState::Held && self.filled(slot) < self.units
    }

    /// The slot to fill after the current one, and the epoch since which the map points nowhere into it.
    pub(crate) fn next(&self, stream: Stream) -> Option<(u32, Epoch)> {
        let (first, within) = (stream as u32 * SLOTS_A_STREAM, self.current(stream) % SLOTS_A_STREAM);
        (1..=SLOTS_A_STREAM).map(|step| first + (within + step) % SLOTS_A_STREAM).find_map(|slot| match self
            .states[slot as usize]
        {
            SlotState::Free(since) => Some((slot, since)),
            SlotState::Held => None,
        })
    }

    /// Empties a slot and makes it the one that its stream fills.
    pub(crate) fn begin(&mut self, slot: u32) {
        self.memory.set_word(header(slot), 0);
        self.states[slot as usize] = SlotState::Held;
        self.current[(slot / SLOTS_A_STREAM) as usize] = slot;
    }

    /// Empties all slots. The map points into none of them, on the medium neither.
    pub(crate) fn empty(&mut self) {
        (0..BUFFER_SLOTS).for_each(|slot| self.memory.set_word(header(slot), 0));
    }

    /// Notes that the map points nowhere into a slot from this epoch on.
    pub(crate) const fn give_up(&mut self, slot: u32, since: Epoch) {
        self.states[slot as usize] = SlotState::Free(since);
    }

    /// Adds a unit to the current slot of a stream, which has room, and says its place. The map does not point to it
    /// yet.
    pub(crate) fn push(
        &mut self,
        stream: Stream,
        owner: EntryIndex,
        data: &[u8],
        crc: u32,
        seq: u64,
    ) -> BufferPlace {
        let slot = self.current(stream);
        let position = self.filled(slot);
        let at = self.data_at(slot, position);
        self.memory.write(at, data);
        self.memory.set_word(field(slot, OWNERS, position), owner);
        self.memory.set_word(field(slot, CRCS, position), u64::from(crc));
        self.memory.set_word(field(slot, SEQS, position), seq);
        self.memory.set_word(header(slot), u64::from(position + 1));
        BufferPlace::new(slot, position, seq)
    }

    /// The unit at a place that the map names, if that is there.
    pub(crate) fn unit(&self, place: BufferPlace) -> Option<BufferedUnit<'_>> {
        self.unit_at(place.slot.into(), place.position.into()).filter(|unit| unit.place == place)
    }

    /// The unit at a position, if the slot is filled so far.
    pub(crate) fn unit_at(&self, slot: u32, position: u32) -> Option<BufferedUnit<'_>> {
        if slot >= BUFFER_SLOTS || position >= self.filled(slot) {
            return None;
        }
        let at = self.data_at(slot, position);
        let seq = self.memory.word(field(slot, SEQS, position));
        Some(BufferedUnit {
            place: BufferPlace::new(slot, position, seq),
            owner: self.memory.word(field(slot, OWNERS, position)),
            crc: self.memory.word(field(slot, CRCS, position)) as u32,
            seq,
            data: &self.memory[at..at + UNIT_BYTES],
        })
    }

    /// A reader for other threads.
    pub(crate) fn reader(&self) -> BufferReader {
        BufferReader { memory: self.memory.reader(), page_bytes: self.page_bytes, units: self.units }
    }

    /// Every unit there is.
    pub(crate) fn units(&self) -> impl Iterator<Item = BufferedUnit<'_>> {
        let places = (0..BUFFER_SLOTS).flat_map(|slot| (0..self.units).map(move |position| (slot, position)));
        places.filter_map(|(slot, position)| self.unit_at(slot, position))
    }

    /// Whether any position holds something of `owner` that is newer than program `seq`.
    pub(crate) fn names_newer(&self, owner: EntryIndex, seq: u64) -> bool {
        self.units().any(|unit| unit.owner == owner && unit.seq > seq)
    }

    /// Sets right the one bit that keeps the unit at a place from being what the map says: `owner`'s, of that turn, and
    /// whole. False, with nothing changed, where it is that or one bit is not all.
    pub(crate) fn repair(&mut self, place: BufferPlace, owner: EntryIndex) -> bool {
        let (slot, position) = (u32::from(place.slot), u32::from(place.position));
        if slot >= BUFFER_SLOTS || position >= self.units {
            return false;
        }
        let filled = self.filled(slot);
        let at = |fields| field(slot, fields, position);
        let wrong_owner = self.memory.word(at(OWNERS)) ^ owner;
        let wrong_turn = BufferPlace::new(slot, position, self.memory.word(at(SEQS))).seq_low ^ place.seq_low;
        let data_at = self.data_at(slot, position);
        let crc = checksum::crc32c(&self.memory[data_at..data_at + UNIT_BYTES]);
        let wrong_crc = crc ^ self.memory.word(at(CRCS)) as u32;
        let is_named = position < filled;
        match (is_named, wrong_owner.count_ones(), wrong_turn.count_ones(), wrong_crc.count_ones()) {
            (false, 0, 0, 0) => self.memory.set_word(header(slot), u64::from(position + 1)),
            (true, 1, 0, 0) => self.memory.set_word(at(OWNERS), owner),
            (true, 0, 1, 0) => {
                let seq = self.memory.word(at(SEQS)) ^ u64::from(wrong_turn);
                self.memory.set_word(at(SEQS), seq);
            }
            // No bit of a unit changes a single one of its checksum.
            (true, 0, 0, 1) => self.memory.set_word(at(CRCS), u64::from(crc)),
            (true, 0, 0, 2..) => {
                let Some(bit) = checksum::flipped_bit(UNIT_BYTES, wrong_crc) else { return false };
                let byte = self.memory[data_at + bit / 8] ^ 1 << (bit % 8);
                self.memory.write(data_at + bit / 8, &[byte]);
            }
            _ => return false,
        }
        true
    }

    /// The whole page of a slot.
    pub(crate) fn page(&self, slot: u32) -> &[u8] {
        &self.memory[self.data_at(slot, 0)..][..self.page_bytes]
    }

    /// Fills a position that the map does not point to with zeroes.
    pub(crate) fn wipe(&mut self, slot: u32, position: u32) {
        let at = self.data_at(slot, position);
        self.memory.clear(at, UNIT_BYTES);
    }

    fn data_at(&self, slot: u32, position: u32) -> usize {
        data_at(self.page_bytes, slot, position)
    }
}

/// Reads buffered units while the device fills and reuses slots. The map's entry names a unit as long as it is there.
#[derive(Debug)]
pub(crate) struct BufferReader {
    memory: MappingReader,
    page_bytes: usize,
    units: u32,
}

impl BufferReader {
    /// Fills `into` from byte `within` of the unit at a place on; whether that is `owner`'s, and whole.
    pub(crate) fn copy(&self, place: BufferPlace, owner: EntryIndex, within: usize, into: &mut [u8]) -> bool {
        let (slot, position) = (u32::from(place.slot), u32::from(place.position));
        if slot >= BUFFER_SLOTS || position >= self.units {
            return false;
        }
        let word = |fields| self.memory.load_u64(field(slot, fields, position)).unwrap_or(0);
        let is_there = BufferPlace::new(slot, position, word(SEQS)) == place && word(OWNERS) == owner;
        let at = data_at(self.page_bytes, slot, position);
        is_there
            && copy_checked(within, into, word(CRCS) as u32, |unit| {
                self.memory.copy_page(at, unit, None).ok()
            })
    }
}

const fn data_at(page_bytes: usize, slot: u32, position: u32) -> usize {
    DATA + slot as usize * page_bytes + position as usize * UNIT_BYTES
}

fn slots(stream: Stream) -> std::ops::Range<u32> {
    let first = stream as u32 * SLOTS_A_STREAM;
    first..first + SLOTS_A_STREAM
}

const fn header(slot: u32) -> usize {
    slot as usize * HEADER_BYTES
}

const fn field(slot: u32, fields: usize, position: u32) -> usize {
    header(slot) + fields + position as usize * 8
}

const _: () = assert!(SEQS + 16 * 8 <= HEADER_BYTES && BUFFER_SLOTS as usize * HEADER_BYTES <= DATA);
const _: () = assert!(BUFFER_SLOTS <= 256);
