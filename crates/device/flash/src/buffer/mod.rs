//! The unit buffer: units gather in power-protected memory until they fill a page.
//!
//! Slots for what callers write and slots for garbage collection, each used in turn. A position is written, named,
//! counted and only then pointed to by the map. A slot is filled again only when the map points nowhere into it, and
//! once that is on the medium: the turns make room for a sync to come by itself.
//!
//! Slots may be leased to a thread, which fills them by itself (`lease/`). The map is pointed to a position later, when the device takes
//! it in. Until then the position has no number of its own but its [place in the order](waiting) of such writes.

mod reader;
mod waiting;

use byway_sys::checksum;

use crate::durability::Epoch;
use crate::error::FlashError;
use crate::geometry::{Geometry, UNIT_BYTES};
use crate::image::layout::{BUFFER_SLOTS, Layout};
use crate::location::{BufferPlace, EntryIndex};
use crate::protected::{Backing, Shared};

pub(crate) use reader::{BufferReader, WaitingCopy};
pub(crate) use waiting::LeasedSlot;
use waiting::{PENDING, UnitWords, checksums_word, order_word};

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
/// The [word](LeasedSlot::word) of a slot that is leased; else zero.
const LEASE: usize = SEQS + UNITS_MAX * 8;
const UNITS_MAX: usize = 16;

/// Leases that are open, behind the headers: followers look for what waits while there are any.
const LEASES: usize = BUFFER_SLOTS as usize * HEADER_BYTES;

/// Headers come first; data starts at the next alignment of the layout.
const DATA: usize = 64 << 10;

const SLOTS_A_STREAM: u32 = BUFFER_SLOTS / 2;

/// A unit in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferedUnit {
    pub(crate) place: BufferPlace,
    pub(crate) owner: EntryIndex,
    pub(crate) crc: u32,
    pub(crate) seq: u64,
}

/// A unit that waits to be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingUnit {
    /// Its place in the order of such units.
    pub(crate) order: u64,
    pub(crate) owner: EntryIndex,
    pub(crate) leased: LeasedSlot,
    pub(crate) position: u32,
}

impl PendingUnit {
    /// Slot and position.
    #[inline]
    const fn at(&self) -> (u32, u32) {
        (self.leased.slot, self.position)
    }
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// The map points into it.
    Held,
    /// The map points nowhere into it since this epoch.
    Free(Epoch),
    /// A thread fills it by itself.
    Leased,
}

#[derive(Debug)]
pub(crate) struct UnitBuffer {
    memory: Shared,
    page_bytes: usize,
    units: u32,
    states: [SlotState; BUFFER_SLOTS as usize],
    /// The slot that each stream fills.
    current: [u32; 2],
    leased_last: u32,
}

impl UnitBuffer {
    pub(crate) fn open(backing: &Backing, layout: &Layout, geometry: &Geometry) -> Result<Self, FlashError> {
        let memory = backing.map_shared(layout.buffer)?;
        let states = [SlotState::Free(Epoch::default()); BUFFER_SLOTS as usize];
        let current = [Stream::Host, Stream::Gc].map(|stream| stream as u32 * SLOTS_A_STREAM);
        Ok(Self {
            memory,
            page_bytes: geometry.page_bytes as usize,
            units: geometry.units_per_page(),
            states,
            current,
            leased_last: 0,
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
            SlotState::Held | SlotState::Leased => None,
        })
    }

    /// The slot of hosts to lease next: one of those that the map has not pointed into for longest, in turn.
    pub(crate) fn next_to_lease(&self) -> Option<(u32, Epoch)> {
        let after = |slot: u32| slot.wrapping_sub(self.leased_last + 1) % SLOTS_A_STREAM;
        let free = slots(Stream::Host).filter_map(|slot| match self.states[slot as usize] {
            SlotState::Free(since) => Some((slot, since)),
            SlotState::Held | SlotState::Leased => None,
        });
        free.min_by_key(|(slot, since)| (*since, after(*slot)))
    }

    /// Slots that each stream has.
    pub(crate) const fn slots_of_stream(&self) -> u32 {
        SLOTS_A_STREAM
    }

    /// Slots of a stream that may be begun now.
    pub(crate) fn free_count(&self, stream: Stream) -> u32 {
        slots(stream).filter(|slot| matches!(self.states[*slot as usize], SlotState::Free(_))).count() as u32
    }

    /// Empties a slot and makes it the one that its stream fills.
    pub(crate) fn begin(&mut self, slot: u32) {
        self.memory.set_word(header(slot), 0);
        self.unmark(slot);
        self.states[slot as usize] = SlotState::Held;
        self.current[(slot / SLOTS_A_STREAM) as usize] = slot;
    }

    /// Empties a slot and leases it: a thread fills it by a [`SlotWriter`]. The turn is known by `next_seq`.
    pub(crate) fn lease(&mut self, slot: u32, next_seq: u64) -> LeasedSlot {
        let leased = LeasedSlot::new(slot, next_seq);
        self.memory.set_word(header(slot), 0);
        self.memory.set_word(header(slot) + LEASE, leased.word(0));
        self.states[slot as usize] = SlotState::Leased;
        self.leased_last = slot;
        leased
    }

    /// Ends the lease of a slot, of which all is taken in. One that nothing was written to is free, of this epoch.
    pub(crate) fn end_lease(&mut self, slot: u32, epoch: Epoch) {
        self.unmark(slot);
        let is_empty = self.filled(slot) == 0;
        self.states[slot as usize] = if is_empty { SlotState::Free(epoch) } else { SlotState::Held };
    }

    fn unmark(&mut self, slot: u32) {
        if self.memory.word(header(slot) + LEASE) != 0 {
            self.memory.set_word(header(slot) + LEASE, 0);
        }
    }

    /// Ends the lease of every slot of a buffer that was just opened. Whether there was any.
    pub(crate) fn unmark_all(&mut self) -> bool {
        let is_marked = |slot: &u32| self.memory.word(header(*slot) + LEASE) != 0;
        let marked: Vec<u32> = (0..BUFFER_SLOTS).filter(is_marked).collect();
        if self.memory.word(LEASES) != 0 {
            self.memory.set_word(LEASES, 0);
        }
        marked.iter().for_each(|slot| self.unmark(*slot));
        !marked.is_empty()
    }

    /// Units of leased slots that were not taken in, in their order: after the death of the process that leased them. One flipped bit in the
    /// words of a slot or a unit is set right.
    pub(crate) fn pending(&mut self) -> Vec<PendingUnit> {
        let mut pending = Vec::new();
        for slot in 0..BUFFER_SLOTS {
            let word = self.memory.word(header(slot) + LEASE);
            // No unit proves to be of a turn that is beyond repair: those that say that they wait are reported.
            let unknown_turn = (word != 0).then(|| (LeasedSlot::new(slot, 0), 0));
            let Some((leased, taken_in)) = LeasedSlot::of_repaired(slot, word).or(unknown_turn) else {
                continue;
            };
            pending.extend((taken_in..self.units).filter_map(|position| self.pending_at(leased, position)));
        }
        pending.sort_unstable_by_key(|unit| unit.order);
        pending
    }

    /// The unit that waits at a position. Behind those that are filled it has to be whole: it was cut short, or a bit of their count flipped.
    fn pending_at(&mut self, leased: LeasedSlot, position: u32) -> Option<PendingUnit> {
        let mut words = self.words_at(leased.slot, position);
        let mut is_named = words.are_of_one_write(leased, position);
        if position >= self.filled(leased.slot) {
            let unit = words.unit_at(leased, position);
            return (is_named && self.proves_whole(&unit)).then_some(unit);
        }
        if !is_named && let Some(repaired) = words.repaired(leased, position) {
            self.set_words_at(leased.slot, position, repaired);
            (words, is_named) = (repaired, true);
        }
        // One that has a number and is not named was taken in, in an earlier turn.
        (is_named || words.order & PENDING != 0).then(|| words.unit_at(leased, position))
    }

    fn words_at(&self, slot: u32, position: u32) -> UnitWords {
        let word = |fields| self.memory.word(field(slot, fields, position));
        UnitWords { owner: word(OWNERS), checksums: word(CRCS), order: word(SEQS) }
    }

    #[cold]
    fn set_words_at(&mut self, slot: u32, position: u32, words: UnitWords) {
        self.memory.set_word(field(slot, OWNERS, position), words.owner);
        self.memory.set_word(field(slot, CRCS, position), words.checksums);
        self.memory.set_word(field(slot, SEQS, position), words.order);
    }

    /// Whether it is known whose a unit that waits is: its owner, its checksums and its place in the order are of one write.
    pub(crate) fn proves_owner(&self, unit: &PendingUnit) -> bool {
        let (slot, position) = unit.at();
        self.words_at(slot, position).are_of_one_write(unit.leased, position)
    }

    /// Whether a unit that waits proves to be whole: its data is of that write too.
    pub(crate) fn proves_whole(&self, unit: &PendingUnit) -> bool {
        let (slot, position) = unit.at();
        let mut data = [0; UNIT_BYTES];
        self.memory.copy(self.data_at(slot, position), &mut data);
        self.proves_owner(unit) && checksum::crc32c(&data) == self.words_at(slot, position).checksums as u32
    }

    #[inline]
    fn owner(&self, slot: u32, position: u32) -> EntryIndex {
        self.memory.word(field(slot, OWNERS, position))
    }

    /// Gives a unit that waited its number. Its place is named by the map next, and then it [is taken in](Self::note_taken_in).
    #[inline]
    pub(crate) fn number(&mut self, unit: &PendingUnit, seq: u64) -> BufferPlace {
        let (slot, position) = unit.at();
        debug_assert!(position < self.filled(slot), "it is counted");
        self.memory.set_word(field(slot, SEQS, position), seq);
        BufferPlace::new(slot, position, seq)
    }

    /// Counts a unit that waits as filled, where the process ended or a bit flipped before.
    pub(crate) fn count_filled(&mut self, unit: &PendingUnit) {
        let (slot, position) = unit.at();
        if position >= self.filled(slot) {
            self.memory.set_word(header(slot), u64::from(position + 1));
        }
    }

    /// Notes that a unit waits no more: the map names it.
    #[inline]
    pub(crate) fn note_taken_in(&mut self, unit: &PendingUnit) {
        self.memory.set_word(header(unit.leased.slot) + LEASE, unit.leased.word(unit.position + 1));
    }

    /// Notes how many leases are open, before the first slot of one is leased and after the last was given back.
    pub(crate) fn note_leases(&mut self, open: u32) {
        if self.memory.word(LEASES) != u64::from(open) {
            self.memory.set_word(LEASES, u64::from(open));
        }
    }

    /// Fills leased slots on another thread.
    pub(crate) fn writer(&self) -> SlotWriter {
        SlotWriter { memory: self.memory.clone(), page_bytes: self.page_bytes }
    }

    /// Empties all slots. The map points into none of them, on the medium neither.
    pub(crate) fn empty(&mut self) {
        (0..BUFFER_SLOTS).for_each(|slot| {
            self.memory.set_word(header(slot), 0);
            self.unmark(slot);
        });
        self.memory.set_word(LEASES, 0);
    }

    /// Notes that the map points nowhere into a slot from this epoch on.
    pub(crate) fn give_up(&mut self, slot: u32, since: Epoch) {
        self.unmark(slot);
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
        self.writer_ref().put((slot, position), owner, data, u64::from(crc), seq);
        BufferPlace::new(slot, position, seq)
    }

    #[inline]
    fn writer_ref(&self) -> SlotWriterRef<'_> {
        SlotWriterRef { memory: &self.memory, page_bytes: self.page_bytes }
    }

    /// The unit at a place that the map names, if that is there.
    pub(crate) fn unit(&self, place: BufferPlace) -> Option<BufferedUnit> {
        self.unit_at(place.slot.into(), place.position.into()).filter(|unit| unit.place == place)
    }

    /// The unit at a position, if the slot is filled so far and the unit does not wait to be taken in.
    pub(crate) fn unit_at(&self, slot: u32, position: u32) -> Option<BufferedUnit> {
        if slot >= BUFFER_SLOTS || position >= self.filled(slot) {
            return None;
        }
        let seq = self.memory.word(field(slot, SEQS, position));
        (seq & PENDING == 0).then(|| BufferedUnit {
            place: BufferPlace::new(slot, position, seq),
            owner: self.owner(slot, position),
            crc: self.memory.word(field(slot, CRCS, position)) as u32,
            seq,
        })
    }

    /// Copies a unit; whether it matches its checksum.
    pub(crate) fn copy_whole(&self, unit: &BufferedUnit, into: &mut [u8; UNIT_BYTES]) -> bool {
        self.memory.copy(self.data_at(unit.place.slot.into(), unit.place.position.into()), into);
        checksum::crc32c(into) == unit.crc
    }

    /// Whether a unit matches its checksum.
    pub(crate) fn is_whole(&self, unit: &BufferedUnit) -> bool {
        self.copy_whole(unit, &mut [0; UNIT_BYTES])
    }

    /// A reader for other threads.
    pub(crate) fn reader(&self) -> BufferReader {
        BufferReader::new(self.memory.reader(), self.page_bytes, self.units)
    }

    /// Every unit there is.
    pub(crate) fn units(&self) -> impl Iterator<Item = BufferedUnit> {
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
        let mut data = [0; UNIT_BYTES];
        self.memory.copy(data_at, &mut data);
        let crc = checksum::crc32c(&data);
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
                let Some(byte) = data.get(bit / 8).map(|byte| byte ^ 1 << (bit % 8)) else { return false };
                self.memory.write(data_at + bit / 8, &[byte]);
            }
            _ => return false,
        }
        true
    }

    /// Copies the whole page of a slot, into as many bytes.
    pub(crate) fn copy_page(&self, slot: u32, into: &mut [u8]) {
        self.memory.copy(self.data_at(slot, 0), into);
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

/// Fills leased slots of the buffer by itself.
#[derive(Debug, Clone)]
pub(crate) struct SlotWriter {
    memory: Shared,
    page_bytes: usize,
}

impl SlotWriter {
    /// Writes the next position of a leased slot. It waits to be taken in, and outlives the process from here on.
    #[inline]
    pub(crate) fn put(&self, unit: &PendingUnit, data: &[u8], crc: u32) {
        let writer = SlotWriterRef { memory: &self.memory, page_bytes: self.page_bytes };
        let checksums = checksums_word(crc, unit);
        writer.put(unit.at(), unit.owner, data, checksums, order_word(unit.order, checksums));
    }
}

/// Writes positions of slots.
struct SlotWriterRef<'a> {
    memory: &'a Shared,
    page_bytes: usize,
}

impl SlotWriterRef<'_> {
    /// Writes a position, names it, and counts it.
    #[inline]
    fn put(&self, (slot, position): (u32, u32), owner: EntryIndex, data: &[u8], checksums: u64, seq: u64) {
        self.memory.write(data_at(self.page_bytes, slot, position), data);
        self.memory.set_word(field(slot, OWNERS, position), owner);
        self.memory.set_word(field(slot, CRCS, position), checksums);
        self.memory.set_word(field(slot, SEQS, position), seq);
        self.memory.set_word(header(slot), u64::from(position + 1));
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

const _: () = assert!(LEASE + 8 <= HEADER_BYTES && LEASES + 8 <= DATA);
const _: () = assert!(BUFFER_SLOTS <= 256);
