//! A queue pair on leave from its controller, so that a thread can serve it beside others (decision 0009).
//!
//! [`Controller::check_out`] takes a pair out, [`Controller::check_in`] puts it back. In between its owner calls, over
//! and over: [`Lane::gather`], which fetches commands and their payloads and needs nothing but the lane;
//! [`Lane::execute`], which needs the subsystem; [`Lane::complete`], which again needs the lane alone. What a lane does
//! not carry stays at the head of its queue, and is the controller's once the pair is back.

mod execute;
mod gather;

use byway_spec::{Command, Key};

use crate::admin::{BufferedPair, Counted, EnabledTransfers, Noted};
use crate::completion::Ticket;
use crate::controller::{Controller, ControllerId};
use crate::error::CommandError;
use crate::namespace::Room;
use crate::namespace::kv::StoreIf;
use crate::namespace::nvm::Shape;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::reservation::Access;
use crate::subsystem::Subsystem;

pub use gather::Gathered;

/// Commands gathered at most before they are executed.
pub const LANE_COMMANDS: usize = 32;

/// Bytes of payloads that gathered commands carry at most, to the device or from it.
const ROOM_BYTES: usize = 128 << 10;

/// Longest value of a command in a lane.
const PAYLOAD_MAX_BYTES: usize = 4096;

/// Most bytes of blocks that a command in a lane moves.
const BLOCKS_MAX_BYTES: u64 = 64 << 10;

/// Errors kept for the controller's log; older ones are only counted there, not kept.
const ERRORS_KEPT: usize = 64;

/// Which commands a lane carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Those of key-value namespaces, for a thread that serves its queue when it rings: not where it rings in its memory.
    Keys,
    /// Reads and writes of blocks too, for a thread that looks at the doorbells by itself, wherever they are.
    KeysAndBlocks,
}

/// What of its controller a lane goes by. Whatever changes it checks the lane in first.
#[derive(Debug, Clone, Copy)]
struct Habits {
    id: ControllerId,
    /// Bit `n` − 1 for each key-value namespace `n` that is attached and whose commands are carried.
    key_value: u64,
    transfers: EnabledTransfers,
    sgls: bool,
    inline_max_bytes: usize,
    piggyback_max_bytes: usize,
    whole_page_prp: bool,
    chunk_burst: bool,
    coalesce_interrupts: bool,
    vector: Option<u16>,
}

/// A queue pair on leave.
#[derive(Debug)]
pub struct Lane {
    qid: u16,
    sq: SubmissionQueue,
    cq: CompletionQueue,
    /// Its doorbells, where they are in memory of the host.
    buffered: Option<BufferedPair>,
    habits: Habits,
    /// Of each namespace of blocks that is attached and whose reads and writes are carried; none where none are.
    blocks: Vec<Option<Shape>>,
    gathered: Vec<Gathering>,
    /// Of each gathered command that brings a value or blocks, the command itself: its data pointer says where to.
    commands: Box<[Command; LANE_COMMANDS]>,
    /// Payloads of the gathered commands, one behind the other.
    payloads: Vec<u8>,
    payload_end: usize,
    room: Room,
    errors: Vec<Noted>,
    unannounced: bool,
    broken: bool,
}

/// A command that was fetched.
#[derive(Debug)]
struct Gathering {
    ticket: Ticket,
    counted: Counted,
    nsid: u32,
    work: Work,
    /// What came of it, once it was executed.
    result: Result<u32, CommandError>,
}

/// Bytes of a lane's payloads.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    at: usize,
    len: usize,
}

/// What there is to do. Numbers side by side: as variants with a key in each, commands would be put together in memory byte by
/// byte, and the processor would wait for them when they are moved from there.
#[derive(Debug, Clone, Copy)]
struct Work {
    what: What,
    key_number: u128,
    key_len: usize,
    /// A value or blocks that are stored, or room for what is read.
    value: Place,
    /// First byte of blocks.
    at: u64,
    when: StoreIf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Put,
    Get,
    Delete,
    Exist,
    Read,
    Write,
    /// Refused when it was parsed: the result says why.
    Nothing,
}

impl What {
    #[inline]
    const fn access(self) -> Access {
        match self {
            Self::Get | Self::Exist | Self::Read => Access::Read,
            Self::Put | Self::Delete | Self::Write => Access::Write,
            Self::Nothing => Access::Neither,
        }
    }
}

impl Work {
    const NOTHING: Self = Self {
        what: What::Nothing,
        key_number: 0,
        key_len: 0,
        value: Place { at: 0, len: 0 },
        at: 0,
        when: StoreIf::Any,
    };

    #[inline]
    fn new(what: What, key: Key, value: Place, when: StoreIf) -> Self {
        Self { what, key_number: key.number(), key_len: key.len(), value, at: 0, when }
    }

    /// Blocks that are moved between `value` and the namespace's bytes from `at` on.
    #[inline]
    fn blocks(what: What, at: u64, value: Place) -> Self {
        Self { what, value, at, ..Self::NOTHING }
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        (!matches!(self.what, What::Nothing | What::Read | What::Write))
            .then(|| Key::from_number(self.key_number, self.key_len))
    }
}

impl Lane {
    /// The queue's number, the same for both of its rings.
    pub fn qid(&self) -> u16 {
        self.qid
    }

    /// Commands that were gathered and not executed.
    #[inline]
    pub fn gathered(&self) -> usize {
        self.gathered.len()
    }

    /// Whether a command waits for room in the completion queue.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.cq.blocks
    }

    /// Whether its host has unmapped its completion queue: only the controller can tell it so.
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

impl Controller {
    /// Takes I/O queue pair `qid` out of the controller, if it is one that can leave: its completion queue is its own,
    /// nothing of it waits, and neither synced completions nor other engines need the controller at every step.
    ///
    /// The caller keeps no modelled time.
    pub fn check_out(&mut self, subsystem: &Subsystem, qid: u16, carried: Carried) -> Option<Box<Lane>> {
        let index = usize::from(qid);
        let is_carried = match carried {
            Carried::Keys => self.registers.serves_all_sets() && !self.admin.has_shadow_doorbells(),
            Carried::KeysAndBlocks => !self.registers.is_admin_only(),
        };
        let can_leave = qid != 0
            && self.is_ready()
            && is_carried
            && !subsystem.synced_completions
            && self.held.is_empty()
            && !subsystem.has_engines()
            && self.submission.get(index)?.as_ref().is_some_and(|sq| sq.cqid == qid)
            && self.completion.get(index)?.as_ref().is_some_and(|cq| cq.submission_queues == 1);
        if !can_leave {
            return None;
        }
        let habits = self.lane_habits(subsystem, qid);
        let blocks = match carried {
            Carried::Keys => Vec::new(),
            Carried::KeysAndBlocks => subsystem.block_shapes(self.id),
        };
        let buffered = self.buffered_pair(qid);
        let (sq, cq) = (self.submission[index].take()?, self.completion[index].take()?);
        self.ready.remove(qid);
        self.away.insert(qid);
        Some(Box::new(Lane {
            qid,
            sq,
            cq,
            buffered,
            habits,
            blocks,
            gathered: Vec::with_capacity(LANE_COMMANDS),
            commands: Box::new([Command::default(); LANE_COMMANDS]),
            payloads: vec![0; ROOM_BYTES],
            payload_end: 0,
            room: Room::default(),
            errors: Vec::new(),
            unannounced: false,
            broken: false,
        }))
    }

    /// Puts a queue pair back. Everything it gathered has been executed and completed.
    pub fn check_in(&mut self, mut lane: Box<Lane>) {
        debug_assert!(lane.gathered.is_empty(), "a lane is emptied before it is checked in");
        let index = usize::from(lane.qid);
        lane.errors.drain(..).for_each(|noted| self.admin.add_error(noted));
        self.blocked |= lane.cq.blocks;
        let Lane { qid, sq, cq, buffered, broken, .. } = *lane;
        buffered.into_iter().for_each(|pair| self.take_buffered_pair(pair));
        (self.submission[index], self.completion[index]) = (Some(sq), Some(cq));
        self.ready.insert(qid);
        self.away.remove(qid);
        if self.away.is_empty() && std::mem::take(&mut self.admin_waits) {
            self.ready.insert(0);
        }
        if broken {
            self.fail();
        }
    }

    fn lane_habits(&self, subsystem: &Subsystem, qid: u16) -> Habits {
        let vector = self.completion[usize::from(qid)].as_ref().and_then(|cq| cq.vector);
        // Of the other set alone, their commands are the controller's to refuse (CC.CSS).
        let all_sets = self.registers.serves_all_sets();
        Habits {
            id: self.id,
            key_value: if all_sets { subsystem.key_value_namespaces(self.id) } else { 0 },
            transfers: self.admin.transfers,
            sgls: subsystem.options.sgls,
            inline_max_bytes: self.inline.len(),
            piggyback_max_bytes: subsystem.profile.limits.piggyback_max_bytes as usize,
            whole_page_prp: self.habits.whole_page_prp,
            chunk_burst: self.habits.chunk_burst,
            coalesce_interrupts: self.habits.coalesce_interrupts,
            vector: vector.filter(|vector| !self.registers.is_masked(*vector)),
        }
    }
}
