//! Commands past their deadline: aborted on the device, and finished by its answer alone.
//!
//! A queue without deadlines pays a look at a count where completions are handed over, and nothing in synchronous calls.

use std::time::{Duration, Instant};

use byway_core::{Error, ErrorKind, Failed, Outcome, Result};
use tracing::debug;

use crate::admin::{Ticket, abort_of, is_over_abort_limit};
use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::table::OpIndex;

/// How often a sleeping queue looks whether the controller takes an Abort that waits: its I/O interrupt does not say so.
const ABORT_POLL: Duration = Duration::from_millis(10);

/// When the operations of a queue are given up.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// By operation; empty until the first deadline.
    limits: Vec<Limit>,
    /// Operations that have one.
    count: u32,
    /// No deadline that is still to come is earlier.
    next: Option<Instant>,
}

/// Until when an operation may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Limit {
    #[default]
    None,
    At(Instant),
    /// It has passed, and an Abort was sent or waits for its turn.
    Over,
}

impl Deadlines {
    /// Whether any operation has a deadline.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count > 0
    }

    /// Gives an operation of a queue of this depth a deadline.
    #[cold]
    pub(crate) fn set(&mut self, op: OpIndex, timeout: Duration, depth: u32) {
        // A time that no clock will show is none.
        let Some(at) = Instant::now().checked_add(timeout) else { return };
        self.limits.resize(depth as usize, Limit::None);
        let Some(limit) = self.limits.get_mut(op.index()) else { return };
        *limit = Limit::At(at);
        self.count += 1;
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// An operation has ended; says whether its time was over.
    pub(crate) fn end(&mut self, op: OpIndex) -> bool {
        let Some(limit) = self.limits.get_mut(op.index()) else { return false };
        let was = std::mem::take(limit);
        self.count -= u32::from(was != Limit::None);
        was == Limit::Over
    }

    /// The operation's deadline has passed, and an Abort was sent or waits for its turn.
    fn set_aborted(&mut self, op: OpIndex) {
        if let Some(limit) = self.limits.get_mut(op.index()) {
            *limit = Limit::Over;
        }
    }

    /// The first operation whose deadline has passed at `now` and that has no Abort.
    fn due(&mut self, now: Instant) -> Option<OpIndex> {
        if self.next.is_none_or(|next| now < next) {
            return None;
        }
        let at = |limit: &Limit| if let Limit::At(at) = limit { Some(*at) } else { None };
        // What has ended may have been the earliest.
        self.next = self.limits.iter().filter_map(at).min();
        let index = self.limits.iter().position(|limit| at(limit).is_some_and(|at| at <= now))?;
        Some(OpIndex::of(index))
    }

    /// How long until the first is over; `None` where there is none.
    pub(crate) fn left(&self) -> Option<Duration> {
        let next = self.next.filter(|_| self.any())?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

/// Result of an operation past its deadline. If the device completed it nevertheless, it succeeded.
#[cold]
pub(crate) fn too_late(result: Result<Outcome, Failed>) -> Result<Outcome, Failed> {
    result.map_err(|failed| {
        let error = Error::device(ErrorKind::TimedOut, "not done within the time that it was given");
        Failed { error: error.with_source(failed.error), ..failed }
    })
}

/// An Abort that the device has not answered.
#[derive(Debug)]
pub(crate) struct Abort {
    /// `None` while it waits for its turn: the controller takes a few at once (ACL).
    ticket: Option<Ticket>,
    /// The command that it is for.
    cid: u16,
}

impl<B: Bus> Queue<B> {
    /// Has the device abort a command, as soon as it takes another Abort. The command's identifier names no other command
    /// until the device has answered that, as the Abort would be for that one then.
    ///
    /// # Errors
    /// When the Abort cannot be sent.
    pub(crate) fn abort(&mut self, cid: u16) -> Result<()> {
        // Kept before it is sent: a device that runs in this thread answers both at once.
        debug!(bus = self.bus.name(), qid = self.qid(), cid, "command cancelled or past its deadline: Abort");
        self.table.keep_cid(cid);
        self.aborts.push(Abort { ticket: None, cid });
        self.send_aborts()
    }

    /// Aborts commands whose deadline has passed, and releases identifiers of answered Aborts.
    ///
    /// # Errors
    /// When no Abort can be sent.
    #[inline]
    pub(crate) fn tend(&mut self) -> Result<()> {
        if self.deadlines.any() || !self.aborts.is_empty() {
            self.tend_now()?;
        }
        Ok(())
    }

    #[cold]
    fn tend_now(&mut self) -> Result<()> {
        self.end_aborts()?;
        self.send_aborts()?;
        let now = Instant::now();
        while let Some(op) = self.deadlines.due(now) {
            // Without a command in flight the operation ends as soon as its completions are looked at.
            if let Some(cid) = self.table.cid_of(op) {
                self.abort(cid)?;
            }
            self.deadlines.set_aborted(op);
        }
        Ok(())
    }

    /// Sends the Aborts that wait, as many as the controller takes.
    fn send_aborts(&mut self) -> Result<()> {
        while let Some(index) = self.aborts.iter().position(|abort| abort.ticket.is_none()) {
            let cid = self.aborts[index].cid;
            match self.device.begin_admin(abort_of(self.qid(), cid)) {
                Ok(ticket) => self.aborts[index].ticket = Some(ticket),
                Err(refused) if refused.error.kind() == ErrorKind::QueueFull => break,
                Err(refused) => {
                    self.aborts.swap_remove(index);
                    self.table.free_kept_cid(cid);
                    return Err(refused.error);
                }
            }
        }
        self.end_aborts()
    }

    /// Drops answered Aborts, and those that wait though their command has ended.
    fn end_aborts(&mut self) -> Result<()> {
        if self.aborts.is_empty() {
            return Ok(());
        }
        let mut admin = self.device.lock_admin();
        admin.look()?;
        let table = &mut self.table;
        self.aborts.retain_mut(|abort| {
            if let Some(ticket) = &abort.ticket {
                let Some(answer) = admin.take(ticket) else { return true };
                abort.ticket = None;
                // Any other answer ends it: the command's own completion says whether it was aborted.
                if !is_over_abort_limit(&answer) {
                    table.free_kept_cid(abort.cid);
                    return false;
                }
            }
            let has_ended = table.has_completed(abort.cid);
            if has_ended {
                table.free_kept_cid(abort.cid);
            }
            !has_ended
        });
        Ok(())
    }

    /// How long the queue may sleep: until the first deadline, or until an Abort that waits is tried again.
    pub(crate) fn left(&self) -> Option<Duration> {
        let waits = self.aborts.iter().any(|abort| abort.ticket.is_none());
        self.deadlines.left().into_iter().chain(waits.then_some(ABORT_POLL)).min()
    }

    /// Abandons the answers to Aborts.
    pub(crate) fn leave_aborts(&mut self) {
        for ticket in self.aborts.drain(..).filter_map(|abort| abort.ticket) {
            self.device.lock_admin().leave(&ticket);
        }
    }
}
