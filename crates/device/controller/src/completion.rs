//! Completions on their way to the host: at once with the clock off, at their modelled time otherwise.
//!
//! A command holds a permit for its completion slot from the moment it is fetched, so posting never fails for want
//! of room and each command is completed exactly once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use byway_dma::HostMemory;
use byway_link::{Class, Work};
use byway_queue::{CompletionPermit, DoorbellIndex, Doorbells};
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::{Completion, Status};

use crate::controller::{Controller, QueueSet};
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;

/// A coalesced interrupt waits for a completion that is due within this time: the unit that hosts set the aggregation
/// time in (Base 2.1, Interrupt Coalescing feature).
const AGGREGATION_PS: u64 = 100_000_000;

/// The right and the duty to complete one command.
#[derive(Debug)]
#[must_use = "a fetched command is completed exactly once"]
pub struct Ticket {
    /// Submission queue the command came over.
    pub sqid: u16,
    /// Its identifier there.
    pub cid: u16,
    /// Completion queue it completes to.
    pub cqid: u16,
    /// Its slot there.
    pub permit: CompletionPermit,
}

/// Completions that wait for their time.
#[derive(Debug, Default)]
pub struct Completions {
    due: BinaryHeap<Reverse<Due>>,
    sequence: u64,
}

#[derive(Debug)]
struct Due {
    due_ps: u64,
    sequence: u64,
    ticket: Ticket,
    entry: Completion,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ps, self.sequence).cmp(&(other.due_ps, other.sequence))
    }
}

impl Completions {
    /// Forgets everything: controller reset.
    pub fn clear(&mut self) {
        self.due.clear();
    }

    /// When the earliest waiting completion is due.
    #[inline]
    pub fn next_due_ps(&self) -> Option<u64> {
        self.due.peek().map(|Reverse(due)| due.due_ps)
    }

    /// Whether a completion for queue `cqid` is due until `until_ps`.
    fn is_due_until(&self, cqid: u16, until_ps: u64) -> bool {
        self.due.iter().any(|Reverse(due)| due.ticket.cqid == cqid && due.due_ps <= until_ps)
    }

    fn push(&mut self, due_ps: u64, ticket: Ticket, entry: Completion) {
        self.sequence += 1;
        self.due.push(Reverse(Due { due_ps, sequence: self.sequence, ticket, entry }));
    }

    /// Takes what waits of queue `sqid`, in the order it is due.
    fn take_queue(&mut self, sqid: u16) -> Vec<Due> {
        let all = std::mem::take(&mut self.due).into_sorted_vec();
        let (mine, others): (Vec<_>, Vec<_>) =
            all.into_iter().rev().partition(|Reverse(due)| due.ticket.sqid == sqid);
        self.due = others.into();
        mine.into_iter().map(|Reverse(due)| due).collect()
    }

    #[inline]
    fn pop_due(&mut self, now_ps: u64) -> Option<(Ticket, Completion)> {
        if self.next_due_ps()? > now_ps {
            return None;
        }
        self.due.pop().map(|Reverse(due)| (due.ticket, due.entry))
    }
}

impl Controller {
    /// Ends a command: its completion is written now, or when modelled time has come to it, or, where it `changes`
    /// data that must be durable first, when the image is synced.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        result: Result<Outcome, CommandError>,
        changes: bool,
    ) {
        match result {
            Ok(Outcome::Done { dw0, dw1 }) if !changes => {
                self.complete(port, ticket, Status::SUCCESS, dw0, dw1)
            }
            result => self.finish_otherwise(port, ticket, result, changes),
        }
    }

    #[inline(never)]
    fn finish_otherwise(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        result: Result<Outcome, CommandError>,
        changes: bool,
    ) {
        match result {
            Ok(Outcome::Later) => self.park(ticket),
            Ok(Outcome::Elsewhere(at)) => self.park_elsewhere(ticket, at),
            // One that failed may have changed something all the same, which its result then tells.
            Err(error) if !(changes && error.dw0 != 0) => {
                let status = self.log_error(&ticket, &error);
                self.complete(port, ticket, status, error.dw0, 0);
            }
            result => self.hold(port, ticket, result),
        }
    }

    /// Writes a completion for `ticket`.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        status: Status,
        dw0: u32,
        dw1: u32,
    ) {
        port.meter.work(Work::Completion);
        port.meter.posted_write(Class::Completion, COMPLETION_BYTES as u64);
        let entry = self.entry(&ticket, status, dw0, dw1);
        self.deliver(port, ticket, entry, port.meter.arrived_ps());
    }

    /// The completion of a command that ends now.
    #[inline]
    pub(crate) fn entry(&self, ticket: &Ticket, status: Status, dw0: u32, dw1: u32) -> Completion {
        let sq_head = self.submission[usize::from(ticket.sqid)].as_ref().map_or(0, |sq| sq.ring.head());
        let result = u64::from(dw0) | u64::from(dw1) << 32;
        Completion::new(ticket.sqid, sq_head, ticket.cid, status).with_result(result)
    }

    /// Posts a completion, or keeps it until `due_ps` where time is modelled.
    #[inline]
    pub(crate) fn deliver(&mut self, port: &mut Port<'_>, ticket: Ticket, entry: Completion, due_ps: u64) {
        if port.meter.is_timing() {
            self.completions.push(due_ps, ticket, entry);
        } else {
            self.post(port, ticket, entry);
        }
    }

    /// Sets a command aside that finishes later. Its place in the completion queue is given back meanwhile, so that
    /// commands that wait for ever do not fill the queue.
    fn park(&mut self, ticket: Ticket) {
        if let Some(cq) = self.completion[usize::from(ticket.cqid)].as_mut() {
            cq.ring.give_back(ticket.permit);
        }
        self.admin.park(ticket.cid);
    }

    /// The ticket of a parked admin command, if its completion queue has a place now.
    pub(crate) fn resume(&mut self, doorbells: &Doorbells, cid: u16) -> Option<Ticket> {
        let cq = self.completion[0].as_mut()?;
        let rings = self.capsules.is_none();
        let Some(permit) = cq.permit(|| rings.then(|| doorbells.load(DoorbellIndex::completion(0)))) else {
            cq.blocks = true;
            self.blocked = true;
            return None;
        };
        Some(Ticket { sqid: 0, cid, cqid: 0, permit })
    }

    /// Posts every completion whose time has come.
    #[inline]
    pub(crate) fn post_due(&mut self, port: &mut Port<'_>, now_ps: u64) {
        if !self.completions.due.is_empty() {
            self.post_waiting(port, now_ps);
        }
    }

    #[inline(never)]
    fn post_waiting(&mut self, port: &mut Port<'_>, now_ps: u64) {
        while let Some((ticket, entry)) = self.completions.pop_due(now_ps) {
            self.post(port, ticket, entry);
            if !self.habits.coalesce_interrupts {
                self.announce(port, now_ps);
            }
        }
    }

    /// Posts at once what waits of submission queue `sqid`: the queue is being deleted.
    pub(crate) fn post_all_of(&mut self, port: &mut Port<'_>, sqid: u16) {
        for due in self.completions.take_queue(sqid) {
            self.post(port, due.ticket, due.entry);
        }
    }

    // Always: an entry that stays in registers is stored at once, where one in memory waits for the stores of its
    // fields.
    #[inline(always)]
    fn post(&mut self, port: &mut Port<'_>, ticket: Ticket, entry: Completion) {
        if let Some(sq) = self.submission[usize::from(ticket.sqid)].as_mut() {
            sq.told_head = entry.sqhd;
        }
        if self.capsules.is_some() {
            return self.post_to_owner(ticket, entry);
        }
        let Some(cq) = self.completion[usize::from(ticket.cqid)].as_mut() else { return };
        let place = cq.ring.post(ticket.permit);
        let entry = entry.with_phase(place.phase);
        let at = cq.slot(place.index);
        // A completion queue the host has unmapped has nobody who reads it, or who is to be told.
        if port.memory.store_completion(at, &entry.to_bytes()).is_err() {
            return self.fail();
        }
        self.unannounced.insert(ticket.cqid);
    }

    /// Raises one interrupt for each completion queue that has new entries. Where interrupts are coalesced, one waits
    /// for completions that are about to come.
    #[inline]
    pub(crate) fn announce(&mut self, port: &mut Port<'_>, now_ps: u64) {
        let soon_ps = if self.habits.coalesce_interrupts { now_ps.saturating_add(AGGREGATION_PS) } else { 0 };
        let mut later = QueueSet::default();
        while let Some(cqid) = self.unannounced.take_first() {
            if self.completions.is_due_until(cqid, soon_ps) {
                later.insert(cqid);
                continue;
            }
            let vector = self.completion[usize::from(cqid)].as_ref().and_then(|cq| cq.vector);
            if let Some(vector) = vector.filter(|vector| !self.registers.is_masked(*vector)) {
                port.meter.interrupt();
                port.interrupts.raise(vector);
            }
        }
        self.unannounced = later;
    }
}
