//! Completions on their way to the host: posted at once with the clock off, at their modelled time otherwise; and the
//! interrupts for those that were posted.
//!
//! A command holds a permit for its completion slot from the moment it is fetched, so posting never fails for want
//! of room and each command is completed exactly once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use byway_spec::Completion;

use crate::inline_result::KeptResult;
use crate::port::Port;
use crate::queue::{QueueSet, Queues};
use crate::register::Registers;
use crate::ticket::Ticket;

/// A coalesced interrupt waits for a completion that is due within this time: the unit that hosts set the aggregation
/// time in (Base 2.1, Interrupt Coalescing feature).
const AGGREGATION_PS: u64 = 100_000_000;

/// Completions that wait for their modelled time, and queues with posted completions that no interrupt has announced.
#[derive(Debug)]
pub(crate) struct Completions {
    due: BinaryHeap<Reverse<Due>>,
    sequence: u64,
    /// Queues with posted completions that no interrupt has announced: the first, and the others.
    first_unannounced: Option<u16>,
    unannounced: QueueSet,
    /// One interrupt announces several completions (profile).
    coalesces: bool,
}

/// A completion and the modelled time at which it is due.
#[derive(Debug)]
pub(crate) struct Due {
    due_ps: u64,
    sequence: u64,
    pub ticket: Ticket,
    pub entry: Completion,
    /// The result that stands behind it, if one does.
    pub result: Option<KeptResult>,
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
    /// None; `coalesces` says whether one interrupt announces several.
    pub fn new(coalesces: bool) -> Self {
        Self {
            due: BinaryHeap::new(),
            sequence: 0,
            first_unannounced: None,
            unannounced: QueueSet::default(),
            coalesces,
        }
    }

    /// Drops everything: controller reset.
    pub fn clear(&mut self) {
        self.due.clear();
        self.first_unannounced = None;
        self.unannounced = QueueSet::default();
    }

    /// Whether each completion is announced by an interrupt of its own.
    #[inline]
    pub fn announces_each(&self) -> bool {
        !self.coalesces
    }

    /// Whether no completion waits for its time.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the earliest waiting completion is due.
    #[inline]
    pub fn next_due_ps(&self) -> Option<u64> {
        self.due.peek().map(|Reverse(due)| due.due_ps)
    }

    /// Keeps a completion until `due_ps`.
    pub fn push(&mut self, due_ps: u64, ticket: Ticket, entry: Completion, result: Option<KeptResult>) {
        self.sequence += 1;
        self.due.push(Reverse(Due { due_ps, sequence: self.sequence, ticket, entry, result }));
    }

    /// Entries that waiting completions of queue `cqid` take, with the results behind them.
    pub fn entries_of(&self, cqid: u16) -> u32 {
        let its = self.due.iter().filter(|Reverse(due)| due.ticket.cqid == cqid);
        its.map(|Reverse(due)| 1 + due.result.as_ref().map_or(0, |result| result.permit.entries())).sum()
    }

    /// Takes the waiting completions of submission queue `sqid`, in the order they are due.
    pub fn take_queue(&mut self, sqid: u16) -> Vec<Due> {
        let all = std::mem::take(&mut self.due).into_sorted_vec();
        let (mine, others): (Vec<_>, Vec<_>) =
            all.into_iter().rev().partition(|Reverse(due)| due.ticket.sqid == sqid);
        self.due = others.into();
        mine.into_iter().map(|Reverse(due)| due).collect()
    }

    /// Takes the earliest completion, if it is due by `now_ps`.
    #[inline]
    pub fn pop_due(&mut self, now_ps: u64) -> Option<Due> {
        if self.next_due_ps()? > now_ps {
            return None;
        }
        self.due.pop().map(|Reverse(due)| due)
    }

    /// A completion was written to queue `cqid`.
    #[inline]
    pub fn note_posted(&mut self, cqid: u16) {
        if *self.first_unannounced.get_or_insert(cqid) != cqid {
            self.unannounced.insert(cqid);
        }
    }

    /// Raises one interrupt for each completion queue that has new entries. A coalesced interrupt waits while another
    /// completion of its queue is due soon.
    #[inline]
    pub fn announce(&mut self, port: &mut Port<'_>, queues: &Queues, registers: &Registers, now_ps: u64) {
        let Some(first) = self.first_unannounced.take() else { return };
        if self.unannounced.is_empty() && self.due.is_empty() {
            return raise(first, port, queues, registers);
        }
        self.unannounced.insert(first);
        self.announce_several(port, queues, registers, now_ps);
    }

    #[inline(never)]
    fn announce_several(&mut self, port: &mut Port<'_>, queues: &Queues, registers: &Registers, now_ps: u64) {
        let soon_ps = if self.coalesces { now_ps.saturating_add(AGGREGATION_PS) } else { 0 };
        let mut later = QueueSet::default();
        while let Some(cqid) = self.unannounced.take_first() {
            if self.is_due_until(cqid, soon_ps) {
                later.insert(cqid);
            } else {
                raise(cqid, port, queues, registers);
            }
        }
        self.first_unannounced = later.take_first();
        self.unannounced = later;
    }

    /// Whether a completion for queue `cqid` is due until `until_ps`.
    fn is_due_until(&self, cqid: u16, until_ps: u64) -> bool {
        self.due.iter().any(|Reverse(due)| due.ticket.cqid == cqid && due.due_ps <= until_ps)
    }
}

/// Raises the interrupt of queue `cqid`, if it has one that is not masked.
#[inline]
fn raise(cqid: u16, port: &mut Port<'_>, queues: &Queues, registers: &Registers) {
    let vector = queues.completion(cqid).and_then(|cq| cq.vector);
    if let Some(vector) = vector.filter(|vector| !registers.is_masked(*vector)) {
        port.meter.interrupt();
        port.interrupts.raise(vector);
    }
}
