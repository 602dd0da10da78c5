//! One submission or completion queue: where its ring lies in host memory, and the state that belongs to it.

use std::collections::VecDeque;

use byway_dma::BusAddr;
use byway_queue::{BadSize, CompletionPermit, CompletionProducer, SubmissionConsumer};
use byway_spec::Command;
use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_sys::time::monotonic_ns;

use crate::transfer::assembly::Assembly;

/// A submission queue.
#[derive(Debug)]
pub struct SubmissionQueue {
    /// Bus address of slot 0.
    pub base: BusAddr,
    /// Head and tail.
    pub ring: SubmissionConsumer,
    /// The head that the last completion reported (SQHD).
    pub reported_head: u16,
    /// Completion queue its commands complete to.
    pub cqid: u16,
    /// The command at the head, if it was fetched already and could not be served then. It waits without holding other
    /// queues.
    pub fetched: Option<FetchedCommand>,
    /// Commands behind the head that were fetched early, each once, so that the memory they need can be prefetched. Only
    /// the last of them may carry a payload in the ring.
    pub ahead: VecDeque<Command>,
    /// Piggybacked value on its way in.
    pub assembly: Assembly,
    /// Window of device memory bound to this queue (CXL stores).
    pub window: Option<BoundWindow>,
}

/// A command that was fetched and stays at the head of its queue: the rest of its capsule is still to come, or the
/// delegated queue that fetched it leaves it to the controller.
#[derive(Debug, Clone, Copy)]
pub struct FetchedCommand {
    /// The command.
    pub command: Command,
    /// Whether payloads could follow commands in the ring when it was fetched: then it was a capsule and stays one,
    /// whatever the host enables meanwhile.
    pub inline: bool,
}

/// A window of device memory bound to a queue.
///
/// The namespace may be formatted or deleted over another controller, and the window bound to another queue. The number
/// of the binding lets the namespace recognize one that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundWindow {
    /// Namespace the window's value log stream belongs to.
    pub nsid: u32,
    /// The window's index in the namespace.
    pub index: u16,
    /// Number of the binding; no other binding of the subsystem has it.
    pub binding: u64,
}

impl SubmissionQueue {
    /// A queue of `entries` slots at `base`.
    pub fn new(base: BusAddr, entries: u32, cqid: u16) -> Result<Self, BadSize> {
        Ok(Self {
            base,
            ring: SubmissionConsumer::new(entries)?,
            reported_head: 0,
            cqid,
            fetched: None,
            ahead: VecDeque::new(),
            assembly: Assembly::default(),
            window: None,
        })
    }

    /// Bus address of slot `index`.
    #[inline]
    pub fn slot(&self, index: u16) -> BusAddr {
        BusAddr(self.base.0 + u64::from(index) * COMMAND_BYTES as u64)
    }

    /// The newer of two heads that the queue has had within its last pass.
    pub fn newer(&self, one: u16, other: u16) -> u16 {
        let size = self.ring.size();
        let age = |head: u16| (u32::from(self.ring.head()) + size - u32::from(head)) % size;
        if age(one) <= age(other) { one } else { other }
    }
}

/// A completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    /// Bus address of slot 0.
    pub base: BusAddr,
    /// Tail, phase, and the host's head.
    pub ring: CompletionProducer,
    /// Interrupt vector, where interrupts are enabled.
    pub vector: Option<u16>,
    /// Submission queues that complete here.
    pub submission_queues: u16,
    /// A command waits for room here.
    pub blocked: Blocked,
}

/// Whether a command waits for room in a completion queue, and since when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blocked {
    since_ns: Option<u64>,
}

impl Blocked {
    /// Whether a command waits.
    #[inline]
    pub const fn is_set(self) -> bool {
        self.since_ns.is_some()
    }

    /// A command waits from now on, if none did.
    #[cold]
    pub fn set(&mut self) {
        self.since_ns.get_or_insert_with(monotonic_ns);
    }

    /// Ends the wait; how long it took in nanoseconds, if a command waited.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        self.since_ns.take().map(|since_ns| monotonic_ns().saturating_sub(since_ns))
    }
}

impl CompletionQueue {
    /// A queue of `entries` slots at `base`.
    pub fn new(base: BusAddr, entries: u32, vector: Option<u16>) -> Result<Self, BadSize> {
        let ring = CompletionProducer::new(entries)?;
        Ok(Self { base, ring, vector, submission_queues: 0, blocked: Blocked::default() })
    }

    /// The right to post one completion. If the queue looks full, `head` reads the host's head again.
    #[inline]
    pub fn permit(&mut self, head: impl FnOnce() -> Option<u32>) -> Option<CompletionPermit> {
        if let Some(permit) = self.ring.permit() {
            return Some(permit);
        }
        // An invalid head frees nothing; it is reported when its doorbell is taken.
        self.ring.set_head(head()?).ok()?;
        self.ring.permit()
    }

    /// Bus address of slot `index`.
    #[inline]
    pub fn slot(&self, index: u16) -> BusAddr {
        BusAddr(self.base.0 + u64::from(index) * COMPLETION_BYTES as u64)
    }
}
