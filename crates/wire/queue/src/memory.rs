//! How the host's half of a queue reaches the memory of its rings.
//!
//! The device's half needs neither trait: it reads slots and writes entries by bus address, through code that checks
//! and counts its transfers.

use crate::{ENTRY_BYTES, SLOT_BYTES};

/// Memory of a submission queue.
///
/// An implementer must tolerate data races with the device, which may read a slot while it is written if the tail
/// doorbell was wrong. Writes need no order among themselves: the doorbell store that follows them is a Release.
pub trait SlotMemory {
    /// Writes one slot. `index` is below the size of the ring that the memory was given to.
    fn write_slot(&self, index: u16, bytes: &[u8; SLOT_BYTES]);

    /// Writes neighbouring slots from `first` on, the last of them below the size of the ring.
    ///
    /// An implementer whose slots are contiguous copies them at once.
    #[inline]
    fn write_slots(&self, first: u16, slots: &[[u8; SLOT_BYTES]]) {
        for (index, slot) in (first..).zip(slots) {
            self.write_slot(index, slot);
        }
    }
}

/// Memory of a completion queue.
pub trait EntryMemory {
    /// Loads the last word of an entry, as little endian, with Acquire: it holds the phase (bit 16).
    fn load_phase_word(&self, index: u16) -> u32;

    /// Reads one entry. Called only after its phase word showed that the entry is new.
    fn read_entry(&self, index: u16) -> [u8; ENTRY_BYTES];
}

impl<M: SlotMemory + ?Sized> SlotMemory for &M {
    #[inline]
    fn write_slot(&self, index: u16, bytes: &[u8; SLOT_BYTES]) {
        (**self).write_slot(index, bytes);
    }

    #[inline]
    fn write_slots(&self, first: u16, slots: &[[u8; SLOT_BYTES]]) {
        (**self).write_slots(first, slots);
    }
}

impl<M: EntryMemory + ?Sized> EntryMemory for &M {
    #[inline]
    fn load_phase_word(&self, index: u16) -> u32 {
        (**self).load_phase_word(index)
    }

    #[inline]
    fn read_entry(&self, index: u16) -> [u8; ENTRY_BYTES] {
        (**self).read_entry(index)
    }
}
