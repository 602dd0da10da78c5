//! Commands past their deadline: aborted on the device, and finished by its answer alone.
//!
//! A queue without deadlines pays a look at a count where completions are handed over, and nothing in synchronous calls.

use std::time::{Duration, Instant};

use byway_core::{AdminCommand, Error, ErrorKind, Failed, Outcome, RawData, Result};
use byway_spec::Command as Entry;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};

use crate::admin::Ticket;
use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::table::OpIndex;

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
    /// It has passed, and an Abort was sent.
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

    /// The operation's deadline has passed, and an Abort was sent.
    fn set_aborted(&mut self, op: OpIndex) {
        if let Some(limit) = self.limits.get_mut(op.index()) {
            *limit = Limit::Over;
        }
    }

    /// The first operation whose deadline has passed at `now` and for which no Abort was sent.
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

    /// How long a sleep of at most `timeout` may last.
    pub(crate) fn within(&self, timeout: Duration) -> Duration {
        self.left().map_or(timeout, |left| timeout.min(left))
    }
}

/// What a program gets for an operation whose time is over. What the device did all the same is done.
#[cold]
pub(crate) fn too_late(result: Result<Outcome, Failed>) -> Result<Outcome, Failed> {
    result.map_err(|failed| {
        let error = Error::device(ErrorKind::TimedOut, "not done within the time that it was given");
        Failed { error: error.with_source(failed.error), ..failed }
    })
}

/// An Abort on its way.
#[derive(Debug)]
pub(crate) struct Abort {
    ticket: Ticket,
    /// The command that it is for.
    cid: u16,
}

impl<B: Bus> Queue<B> {
    /// Asks the device to abort a command. Its identifier names no other command until the device has answered that, as
    /// the Abort would be for that one then.
    ///
    /// # Errors
    /// When the Abort cannot be sent.
    pub(crate) fn abort(&mut self, cid: u16) -> Result<()> {
        let mut entry = Entry::new(AdminOpcode::ABORT.0, 0, 0);
        entry.cdw10 = AbortCdw10::new().with_sqid(self.qid()).with_cid(cid).into_bits();
        // Kept before it is sent: a device that runs in this thread answers both at once.
        self.table.keep_cid(cid);
        let begun = self.device.begin_admin(AdminCommand::raw(entry, RawData::None));
        match begun {
            Ok(ticket) => {
                self.aborts.push(Abort { ticket, cid });
                self.end_aborts()
            }
            Err(refused) => {
                self.table.free_kept_cid(cid);
                Err(refused.error)
            }
        }
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
        let now = Instant::now();
        while let Some(op) = self.deadlines.due(now) {
            let Some(cid) = self.table.cid_of(op) else {
                // Every completion has come; the operation ends as soon as they are looked at.
                self.deadlines.set_aborted(op);
                continue;
            };
            match self.abort(cid) {
                // It is tried again.
                Err(error) if error.kind() == ErrorKind::QueueFull => return Ok(()),
                sent => sent?,
            }
            self.deadlines.set_aborted(op);
        }
        Ok(())
    }

    fn end_aborts(&mut self) -> Result<()> {
        if self.aborts.is_empty() {
            return Ok(());
        }
        let mut admin = self.device.lock_admin();
        admin.look()?;
        let table = &mut self.table;
        self.aborts.retain(|abort| {
            // The command's own completion says whether it was aborted.
            let answered = admin.take(&abort.ticket).is_some();
            if answered {
                table.free_kept_cid(abort.cid);
            }
            !answered
        });
        Ok(())
    }

    /// Abandons the answers to Aborts.
    pub(crate) fn leave_aborts(&mut self) {
        for abort in self.aborts.drain(..) {
            self.device.lock_admin().leave(&abort.ticket);
        }
    }
}
