//! Permits: rights to slots, granted before they are needed and used at most once.

use crate::SLOT_BYTES;
use crate::memory::SlotMemory;
use crate::ring::Ring;

/// Free slots of a submission queue, reserved for one command and the chunks of its inline payload.
///
/// The device sees slots once the doorbell is rung, and the tail moves only by [`SlotPermit::commit`]. Dropping a
/// permit, as on an error, leaves the ring unchanged, so the device never reads a half-written command.
#[must_use = "slots that are not committed are never submitted"]
pub struct SlotPermit<'a, M> {
    ring: &'a mut Ring,
    memory: &'a M,
    next: u16,
    written: u32,
    slots: u32,
}

impl<'a, M: SlotMemory> SlotPermit<'a, M> {
    #[inline]
    pub(crate) fn grant(ring: &'a mut Ring, memory: &'a M, slots: u32) -> Option<Self> {
        if slots > ring.free() {
            return None;
        }
        let next = ring.tail();
        Some(Self { ring, memory, next, written: 0, slots })
    }

    /// Slots of the permit that have not been written.
    #[inline]
    pub fn left(&self) -> u32 {
        self.slots - self.written
    }

    /// Writes the next slot; false, and nothing is written, if none is left.
    #[inline]
    pub fn write(&mut self, bytes: &[u8; SLOT_BYTES]) -> bool {
        if self.left() == 0 {
            return false;
        }
        self.memory.write_slot(self.next, bytes);
        self.next = self.ring.after(self.next, 1);
        self.written += 1;
        true
    }

    /// Writes a payload into the remaining slots, the last one padded with zeroes; false, and nothing is written, if
    /// it does not fit.
    #[inline]
    pub fn write_chunks(&mut self, payload: &[u8]) -> bool {
        if payload.len().div_ceil(SLOT_BYTES) > self.left() as usize {
            return false;
        }
        let (whole, rest) = payload.as_chunks::<SLOT_BYTES>();
        let until_end = self.ring.contiguous(self.next, whole.len() as u32).slots;
        let (before, after) = whole.split_at(until_end as usize);
        self.write_run(before);
        self.write_run(after);
        if rest.is_empty() {
            return true;
        }
        let mut last = [0; SLOT_BYTES];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.write(&last)
    }

    /// Writes contiguous slots: the caller has checked that they fit and do not wrap.
    #[inline]
    fn write_run(&mut self, slots: &[[u8; SLOT_BYTES]]) {
        if slots.is_empty() {
            return;
        }
        self.memory.write_slots(self.next, slots);
        self.next = self.ring.after(self.next, slots.len() as u32);
        self.written += slots.len() as u32;
    }

    /// Advances the tail over the written slots and returns it: the value for the doorbell.
    #[inline]
    pub fn commit(self) -> u16 {
        debug_assert_eq!(self.left(), 0, "a command is committed without its chunks");
        self.ring.fill(self.written);
        self.ring.tail()
    }
}

/// A slot of a completion queue, reserved for one command before the command starts.
///
/// Posting consumes the permit, so a command completes at most once. Because the slot is reserved first, a finished
/// command never finds its completion queue full.
#[must_use = "a permit that is not posted or given back keeps its slot for ever"]
#[derive(Debug)]
pub struct CompletionPermit(());

impl CompletionPermit {
    #[inline]
    pub(crate) fn grant() -> Self {
        Self(())
    }
}

/// Entries of a completion queue, reserved for a result that stands behind the completion of its command.
#[must_use = "entries that are neither posted nor given back stay reserved for ever"]
#[derive(Debug)]
pub struct ResultPermit {
    pub(crate) entries: u32,
}

impl ResultPermit {
    #[inline]
    pub(crate) fn grant(entries: u32) -> Self {
        Self { entries }
    }

    /// Entries reserved.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.entries
    }
}
