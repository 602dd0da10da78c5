//! The commands of one queue: on a path, waiting for one, or with a lost controller that may still execute them.

use std::time::Instant;

use byway_core::{Effect, Error, Memory, Payload, SmallBytes};
use byway_sys::FreeList;

use crate::connection::Order;

/// Most paths of a device.
pub(crate) const PATHS_MAX: usize = 8;

/// The state of a command's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SlotState {
    #[default]
    Free,
    /// On a path, in this generation of its connection.
    On { path: usize, generation: u64 },
    /// Waits for a path, or behind another command.
    Waits,
    /// Sent on a path whose controller was lost, and may still execute it.
    Lost { path: usize, generation: u64 },
}

/// A command.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// As the program gave it.
    pub order: Option<Order>,
    /// Its data, while it is on no path.
    memory: Memory,
    /// Its data where that is a few bytes, which paths do not give back.
    small: Option<SmallBytes>,
    pub effect: Effect,
    state: SlotState,
    /// When it is to be given up.
    pub until: Option<Instant>,
    /// Since when it waits to be done.
    pub since: Option<Instant>,
    /// Why it was not done where it was.
    pub error: Option<Error>,
    /// How often its connection ended, or its path failed it.
    pub tries: u8,
    /// It was sent on a path that was lost.
    pub was_lost: bool,
    /// Number in the order of submission, from 1.
    pub number: u64,
}

/// The commands of one queue.
#[derive(Debug)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    free: FreeList<usize>,
    /// Of commands that change something, how many are on each path.
    changing: [u32; PATHS_MAX],
    /// Commands that wait, are on a lost path, or were.
    troubled: u32,
    /// Commands that are two for a controller.
    pairs: u32,
    /// Commands taken so far.
    submitted: u64,
}

impl Slot {
    pub fn state(&self) -> SlotState {
        self.state
    }

    /// Its namespace.
    pub fn nsid(&self) -> u32 {
        self.order.map_or(0, |order| order.entry.nsid)
    }

    /// Its data, to be sent.
    pub fn take_payload(&mut self) -> Payload {
        match self.small {
            Some(small) => Payload::Small(small),
            None => std::mem::take(&mut self.memory).into(),
        }
    }

    /// Its data, which no path holds any more.
    pub fn put_memory(&mut self, memory: impl Into<Memory>) {
        if self.small.is_none() {
            self.memory = memory.into();
        }
    }

    fn is_troubled(&self) -> bool {
        let is_on_none = matches!(self.state, SlotState::Waits | SlotState::Lost { .. });
        is_on_none || (self.was_lost && self.state != SlotState::Free)
    }

    fn changes_on(&self) -> Option<usize> {
        match self.state {
            SlotState::On { path, .. } => self.effect.extent().map(|_| path),
            _ => None,
        }
    }

    /// Whether it may still come before what is sent on `path` from here on.
    fn is_elsewhere(&self, path: usize) -> bool {
        match self.state {
            SlotState::Free => false,
            SlotState::On { path: its, .. } => its != path || self.was_lost,
            SlotState::Waits | SlotState::Lost { .. } => true,
        }
    }
}

impl Slots {
    /// Of a queue of this depth.
    pub fn new(depth: u32) -> Self {
        let all = (0..depth).map(|_| Slot::default()).collect();
        let free = FreeList::new(0..depth as usize);
        Self { all, free, changing: [0; PATHS_MAX], troubled: 0, pairs: 0, submitted: 0 }
    }

    /// Commands of the program's on their way.
    pub fn busy(&self) -> u32 {
        (self.all.len() - self.free.len()) as u32
    }

    /// How many these are for a controller.
    pub fn commands(&self) -> u32 {
        self.busy() + self.pairs
    }

    /// Whether nothing is but where it was sent first.
    pub fn is_quiet(&self) -> bool {
        self.troubled == 0
    }

    /// Commands taken so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Takes a command; none where there is no place.
    pub fn take(
        &mut self,
        order: Order,
        effect: Effect,
        payload: Payload,
        until: Option<Instant>,
    ) -> Option<usize> {
        let index = self.free.take()?;
        self.submitted += 1;
        self.pairs += u32::from(order.is_pair);
        let slot = &mut self.all[index];
        let (memory, small) = match payload {
            Payload::Small(small) => (Memory::Empty, Some(small)),
            other => (other.into(), None),
        };
        *slot = Slot {
            order: Some(order),
            memory,
            small,
            effect,
            until,
            number: self.submitted,
            ..Slot::default()
        };
        Some(index)
    }

    pub fn get(&self, index: usize) -> &Slot {
        &self.all[index]
    }

    pub fn get_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.all[index]
    }

    /// Moves a command.
    pub fn put(&mut self, index: usize, state: SlotState) {
        self.count(index, false);
        self.all[index].state = state;
        self.count(index, true);
    }

    /// Its path was lost.
    pub fn lose(&mut self, index: usize) {
        self.count(index, false);
        let slot = &mut self.all[index];
        (slot.was_lost, slot.tries) = (true, slot.tries.saturating_add(1));
        self.count(index, true);
    }

    fn count(&mut self, index: usize, comes: bool) {
        let slot = &self.all[index];
        let step = |count: &mut u32| *count = if comes { *count + 1 } else { *count - 1 };
        if let Some(path) = slot.changes_on() {
            step(&mut self.changing[path]);
        }
        if slot.is_troubled() {
            step(&mut self.troubled);
        }
    }

    /// Frees a place: the order and the data that stood there.
    pub fn release(&mut self, index: usize) -> (Option<Order>, Memory) {
        self.put(index, SlotState::Free);
        self.free.free(index);
        let slot = &mut self.all[index];
        let order = slot.order.take();
        self.pairs -= u32::from(order.is_some_and(|order| order.is_pair));
        (order, std::mem::take(&mut slot.memory))
    }

    /// Whether an earlier command that changes the same may come behind this one if it is sent on `path` now.
    pub fn is_behind(&self, index: usize, path: usize) -> bool {
        let on_others = |(other, count): (usize, &u32)| other != path && *count > 0;
        if self.is_quiet() && !self.changing.iter().enumerate().any(on_others) {
            return false;
        }
        let slot = &self.all[index];
        let earlier = self.all.iter().filter(|other| other.number < slot.number && other.is_elsewhere(path));
        slot.effect.extent().is_some() && earlier.into_iter().any(|other| other.effect.meets(&slot.effect))
    }

    /// The commands of which `is` holds, in the order of submission.
    pub fn in_turn(&self, is: impl Fn(&Slot) -> bool) -> Vec<usize> {
        let busy = self.all.iter().enumerate().filter(|(_, slot)| slot.state != SlotState::Free);
        let mut found: Vec<(u64, usize)> =
            busy.filter(|(_, slot)| is(slot)).map(|(index, slot)| (slot.number, index)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, index)| index).collect()
    }

    /// The command of a program, or the call, that has this tag.
    pub fn find(&self, tag: u64, is_call: bool) -> Option<usize> {
        let is = |slot: &Slot| slot.order.is_some_and(|order| order.tag == tag && order.is_call == is_call);
        self.all.iter().position(|slot| slot.state != SlotState::Free && is(slot))
    }
}
