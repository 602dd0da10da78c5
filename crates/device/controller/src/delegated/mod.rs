//! A queue pair that is delegated to a thread, which serves it outside the run lock (decision 0009).
//!
//! [`Controller::delegate`](crate::Controller::delegate) takes a pair out,
//! [`Controller::reclaim`](crate::Controller::reclaim) puts it back. In between its thread repeats three steps:
//! [`DelegatedQueue::gather`] fetches commands and their payloads, [`DelegatedQueue::execute`] executes them with the
//! subsystem, [`DelegatedQueue::complete`] completes them. Only the second needs the run lock. A command that the queue
//! does not carry stays at its head for the controller.

mod execute;
mod gather;
mod inline_result;
mod leases;
mod shared;
mod unlocked;

use byway_spec::{Command, Key};

use crate::admin::{BufferedPair, EnabledTransfers, Noted};
use crate::counting::Counted;
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::namespace::Room;
use crate::namespace::kv::{Lookups, StoreIf};
use crate::payload::Mapped;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::reservation::Access;
use crate::subsystem::BlockAccess;
use crate::ticket::Ticket;

pub use gather::Gathered;
pub(crate) use leases::QueueLeases;
use unlocked::{RETRY_AFTER_BATCHES, Uncounted};

/// Most commands gathered before they are executed.
pub const DELEGATED_COMMANDS: usize = 32;

/// Most bytes of payloads that gathered commands carry, to the device or from it.
const ROOM_BYTES: usize = 128 << 10;

/// Longest value of a delegated command, in bytes.
const PAYLOAD_MAX_BYTES: usize = 4096;

/// Most bytes of blocks that a delegated command moves.
const BLOCKS_MAX_BYTES: u64 = 64 << 10;

/// Errors kept for the controller's log. Older ones are dropped.
const ERRORS_KEPT: usize = 64;

/// How the thread that serves a delegated queue learns of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelegatedTo {
    /// It writes the doorbell register itself. Not with doorbells in host memory.
    Submitter,
    /// It polls the doorbells, wherever they are.
    Poller,
}

/// A copy of the controller's state that a delegated queue needs. The queue is reclaimed before any of it changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DelegatedHabits {
    pub id: ControllerId,
    /// Bit `n` − 1 for each attached key-value namespace `n` whose commands are carried.
    pub key_value: u64,
    pub transfers: EnabledTransfers,
    pub sgls: bool,
    pub inline_max_bytes: usize,
    pub piggyback_max_bytes: usize,
    pub whole_page_prp: bool,
    pub chunk_burst: bool,
    /// Longest result behind its completion in bytes; 0 where the host enabled none.
    pub result_max_bytes: usize,
    pub coalesce_interrupts: bool,
    pub vector: Option<u16>,
}

/// What a delegated queue gives back to its controller.
pub(crate) struct DelegatedParts {
    pub qid: u16,
    pub sq: SubmissionQueue,
    pub cq: CompletionQueue,
    pub buffered: Option<BufferedPair>,
    pub errors: Vec<Noted>,
    pub broken: bool,
}

/// A delegated queue pair.
#[derive(Debug)]
pub struct DelegatedQueue {
    qid: u16,
    sq: SubmissionQueue,
    cq: CompletionQueue,
    /// Its doorbells, if they are in host memory.
    buffered: Option<BufferedPair>,
    habits: DelegatedHabits,
    /// By namespace: an attached namespace of blocks, whose reads and writes are carried.
    blocks: Vec<Option<BlockAccess>>,
    /// Batches under the run lock until permits of blocks that are missing are asked for again.
    batches_until_retry: u32,
    uncounted: Uncounted,
    leases: QueueLeases,
    gathered: Vec<Gathering>,
    /// By gathered command: the command, if it reads. Its data pointer names the host's buffer.
    commands: Box<[Command; DELEGATED_COMMANDS]>,
    /// Payloads of the gathered commands, in sequence. No memory before the first command is gathered: a queue of scans, which
    /// the controller executes, is delegated for every 17th of them, and gathers none.
    payloads: Vec<u8>,
    payload_end: usize,
    many: ManyLookup,
    /// Entries that the results of gathered commands may take behind their completions.
    result_entries: u32,
    room: Room,
    errors: Vec<Noted>,
    unannounced: bool,
    broken: bool,
    /// How long commands waited for room in the completion queue, in nanoseconds, since commands were executed last.
    full_ring_ns: u64,
}

/// A command that was fetched.
#[derive(Debug)]
struct Gathering {
    ticket: Ticket,
    counted: Counted,
    nsid: u32,
    work: Work,
    /// Its result, once it was executed.
    result: Result<u32, CommandError>,
    is_done: bool,
}

/// The Retrieve Many that is gathered, one at a time.
#[derive(Debug, Default)]
struct ManyLookup {
    lookups: Lookups,
    /// Its host's buffer.
    mapped: Mapped,
    is_gathered: bool,
}

/// A range of a delegated queue's payloads, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    at: usize,
    len: usize,
}

/// A parsed command. Plain numbers instead of enum variants with a key in each: those would be assembled in memory byte by
/// byte, and moving them would wait for store forwarding.
#[derive(Debug, Clone, Copy)]
struct Work {
    what: What,
    key_number: u128,
    key_len: usize,
    /// A value or blocks to store, or room for what is read.
    value: Place,
    /// First byte of blocks.
    at: u64,
    when: StoreIf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Put,
    Get,
    /// The keys are in [`ManyLookup`].
    GetMany,
    Delete,
    Exist,
    Read,
    Write,
    /// Refused when it was parsed. The result holds the error.
    Nothing,
}

impl What {
    #[inline]
    const fn access(self) -> Access {
        match self {
            Self::Get | Self::GetMany | Self::Exist | Self::Read => Access::Read,
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

    /// A transfer between `value` and the namespace's bytes from `at` on.
    #[inline]
    fn blocks(what: What, at: u64, value: Place) -> Self {
        Self { what, value, at, ..Self::NOTHING }
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        (!matches!(self.what, What::Nothing | What::GetMany | What::Read | What::Write))
            .then(|| Key::from_number(self.key_number, self.key_len))
    }
}

impl DelegatedQueue {
    /// A queue pair with its doorbells in host memory, if they are there, and the namespaces of blocks that it serves.
    pub(crate) fn new(
        qid: u16,
        (sq, cq): (SubmissionQueue, CompletionQueue),
        buffered: Option<BufferedPair>,
        habits: DelegatedHabits,
        blocks: Vec<Option<BlockAccess>>,
    ) -> Self {
        Self {
            qid,
            sq,
            cq,
            buffered,
            habits,
            blocks,
            batches_until_retry: RETRY_AFTER_BATCHES,
            uncounted: Uncounted::default(),
            leases: QueueLeases::default(),
            gathered: Vec::with_capacity(DELEGATED_COMMANDS),
            commands: Box::new([Command::default(); DELEGATED_COMMANDS]),
            payloads: Vec::new(),
            payload_end: 0,
            many: ManyLookup::default(),
            result_entries: 0,
            room: Room::default(),
            errors: Vec::new(),
            unannounced: false,
            broken: false,
            full_ring_ns: 0,
        }
    }

    /// Gives its parts back, once every gathered command was completed.
    pub(crate) fn into_parts(self) -> DelegatedParts {
        debug_assert!(
            self.gathered.is_empty(),
            "gathered commands are completed before a queue is reclaimed"
        );
        debug_assert!(self.uncounted.is_empty(), "commands are counted before a queue is reclaimed");
        debug_assert!(self.leases.is_empty(), "leases are closed before a queue is reclaimed");
        let Self { qid, sq, cq, buffered, errors, broken, .. } = self;
        DelegatedParts { qid, sq, cq, buffered, errors, broken }
    }

    /// The queue's identifier, the same for both of its rings.
    pub fn qid(&self) -> u16 {
        self.qid
    }

    /// Commands that were gathered and not completed.
    #[inline]
    pub fn gathered(&self) -> usize {
        self.gathered.len()
    }

    /// Whether a command waits for room in the completion queue.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.cq.blocked.is_set()
    }

    /// Whether the host has unmapped its completion queue. Only the controller can report that, by CSTS.CFS.
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}
