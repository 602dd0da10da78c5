//! Slots of commands.
//!
//! A queue tag holds a slot and its generation, so a late completion of a command that was given up matches no other command.

use byway_controller::engine::{BlockRun, Place};
use byway_core::Buffer;
use slab::Slab;

/// A second command of the queue in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequel {
    /// A Flush, after a write with FUA.
    Flush,
    /// A Read, after the Flush of a read with FUA.
    Read(BlockRun),
}

/// The direction of a command, which selects the status of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// Read, Compare or Verify.
    #[default]
    Reading,
    /// Any other command.
    Writing,
}

/// The state of a command.
#[derive(Debug, Default)]
pub struct Slot {
    /// Its buffer, while the queue does not have it.
    pub buffer: Option<Buffer>,
    /// Bytes of the buffer.
    pub bytes: usize,
    /// The second command, if there is one.
    pub sequel: Option<Sequel>,
    /// The second command is in progress.
    pub is_half_done: bool,
    /// Its direction.
    pub doing: Doing,
    /// It is in the queue, or waits for the queue.
    pub is_under_way: bool,
    generation: u32,
}

/// The slots of one engine.
#[derive(Debug, Default)]
pub struct Slots {
    slots: Slab<Slot>,
    next_generation: u32,
}

impl Slots {
    /// Takes a slot for a command with this buffer.
    pub fn take(&mut self, buffer: Option<Buffer>, bytes: usize) -> Place {
        self.next_generation = self.next_generation.wrapping_add(1);
        let slot = Slot { buffer, bytes, generation: self.next_generation, ..Slot::default() };
        Place(self.slots.insert(slot) as u32)
    }

    /// A slot in use.
    pub fn at(&mut self, place: Place) -> &mut Slot {
        &mut self.slots[place.0 as usize]
    }

    /// Frees a slot; returns its buffer.
    pub fn release(&mut self, place: Place) -> Option<Buffer> {
        self.slots.remove(place.0 as usize).buffer
    }

    /// The queue's tag for the command of a slot.
    pub fn tag(&mut self, place: Place) -> u64 {
        u64::from(self.at(place).generation) << 32 | u64::from(place.0)
    }

    /// The slot of a command in the queue, by its tag; `None` for a command that was given up.
    pub fn by_tag(&mut self, tag: u64) -> Option<Place> {
        let place = Place(tag as u32);
        let slot = self.slots.get(place.0 as usize)?;
        (slot.is_under_way && u64::from(slot.generation) == tag >> 32).then_some(place)
    }

    /// Slots of commands in the queue.
    pub fn under_way(&self) -> impl Iterator<Item = Place> {
        self.slots.iter().filter(|(_, slot)| slot.is_under_way).map(|(at, _)| Place(at as u32))
    }
}
