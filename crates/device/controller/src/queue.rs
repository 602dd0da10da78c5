//! The controller's side of its queues: where they lie in host memory, and what hangs on each.

use std::collections::VecDeque;

use byway_dma::BusAddr;
use byway_queue::{BadSize, CompletionPermit, CompletionProducer, SubmissionConsumer};
use byway_spec::Command;
use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;

use crate::transfer::assembly::Assembly;

/// Queue pairs besides the admin queue.
pub const MAX_IO_QUEUES: u16 = 128;

/// A submission queue.
#[derive(Debug)]
pub struct SubmissionQueue {
    /// Bus address of slot 0.
    pub base: BusAddr,
    /// Head and tail.
    pub ring: SubmissionConsumer,
    /// The head that the last completion told.
    pub told_head: u16,
    /// Completion queue its commands complete to.
    pub cqid: u16,
    /// The command at the head, if it was fetched already and could not be served then. It waits without holding other
    /// queues.
    pub fetched: Option<FetchedCommand>,
    /// Commands behind the head that were fetched with those before them, each once, so that memory they need can come
    /// closer meanwhile. None of them carries a payload in the ring, but perhaps the last.
    pub ahead: VecDeque<Command>,
    /// Piggybacked value on its way in.
    pub assembly: Assembly,
    /// Window of device memory bound to this queue (CXL stores).
    pub window: Option<BoundWindow>,
}

/// A command that was fetched and stays at the head of its queue: the rest of its capsule is still to come, or it is
/// not for whoever fetched it.
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
/// The namespace may be formatted or deleted over another controller, and the window bound to another queue: this
/// is then word of a binding that is no more, which the namespace tells by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundWindow {
    /// Namespace the window's value log stream belongs to.
    pub nsid: u32,
    /// Which window.
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
            told_head: 0,
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
    pub blocks: bool,
}

impl CompletionQueue {
    /// A queue of `entries` slots at `base`.
    pub fn new(base: BusAddr, entries: u32, vector: Option<u16>) -> Result<Self, BadSize> {
        let ring = CompletionProducer::new(entries)?;
        Ok(Self { base, ring, vector, submission_queues: 0, blocks: false })
    }

    /// The right to post one completion. If the queue looks full, the host's head is looked at anew.
    #[inline]
    pub fn permit(&mut self, head: impl FnOnce() -> Option<u32>) -> Option<CompletionPermit> {
        if let Some(permit) = self.ring.permit() {
            return Some(permit);
        }
        // A head that cannot be frees nothing; it is told of when its doorbell is taken.
        self.ring.set_head(head()?).ok()?;
        self.ring.permit()
    }

    /// Bus address of slot `index`.
    #[inline]
    pub fn slot(&self, index: u16) -> BusAddr {
        BusAddr(self.base.0 + u64::from(index) * COMPLETION_BYTES as u64)
    }
}
