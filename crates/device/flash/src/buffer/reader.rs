//! Buffered units read by threads that do not have the device, and by followers in other processes.

use std::sync::atomic::{Ordering, fence};

use byway_sys::MappingReader;

use super::waiting::{LeasedSlot, order_of};
use super::{CRCS, LEASE, LEASES, OWNERS, SEQS, data_at, field, header};
use crate::image::layout::BUFFER_SLOTS;
use crate::location::{BufferPlace, EntryIndex};
use crate::media::copy_checked;

/// Reads buffered units while the device fills and reuses slots. The map's entry names a unit as long as it is there.
#[derive(Debug)]
pub(crate) struct BufferReader {
    memory: MappingReader,
    page_bytes: usize,
    units: u32,
}

impl BufferReader {
    pub(super) const fn new(memory: MappingReader, page_bytes: usize, units: u32) -> Self {
        Self { memory, page_bytes, units }
    }

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

/// A copy of a unit that waits to be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitingCopy {
    /// None of this owner waits. The map names what was written last before, if it is loaded afterwards.
    Absent,
    Copied(BufferPlace),
    /// It was taken in meanwhile, or is not whole.
    Changed,
}

impl BufferReader {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.memory.load_u64(at).unwrap_or(0)
    }

    /// Fills `into` from byte `within` of the newest unit of `owner` that waits in a leased slot.
    #[inline]
    pub(crate) fn copy_waiting(&self, owner: EntryIndex, within: usize, into: &mut [u8]) -> WaitingCopy {
        if self.word(LEASES) == 0 {
            return WaitingCopy::Absent;
        }
        let waiting = (0..BUFFER_SLOTS).filter_map(|slot| self.waiting_in(slot, owner));
        let newest = waiting.max_by_key(|(word, ..)| order_of(*word));
        let Some((seq, slot, position)) = newest else { return WaitingCopy::Absent };
        let at = data_at(self.page_bytes, slot, position);
        let crc = self.word(field(slot, CRCS, position)) as u32;
        let is_whole = copy_checked(within, into, crc, |unit| self.memory.copy_page(at, unit, None).ok());
        fence(Ordering::Acquire);
        match is_whole && self.waiting_in(slot, owner) == newest {
            true => WaitingCopy::Copied(BufferPlace::new(slot, position, seq)),
            false => WaitingCopy::Changed,
        }
    }

    /// The newest unit of an owner that waits in a slot: its word in the place of a number, slot and position.
    fn waiting_in(&self, slot: u32, owner: EntryIndex) -> Option<(u64, u32, u32)> {
        let (_, taken_in) = LeasedSlot::of(slot, self.word(header(slot) + LEASE))?;
        let filled = (self.word(header(slot)) as u32).min(self.units);
        let position =
            (taken_in..filled).rev().find(|position| self.word(field(slot, OWNERS, *position)) == owner)?;
        Some((self.word(field(slot, SEQS, position)), slot, position))
    }
}
