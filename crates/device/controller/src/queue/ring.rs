//! One submission or completion queue: where its ring lies in host memory, and the state that belongs to it.

use byway_dma::{BusAddr, DmaFault, HostMemory};
use byway_link::{Class, Work};
use byway_queue::{BadSize, CompletionPermit, CompletionProducer, ResultPermit, SubmissionConsumer};
use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::vendor::{RESULT_ENTRY_BYTES, result_entry};
use byway_spec::{Command, Completion};
use byway_sys::time::monotonic_ns;

use crate::port::Port;
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
    /// The last command was fetched with a payload that followed it in the ring.
    pub had_payload: bool,
    /// Commands from the head on that were fetched early, each once, so that the memory they need can be prefetched.
    pub ahead: Ahead,
    /// Piggybacked value on its way in.
    pub assembly: Assembly,
    /// Window of device memory bound to this queue (CXL stores).
    pub window: Option<BoundWindow>,
}

/// Commands that were fetched together before they are served, in the order of their ring.
#[derive(Debug, Default)]
pub struct Ahead {
    commands: Vec<Command>,
    /// Those before this one were taken.
    next: usize,
    /// Whether payloads could follow them in the ring when they were fetched.
    inline: bool,
}

impl Ahead {
    /// Begins a group. Those before were taken.
    #[inline]
    pub fn begin(&mut self, inline: bool) {
        self.commands.clear();
        (self.next, self.inline) = (0, inline);
    }

    /// Whether every command was taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next == self.commands.len()
    }

    /// Appends a command that `fetch` reads; whether it could be read.
    #[inline]
    pub fn push_with(&mut self, fetch: impl FnOnce(&mut Command) -> Option<()>) -> bool {
        // Read to where it stays: moving it right after the read would wait for store forwarding.
        self.commands.push(Command::default());
        let is_read = self.commands.last_mut().and_then(fetch).is_some();
        if !is_read {
            self.commands.pop();
        }
        is_read
    }

    /// Takes the next command into `command`; whether payloads could follow it when it was fetched.
    #[inline]
    pub fn take(&mut self, command: &mut Command) -> Option<bool> {
        *command = *self.commands.get(self.next)?;
        self.next += 1;
        Some(self.inline)
    }

    /// The commands that were not taken.
    #[inline]
    pub fn as_slice(&self) -> &[Command] {
        self.commands.get(self.next..).unwrap_or_default()
    }
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
            had_payload: false,
            ahead: Ahead::default(),
            assembly: Assembly::default(),
            window: None,
        })
    }

    /// Bus address of slot `index`.
    #[inline]
    pub fn slot(&self, index: u16) -> BusAddr {
        slot_at(self.base, index)
    }

    /// The newer of two heads that the queue has had within its last pass.
    pub fn newer(&self, one: u16, other: u16) -> u16 {
        let size = self.ring.size();
        let age = |head: u16| (u32::from(self.ring.head()) + size - u32::from(head)) % size;
        if age(one) <= age(other) { one } else { other }
    }
}

/// Most entries of a result behind its completion.
pub(crate) const RESULT_ENTRIES_MAX: usize = byway_link::cost::RESULT_ENTRIES_MAX as usize;

/// Bus address of slot `index` of a submission queue at `base`.
#[inline]
pub(super) fn slot_at(base: BusAddr, index: u16) -> BusAddr {
    BusAddr(base.0 + u64::from(index) * COMMAND_BYTES as u64)
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

    /// Entries that a result may take, of `wanted`, where `waiting` commands were announced that have no permit yet. If those are too
    /// few, `head` reads the host's head again.
    pub fn room_for_result(&mut self, wanted: u32, waiting: u32, head: impl FnOnce() -> Option<u32>) -> u32 {
        if self.ring.room_for_result(waiting) < wanted
            && let Some(head) = head()
        {
            // An invalid head frees nothing; it is reported when its doorbell is taken.
            let _ = self.ring.set_head(head);
        }
        self.ring.room_for_result(waiting).min(wanted)
    }

    /// Meters a completion with a result behind it, which is posted after `before` other entries. Together they are one write on the
    /// link, and two around the end of the ring: then the completion is in the second.
    pub fn meter_with_result(&self, port: &mut Port<'_>, before: u32, bytes: usize, entries: u32) {
        let until_end = self.ring.contiguous(self.ring.index_after(before), 1 + entries);
        let entry_bytes = COMPLETION_BYTES as u64;
        port.meter.work(Work::MemCopy { bytes: bytes as u32 });
        port.meter.work(Work::Completion);
        let behind_wrap = u64::from(1 + entries - until_end);
        if behind_wrap > 0 {
            port.meter.posted_write(Class::Completion, behind_wrap * entry_bytes);
        }
        port.meter.posted_write(Class::Completion, u64::from(until_end) * entry_bytes);
    }

    /// Writes a completion with the result behind it: the result first, and the completion's phase tag last.
    ///
    /// # Errors
    /// The host has unmapped the queue.
    pub fn post_with_result(
        &mut self,
        port: &Port<'_>,
        (permit, result): (CompletionPermit, ResultPermit),
        entry: Completion,
        bytes: &[u8],
    ) -> Result<(), DmaFault> {
        let (size, entries) = (self.ring.size(), result.entries());
        debug_assert!(bytes.len().div_ceil(RESULT_ENTRY_BYTES) == entries as usize, "a permit of its length");
        debug_assert!(entries as usize <= RESULT_ENTRIES_MAX, "within the limit that was announced");
        let first = self.ring.post_with_result(permit, result);
        let mut written = [[0; COMPLETION_BYTES]; RESULT_ENTRIES_MAX];
        let written = written.get_mut(..entries as usize).unwrap_or_default();
        for ((distance, to), chunk) in (1..).zip(&mut *written).zip(bytes.chunks(RESULT_ENTRY_BYTES)) {
            *to = result_entry(chunk, first.behind(distance, size).phase);
        }
        let start = first.behind(1, size).index;
        let until_end = self.ring.contiguous(start, written.len() as u32) as usize;
        let (before, after) = written.split_at(until_end);
        port.memory.write(self.slot(start), before.as_flattened())?;
        if !after.is_empty() {
            port.memory.write(self.slot(0), after.as_flattened())?;
        }
        port.memory.store_completion(self.slot(first.index), &entry.with_phase(first.phase).to_bytes())
    }

    /// Bus address of slot `index`.
    #[inline]
    pub fn slot(&self, index: u16) -> BusAddr {
        BusAddr(self.base.0 + u64::from(index) * COMPLETION_BYTES as u64)
    }
}
