//! Places of commands, used again.
//!
//! A tag of the queue names a place and its turn: what a queue tells of a command that was given up is nobody else's.

use byway_controller::engine::{BlockRun, Place};
use byway_core::Buffer;

/// What follows a command, under the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequel {
    /// A Flush, of a write that is to be durable.
    Flush,
    /// A Read, of one that is to see what is durable.
    Read(BlockRun),
}

/// What a failed command was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// Reading, or comparing.
    #[default]
    Reading,
    /// Anything that changes what is there, or makes it durable.
    Writing,
}

/// A command's place.
#[derive(Debug, Default)]
pub struct Slot {
    /// Its memory, while no queue has it.
    pub buffer: Option<Buffer>,
    /// How much that is.
    pub bytes: usize,
    /// What is to be done when the queue has done its command.
    pub sequel: Option<Sequel>,
    /// Its sequel is what is to be done now.
    pub is_half_done: bool,
    /// What it does.
    pub doing: Doing,
    /// The queue has it, or is to have it.
    pub is_under_way: bool,
    turn: u32,
}

/// The places of one engine.
#[derive(Debug, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// A place with this memory.
    pub fn take(&mut self, buffer: Option<Buffer>, bytes: usize) -> Place {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        (slot.buffer, slot.bytes) = (buffer, bytes);
        Place(at)
    }

    /// The slot of a place that is in use.
    pub fn at(&mut self, place: Place) -> &mut Slot {
        &mut self.slots[place.0 as usize]
    }

    /// Gives a place back: the memory that was left there.
    pub fn release(&mut self, place: Place) -> Option<Buffer> {
        let slot = self.at(place);
        let buffer = slot.buffer.take();
        *slot = Slot { turn: slot.turn.wrapping_add(1), ..Slot::default() };
        self.free.push(place.0);
        buffer
    }

    /// What a queue calls the command of a place.
    pub fn tag(&mut self, place: Place) -> u64 {
        u64::from(self.at(place).turn) << 32 | u64::from(place.0)
    }

    /// The place of a command that the queue has, by its tag.
    pub fn by_tag(&mut self, tag: u64) -> Option<Place> {
        let place = Place(tag as u32);
        let slot = self.slots.get(place.0 as usize)?;
        (slot.is_under_way && u64::from(slot.turn) == tag >> 32).then_some(place)
    }

    /// Places of commands that the queue has.
    pub fn under_way(&self) -> impl Iterator<Item = Place> {
        (0..).map(Place).zip(&self.slots).filter(|(_, slot)| slot.is_under_way).map(|(place, _)| place)
    }
}
