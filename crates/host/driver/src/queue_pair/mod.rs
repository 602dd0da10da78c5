//! An I/O queue pair: the rings, what is in flight, and how commands get onto the ring.
//!
//! A queue belongs to one thread at a time. This file puts commands on the ring. Completions: [`progress`]; memory of payloads:
//! [`memory`]; synchronous calls: [`calls`], [`many`]; asynchronous commands: [`backend`]; transfer methods: [`transfer`].

mod backend;
mod calls;
mod deadlines;
mod inline_read;
mod layouts;
mod listening;
mod many;
mod memory;
mod progress;
mod transfer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{Answer, BufferPool, Error, ErrorKind, Key, Nsid, QueueOptions, Result};
use byway_link::{Habits, HostStep, Method};
use byway_queue::DoorbellIndex;
use byway_spec::Command as Entry;
use byway_sys::{OwnerProcess, ProcessLocal};
use tracing::{debug, warn};

use crate::announced::Announced;
use crate::bounce::BouncePages;
use crate::bus::{Bus, KeyHints, LinkModel};
use crate::mapped::is_gone;
use crate::rings::Rings;
use crate::shared::Shared;
use crate::table::{OpIndex, Table, Waiter};

use deadlines::{Abort, Deadlines};
use layouts::CachedLayout;
use listening::Listening;
pub use many::RetrievedValue;
use transfer::adaptive::Chooser;
use transfer::byte_store::ByteArea;
use transfer::cxl::Window;

/// Most bounce pages of one queue: so many small payloads can be on their way by `prp` and `sgl` at once.
const BOUNCE_PAGES_MAX: u32 = 256;

/// A queue of a device on a [`Bus`].
pub struct Queue<B: Bus> {
    /// The process that opened it.
    owner: OwnerProcess,
    bus: ProcessLocal<Arc<B>>,
    device: ProcessLocal<Arc<Shared<B>>>,
    rings: Rings<B>,
    table: Table,
    bounce: BouncePages,
    /// Done, and not taken yet.
    ready: VecDeque<OpIndex>,
    window: Option<Window<B>>,
    byte_area: Option<ByteArea<B>>,
    chooser: Chooser,
    deadlines: Deadlines,
    /// Aborts that the device has not answered.
    aborts: Vec<Abort>,
    cached_layout: CachedLayout,
    /// The descriptor that the program waits by.
    event: Option<Listening>,
    method: Method,
    /// Most bytes of a result that its commands let stand behind their completions.
    inline_read_max_bytes: u16,
    habits: Habits,
    qid: u16,
    timeout: Duration,
    /// The tail of the last doorbell.
    rung_tail: u32,
    /// The head of the last doorbell.
    rung_head: u32,
    /// A batch of commands is put together: one doorbell for all of them follows.
    holds_doorbell: bool,
    /// Whether the host has paid for waking up since it last rang.
    awake: bool,
    /// Completions that are still to be found, one after the other, before the interrupt that was slept on is given back;
    /// 0 if there is none.
    armed_for: u16,
    /// Whether a poll has found no completion since the last doorbell.
    looked: bool,
    /// Empty polls, wrapping: every so many the bus is asked whether the device is still there.
    empty_polls: u16,
}

impl<B: Bus> Queue<B> {
    /// Opens a queue on the device.
    ///
    /// # Errors
    /// When the device did not announce the transfer method, the depth does not fit the ring, or no queue is left.
    pub(crate) fn open(device: Arc<Shared<B>>, options: QueueOptions) -> Result<Self> {
        let (options, entries) = device.ring_for(options)?;
        device.check_methods(&options)?;
        let qid = device.take_qid()?;
        let queue = Self::new(Arc::clone(&device), qid, entries, &options);
        let queue = queue.inspect_err(|_| device.give_back_qid(qid))?;
        // From here on the number is given back when the queue is dropped.
        device.create_queue(qid, &queue.rings)?;
        debug!(bus = device.bus().name(), qid, entries, "queue created");
        Ok(queue)
    }

    /// A queue whose rings the device does not know yet.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn new(device: Arc<Shared<B>>, qid: u16, entries: u32, options: &QueueOptions) -> Result<Self> {
        let bus = Arc::clone(device.bus());
        let habits = bus.model().map_or(PLAIN_HABITS, |model| model.profile().habits);
        // A completion queue of as many entries holds one less: more commands must never be in flight.
        let cids = (entries - 1).min(u32::from(u16::MAX)) as u16;
        let depth = options.depth.commands().min(u32::from(cids)) as u16;
        Ok(Self {
            rings: Rings::new(&bus, entries)?,
            table: Table::new(depth, cids),
            bounce: BouncePages::new(device.pool(), u32::from(depth).min(BOUNCE_PAGES_MAX) as u16)?,
            ready: VecDeque::with_capacity(usize::from(depth)),
            window: None,
            byte_area: None,
            chooser: Chooser::new(options.policy),
            deadlines: Deadlines::default(),
            aborts: Vec::new(),
            cached_layout: CachedLayout::NOTHING,
            event: None,
            method: options.transfer,
            inline_read_max_bytes: device.inline_read_max_bytes(options),
            habits,
            qid,
            timeout: options.timeout,
            rung_tail: 0,
            rung_head: 0,
            holds_doorbell: false,
            awake: false,
            armed_for: 0,
            looked: false,
            empty_polls: 0,
            owner: *device.owner(),
            bus: bus.into(),
            device: device.into(),
        })
    }

    /// The queue's number, the same for both of its rings.
    #[must_use]
    pub fn qid(&self) -> u16 {
        self.qid
    }

    /// How payloads cross the link.
    #[must_use]
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Entries of each of its rings.
    #[must_use]
    #[inline]
    pub fn ring_entries(&self) -> u32 {
        self.rings.entries()
    }

    #[inline]
    pub(crate) fn bus(&self) -> &B {
        &self.bus
    }

    /// Charges modelled time for steps of this host, where a device has a model.
    #[inline]
    pub(crate) fn charge(&self, step: HostStep, times: u32) {
        if let Some(model) = self.bus.model() {
            model.charge(step, times);
        }
    }

    /// Announces a key that a command is about to look for.
    #[inline]
    fn prefetch_key(&self, nsid: Nsid, key: &Key) {
        if let Some(hints) = self.bus.key_hints() {
            hints.prefetch(nsid.get(), key);
        }
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Announced {
        self.device.announced()
    }

    #[inline]
    pub(crate) fn habits(&self) -> &Habits {
        &self.habits
    }

    #[inline]
    pub(crate) fn pool(&self) -> &BufferPool {
        self.device.pool()
    }

    /// Refuses a call in a forked child.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    #[inline(always)]
    pub(crate) fn check_owner(&self) -> Result<()> {
        byway_core::check_owner(&self.owner)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Starts an operation that the queue's user takes the completion of, if there is room.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`].
    pub(crate) fn start(&mut self, tag: u64) -> Result<OpIndex> {
        self.check_owner()?;
        // Those that are done and were not taken count as well, so that their number is bounded.
        if self.table.started() >= self.table.depth() {
            return Err(full("as many commands are outstanding as the queue is deep"));
        }
        self.table
            .start(tag, Waiter::Queue)
            .ok_or_else(|| full("as many commands are outstanding as the queue is deep"))
    }

    /// Starts an operation that a synchronous call waits for; waits for room.
    ///
    /// # Errors
    /// When the device does not answer.
    #[inline]
    pub(crate) fn start_call(&mut self) -> Result<OpIndex> {
        self.check_owner()?;
        loop {
            if let Some(op) = self.table.start(0, Waiter::Call) {
                return Ok(op);
            }
            // Only the caller takes completions, and the caller is waiting.
            if self.ready.is_empty() || !self.table.grow() {
                self.wait_for_any()?;
            }
        }
    }

    /// Operations that the device has not done yet.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.table.started() - self.ready.len() as u32
    }

    /// Sends an operation's only command, and rings. Refuses if there is no room.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`]; for a synchronous call, when the device does not make room.
    #[inline(always)]
    pub(crate) fn send_one(&mut self, op: OpIndex, entry: Entry) -> Result<()> {
        self.send_with_chunks(op, entry, &[], 0)
    }

    /// Sends an operation's only command with the payload behind it, and rings.
    ///
    /// # Errors
    /// As [`Queue::send_one`].
    #[inline(always)]
    pub(crate) fn send_with_chunks(
        &mut self,
        op: OpIndex,
        entry: Entry,
        payload: &[u8],
        chunks: u32,
    ) -> Result<()> {
        self.place_in_turn(op, entry, payload, chunks)?;
        self.ring_tail();
        Ok(())
    }

    /// Places the first of several commands of an operation. Refuses if there is no room. Does not ring.
    ///
    /// # Errors
    /// As [`Queue::send_one`].
    pub(crate) fn send_first(&mut self, op: OpIndex, entry: Entry) -> Result<()> {
        self.place_in_turn(op, entry, &[], 0)?;
        self.table.op(op).sending = true;
        Ok(())
    }

    /// Places one more command of an operation. Does not ring, unless there is no room: then what was placed of the
    /// operation is waited for, so that the rest goes under one doorbell again.
    ///
    /// # Errors
    /// When the device does not make room.
    pub(crate) fn send_next(&mut self, op: OpIndex, entry: Entry) -> Result<()> {
        if !self.has_room(1) {
            self.finish_sent(op)?;
        }
        while !self.has_room(1) {
            self.wait_for_any()?;
        }
        self.place(op, entry, &[], 0);
        Ok(())
    }

    /// All commands of an operation are placed: rings for those that were not rung yet.
    pub(crate) fn end_sending(&mut self, op: OpIndex) {
        self.table.op(op).sending = false;
        self.ring_tail();
    }

    /// Rings for the commands of an operation that were placed, and waits until they have completed; says whether all
    /// of them succeeded.
    ///
    /// # Errors
    /// When the device does not answer.
    pub(crate) fn finish_sent(&mut self, op: OpIndex) -> Result<bool> {
        self.ring_tail_now();
        while self.table.op(op).left > 0 {
            self.wait_for_any()?;
        }
        self.ring_head();
        Ok(self.table.op(op).failed.is_none())
    }

    /// What the operation's completions have said so far.
    pub(crate) fn answer_so_far(&mut self, op: OpIndex) -> Answer {
        self.table.op(op).answer
    }

    /// Rings the tail doorbell, if the tail moved; in a batch, at its end.
    #[inline]
    pub(crate) fn ring_tail(&mut self) {
        if !self.holds_doorbell {
            self.ring_tail_now();
        }
    }

    /// Rings the tail doorbell, if the tail moved.
    #[inline]
    pub(crate) fn ring_tail_now(&mut self) {
        let tail = self.rings.tail();
        if tail != self.rung_tail {
            self.rung_tail = tail;
            self.awake = false;
            self.looked = false;
            self.bus.ring(DoorbellIndex::submission(self.qid), tail);
        }
    }

    /// Rings the head doorbell, if the head moved; over a bus that reports heads late, once the device may run out of room.
    #[inline]
    pub(crate) fn ring_head(&mut self) {
        if B::REPORTS_HEADS_LATE { self.ring_head_if_near_full() } else { self.ring_head_now() }
    }

    #[inline]
    fn ring_head_now(&mut self) {
        let head = self.rings.head();
        if head != self.rung_head {
            self.rung_head = head;
            self.awake = false;
            self.bus.ring(DoorbellIndex::completion(self.qid), head);
        }
    }

    /// Rings the head doorbell during a wait for completions, if the device may run out of room before they have come.
    /// Otherwise one doorbell for all of them follows once they have.
    #[inline]
    pub(crate) fn ring_head_if_near_full(&mut self) {
        let entries = self.rings.entries();
        let (head, rung) = (self.rings.head(), self.rung_head);
        let unreported = if head >= rung { head - rung } else { head + entries - rung };
        if entries - 1 - unreported <= entries / 4 {
            self.ring_head_now();
        }
    }

    /// Makes sure that one more command finds room; a synchronous call waits for it, others are refused.
    ///
    /// # Errors
    /// As [`Queue::send_one`].
    pub(crate) fn room_for_one(&mut self, op: OpIndex) -> Result<()> {
        self.room(op, 1)
    }

    /// Makes sure that two more commands of so many slots each find room, as [`Queue::room_for_one`].
    ///
    /// # Errors
    /// As [`Queue::send_one`].
    pub(crate) fn room_for_two(&mut self, op: OpIndex, slots: u32) -> Result<()> {
        while self.rings.free() < 2 * slots || !self.table.has_two_cids() {
            self.wait_for_room(op)?;
        }
        Ok(())
    }

    /// Places commands that there is room for under one doorbell, the batch's if there is one.
    pub(crate) fn under_one_doorbell<T>(&mut self, place: impl FnOnce(&mut Self) -> T) -> T {
        let held = std::mem::replace(&mut self.holds_doorbell, true);
        let placed = place(self);
        self.holds_doorbell = held;
        self.ring_tail();
        placed
    }

    /// Whether the ring has room for one more command of `slots` slots.
    #[inline]
    fn has_room(&self, slots: u32) -> bool {
        self.table.has_cid() && self.rings.free() >= slots
    }

    /// Places a command and its chunks; a synchronous call waits for room, others are refused.
    #[inline(always)]
    fn place_in_turn(&mut self, op: OpIndex, entry: Entry, payload: &[u8], chunks: u32) -> Result<()> {
        self.room(op, 1 + chunks)?;
        self.place(op, entry, payload, chunks);
        Ok(())
    }

    #[inline]
    fn room(&mut self, op: OpIndex, slots: u32) -> Result<()> {
        while !self.has_room(slots) {
            self.wait_for_room(op)?;
        }
        Ok(())
    }

    #[inline]
    fn wait_for_room(&mut self, op: OpIndex) -> Result<()> {
        if self.table.op(op).waiter != Waiter::Call {
            return Err(full("the ring has no free slots for the command"));
        }
        self.wait_for_any()
    }

    /// Places a command that there is room for.
    #[inline(always)]
    fn place(&mut self, op: OpIndex, mut entry: Entry, payload: &[u8], chunks: u32) {
        let Some(cid) = self.table.take_cid(op, 1 + chunks) else { return };
        entry.cdw0.set_cid(cid);
        let placed = self.rings.place(&entry, payload, chunks);
        debug_assert!(placed, "room was looked for before");
        self.charge(HostStep::Submit, 1);
    }
}

impl<B: Bus> Drop for Queue<B> {
    /// In a forked child the queue stays as it is, which its parent goes on with: no command is sent, no memory given back.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            self.table.leak();
            self.bounce.leak();
            std::mem::forget(self.event.take());
            return;
        }
        self.leave_aborts();
        while let Some(finished) = self.take_ready() {
            drop(finished);
        }
        if self.device.delete_queue(self.qid()).is_err() {
            if is_gone(&**self.bus) {
                return;
            }
            warn!(bus = self.bus.name(), qid = self.qid(), "queue not deleted: its memory is kept");
            self.table.leak();
            self.bounce.leak();
            self.device.keep_rings(&mut self.rings);
            // The number is not used again either: the device still has the queue.
            return;
        }
        self.bus.disarm(self.qid());
        self.device.give_back_qid(self.qid());
    }
}

/// Where the bus has no profile: a usual device, and no model of the host.
const PLAIN_HABITS: Habits = Habits {
    whole_page_prp: false,
    chunk_burst: true,
    fragments_one_by_one: false,
    coalesce_interrupts: true,
    fetch_ahead: 0,
    firmware_waits: false,
    inline_maps_pages: false,
    host_sleeps: false,
    read_requests: byway_link::ReadRequestRule::AsConfigured,
};

#[cold]
pub(crate) fn full(why: &'static str) -> Error {
    Error::host(ErrorKind::QueueFull, why)
}
