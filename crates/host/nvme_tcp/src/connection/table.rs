//! The commands of one queue, by the identifiers that they have on the wire.

use std::time::Instant;

use byway_core::{Error, ErrorKind, Memory};
use byway_nvme_tcp::{CommandId, Inbound, Outbound, Violation};
use byway_spec::{Command as Entry, Completion};
use byway_sys::FreeList;

/// Which way a command's data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// It has none.
    #[default]
    None,
    /// To the controller.
    Out,
    /// To the host.
    In,
    /// The beginning of the memory to the controller, and then as much as the memory holds to the host.
    Both {
        /// Bytes to the controller.
        sent_bytes: u32,
    },
}

impl Way {
    /// How many of the `bytes` of memory go to the controller; `None` if data goes to the host alone, or there is none.
    #[inline]
    pub(crate) fn sent_bytes(self, bytes: usize) -> Option<usize> {
        match self {
            Self::Out => Some(bytes),
            Self::Both { sent_bytes } => Some(bytes.min(sent_bytes as usize)),
            Self::None | Self::In => None,
        }
    }

    /// Whether data goes to the host.
    #[inline]
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::In | Self::Both { .. })
    }
}

/// A command to be sent: its submission queue entry, data direction, tag and resend flag. The connection writes the entry's
/// command identifier and data pointer.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Tag of the caller, returned with the command's end.
    pub tag: u64,
    /// A call waits for it, or has waited: its end is not taken from the queue.
    pub is_call: bool,
    /// Submission queue entry.
    pub entry: Entry,
    /// Data direction.
    pub way: Way,
    /// Success with less data than the memory holds is an error.
    pub is_whole: bool,
    /// May be sent again on another connection, executed or not: it changes nothing.
    pub repeats: bool,
    /// The first of two fused commands, with the data of both. A connection is given each by itself.
    pub is_pair: bool,
}

/// What came of a command.
#[derive(Debug)]
pub struct Ended {
    /// Whose it was.
    pub tag: u64,
    /// A call's.
    pub is_call: bool,
    /// Memory of its data.
    pub memory: Memory,
    /// The controller's answer, or why there is none.
    pub result: Result<Completion, Error>,
    /// Its connection ended before an answer came.
    pub lost: Option<Lost>,
    /// How many commands it was.
    pub commands: u8,
}

/// How far a command came whose connection ended before it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No byte of it left.
    Unsent,
    /// It may have been done, and may yet be.
    Unanswered,
}

/// Where a command is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Free,
    /// Waits for a connection, or until the depth of this one allows it.
    Kept,
    /// Its capsule was put at this byte of what the connection sends.
    Queued { at: u64 },
}

/// A command on its way.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub order: Option<Order>,
    pub state: State,
    pub memory: Memory,
    /// Its data went with the capsule, and was not kept.
    pub is_spent: bool,
    pub inbound: Option<Inbound>,
    pub outbound: Option<Outbound>,
    /// Parts of its data that are still to be sent from its memory.
    pub unsent: u32,
    /// The controller's answer, while there are such parts.
    pub answer: Option<Completion>,
    /// Data came with a digest that is not its own.
    pub is_corrupt: bool,
    /// How many connections it was sent on.
    pub tries: u8,
    /// When it is to be given up, or the connection with it.
    pub until: Option<Instant>,
    /// It was given up, and an Abort was sent.
    pub given_up: Option<ErrorKind>,
    /// An Abort on its way names it.
    pub is_named: bool,
    /// In the order of submission.
    pub turn: u64,
}

/// The commands of one queue.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: FreeList<u16>,
    busy: u32,
    turn: u64,
}

impl Table {
    /// Of a queue of this depth.
    pub fn new(depth: u32) -> Self {
        let depth = depth.min(u32::from(u16::MAX));
        let slots = (0..depth).map(|_| Slot::default()).collect();
        Self { slots, free: FreeList::new(0..depth as u16), busy: 0, turn: 0 }
    }

    /// Commands on their way.
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// Whether there are so many for other commands.
    #[inline]
    pub fn has_room(&self, commands: usize) -> bool {
        self.free.len() >= commands || self.slots.len() - self.free.len() + commands <= usize::from(u16::MAX)
    }

    /// A place for a command. Beyond the depth only where identifiers are withheld; none if all numbers are taken.
    pub fn take(&mut self) -> Option<u16> {
        let cid = match self.free.take() {
            Some(cid) => cid,
            None => self.grow()?,
        };
        self.busy += 1;
        self.turn += 1;
        let turn = self.turn;
        self.get_mut(cid)?.turn = turn;
        Some(cid)
    }

    #[cold]
    fn grow(&mut self) -> Option<u16> {
        let cid = u16::try_from(self.slots.len()).ok().filter(|cid| *cid < u16::MAX)?;
        self.slots.push(Slot::default());
        Some(cid)
    }

    /// Frees a place; `withhold` keeps its identifier from others.
    pub fn release(&mut self, cid: u16, withhold: bool) -> Slot {
        self.busy -= 1;
        if !withhold {
            self.free.free(cid);
        }
        self.slots.get_mut(usize::from(cid)).map(std::mem::take).unwrap_or_default()
    }

    /// An identifier that was withheld can be used again.
    pub fn restore(&mut self, cid: u16) {
        self.free.free(cid);
    }

    pub fn get_mut(&mut self, cid: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(cid))
    }

    pub fn get(&self, cid: u16) -> Option<&Slot> {
        self.slots.get(usize::from(cid))
    }

    /// The command that a controller speaks of.
    ///
    /// # Errors
    /// If it was not sent, or was answered.
    pub fn spoken_of(&mut self, command: CommandId) -> Result<&mut Slot, Violation> {
        match self.slots.get_mut(usize::from(command.0)) {
            Some(slot) if matches!(slot.state, State::Queued { .. }) && slot.answer.is_none() => Ok(slot),
            _ => Err(Violation::UnknownCommand(command)),
        }
    }

    /// The identifiers of commands of which `is` holds.
    pub fn find(&self, is: impl Fn(&Slot) -> bool) -> Option<u16> {
        let busy = |slot: &&Slot| slot.state != State::Free;
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| busy(slot)).find(|(_, slot)| is(slot)).map(|(cid, _)| cid as u16)
    }

    /// All commands on their way, in the order of submission.
    pub fn in_turn(&self) -> Vec<u16> {
        let mut all: Vec<(u64, u16)> = (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.state != State::Free)
            .map(|(cid, slot)| (slot.turn, cid))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, cid)| cid).collect()
    }

    /// The earliest time at which something is to be given up.
    pub fn first_until(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|slot| slot.until).min()
    }
}
