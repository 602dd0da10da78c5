//! Commands that were executed and complete only once the image is synced: Flush always, and whatever changes data
//! where an acknowledgement is to survive real power loss.
//!
//! Whoever owns the device syncs it for all of them at once: [`Controller::begin_sync`] says which commands a sync
//! that begins now covers, [`Controller::end_sync`] completes those. In between the device may run: what it executes
//! meanwhile waits for the next sync, and what needs none completes as always.

use byway_flash::{FinishedSync, PendingSync};
use byway_link::{Class, Work};
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::{Completion, Status};

use crate::completion::Ticket;
use crate::controller::{Controller, QueueSet};
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::subsystem::Subsystem;

/// Commands whose completion is held back.
#[derive(Debug, Default)]
pub struct Held {
    /// No sync that covers them was begun yet.
    waiting: Vec<HeldCommand>,
    /// The sync under way covers them.
    covered: Vec<HeldCommand>,
}

#[derive(Debug)]
struct HeldCommand {
    ticket: Ticket,
    entry: Completion,
    /// When the completion would have been due, by modelled time.
    due_ps: u64,
}

impl Held {
    /// Whether no command waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.covered.is_empty()
    }

    /// Forgets everything: controller reset.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.covered.clear();
    }

    /// Forgets every command of queue `sqid`.
    pub fn forget_queue(&mut self, sqid: u16) {
        self.take_queue(sqid);
    }

    /// Takes every command of queue `sqid`.
    fn take_queue(&mut self, sqid: u16) -> Vec<HeldCommand> {
        let mut taken = Vec::new();
        for commands in [&mut self.covered, &mut self.waiting] {
            taken.extend(commands.extract_if(.., |held| held.ticket.sqid == sqid));
        }
        taken
    }
}

impl Controller {
    /// Whether commands wait for a sync that nobody has begun.
    #[inline]
    pub fn wants_sync(&self) -> bool {
        !self.held.waiting.is_empty()
    }

    /// Whether a command of queue `sqid` waits for a sync that nobody has begun.
    pub fn waits_for_sync(&self, sqid: u16) -> bool {
        self.held.waiting.iter().any(|held| held.ticket.sqid == sqid)
    }

    /// Queues of which commands wait for a sync that nobody has begun.
    pub fn queues_that_wait(&self) -> usize {
        let mut queues = QueueSet::default();
        self.held.waiting.iter().for_each(|held| queues.insert(held.ticket.sqid));
        queues.len()
    }

    /// Begins a sync for every command that waits for one; `None` if none does. One sync at a time.
    pub fn begin_sync(&mut self, subsystem: &mut Subsystem) -> Option<PendingSync> {
        self.cover().then(|| subsystem.begin_sync())
    }

    /// Says that a sync which begins now covers the commands that wait for one; whether any does.
    pub fn cover(&mut self) -> bool {
        let any = self.wants_sync();
        self.held.covered.append(&mut self.held.waiting);
        any
    }

    /// Ends a sync: completes the commands that it covers. If it failed they fail, and the subsystem can only be read
    /// from then on.
    pub fn end_sync(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        sync: FinishedSync,
        now_ps: u64,
    ) {
        let synced = subsystem.end_sync(sync);
        self.end_cover(port, &synced, now_ps);
    }

    /// Completes the commands that a sync covered which several controllers have had, as `synced` says how it ended.
    pub fn end_cover(&mut self, port: &mut Port<'_>, synced: &Result<(), CommandError>, now_ps: u64) {
        let mut covered = std::mem::take(&mut self.held.covered);
        for held in covered.drain(..) {
            let result = synced.clone().map_err(|error| self.log_error(&held.ticket, &error));
            self.release(port, held, result);
        }
        // The vector keeps its room.
        self.held.covered = covered;
        self.announce(port, now_ps);
    }

    /// Syncs for the commands that wait, at once and with the device in hand: for owners that do nothing meanwhile.
    pub fn sync_now(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, now_ps: u64) {
        if let Some(sync) = self.begin_sync(subsystem) {
            self.end_sync(subsystem, port, sync.wait(), now_ps);
        }
    }

    /// Sets a command aside until the image is synced. Its completion crosses the link now, by modelled time, which
    /// knows no disk below the flash.
    #[cold]
    pub(crate) fn hold(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        result: Result<Outcome, CommandError>,
    ) {
        port.meter.work(Work::Completion);
        port.meter.posted_write(Class::Completion, COMPLETION_BYTES as u64);
        let (status, dw0, dw1) = match result {
            Ok(Outcome::Done { dw0, dw1 }) => (Status::SUCCESS, dw0, dw1),
            Ok(_) => (Status::SUCCESS, 0, 0),
            Err(error) => (self.log_error(&ticket, &error), error.dw0, 0),
        };
        let entry = self.entry(&ticket, status, dw0, dw1);
        self.held.waiting.push(HeldCommand { ticket, entry, due_ps: port.meter.arrived_ps() });
    }

    fn release(&mut self, port: &mut Port<'_>, held: HeldCommand, synced: Result<(), Status>) {
        let HeldCommand { ticket, mut entry, due_ps } = held;
        if let Err(status) = synced
            && entry.status().is_success()
        {
            entry = Completion::new(entry.sqid, entry.sqhd, entry.cid, status);
        }
        entry.sqhd = self.newest_head(&ticket, entry.sqhd);
        self.deliver(port, ticket, entry, due_ps);
    }

    /// Commands that were fetched later may have told a newer head since; none may tell an older one.
    fn newest_head(&self, ticket: &Ticket, head: u16) -> u16 {
        let sq = self.submission.get(usize::from(ticket.sqid)).and_then(Option::as_ref);
        sq.map_or(head, |sq| sq.newer(head, sq.told_head))
    }

    /// The queue is being deleted: its commands were executed, and nobody can say that they are durable.
    pub(crate) fn abort_held_of(&mut self, port: &mut Port<'_>, sqid: u16) {
        for held in self.held.take_queue(sqid) {
            self.release(port, held, Err(Status::ABORTED_SQ_DELETION));
        }
    }
}
