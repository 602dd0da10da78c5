//! From a command's result to its completion and interrupt.

use byway_dma::DmaFault;
use byway_link::{Class, Work};
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::{Completion, Status};

use super::Controller;
use crate::completion::Due;
use crate::counting::{Executed, Typed};
use crate::error::CommandError;
use crate::fused::FusedCommand;
use crate::group_commit::Uncommitted;
use crate::inline_result::KeptResult;
use crate::outcome::Outcome;
use crate::port::{CapsuleData, Port};
use crate::subsystem::Subsystem;
use crate::ticket::Ticket;

/// The result of a command.
pub(super) type Answer = Result<Outcome, CommandError>;

/// Timing of a completion whose flash reads end later, in modelled time, than the controller builds it. The link and firmware cost is charged
/// when the completion is built; the completion is due that much after the reads end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeferredCompletion {
    /// Modelled time (ps) at which the controller begins to build it.
    pub begun_ps: u64,
    /// Modelled time (ps) at which the flash reads end.
    pub reads_end_ps: u64,
}

impl DeferredCompletion {
    /// Modelled time (ps) at which the completion reaches the host.
    pub fn due_ps(self, port: &Port<'_>) -> u64 {
        let sent_ps = port.meter.arrived_ps();
        let due_ps = self.reads_end_ps.saturating_add(sent_ps.saturating_sub(self.begun_ps));
        sent_ps.max(due_ps)
    }
}

impl Controller {
    /// Ends a command. Its completion is written now, at its modelled time, or, where it `changes` data that must be
    /// durable first, when the image is synced.
    #[inline]
    pub(super) fn finish(&mut self, port: &mut Port<'_>, ticket: Ticket, result: Answer, changes: bool) {
        match result {
            Ok(Outcome::Done { dw0, dw1 }) if !changes => {
                self.complete(port, ticket, Status::SUCCESS, dw0, dw1)
            }
            result => self.finish_otherwise(port, ticket, result, changes),
        }
    }

    #[inline(never)]
    fn finish_otherwise(&mut self, port: &mut Port<'_>, ticket: Ticket, result: Answer, changes: bool) {
        match result {
            Ok(Outcome::Later) => {
                self.queues.give_back(ticket.cqid, ticket.permit);
                self.admin.keep_request(ticket.cid);
            }
            Ok(Outcome::External(at)) => {
                let reads_to_memory = at.reply.data_bytes > 0 && self.capsules.is_none();
                self.external.insert(ticket, at, reads_to_memory.then_some(&mut self.room.mapped));
            }
            // A command that failed after it changed something has a result in DW0.
            Err(error) if !(changes && error.dw0 != 0) => self.complete_error(port, ticket, &error),
            result => self.commit(port, ticket, result),
        }
    }

    /// Keeps a command until the image is synced. Its completion crosses the link now by modelled time, which has no
    /// disk below the flash.
    #[cold]
    fn commit(&mut self, port: &mut Port<'_>, ticket: Ticket, result: Answer) {
        port.meter.work(Work::Completion);
        port.meter.posted_write(Class::Completion, COMPLETION_BYTES as u64);
        let (status, dw0, dw1) = match result {
            Ok(Outcome::Done { dw0, dw1 }) => (Status::SUCCESS, dw0, dw1),
            Ok(_) => (Status::SUCCESS, 0, 0),
            Err(error) => (self.admin.log_error(&ticket, &error, None), error.dw0, 0),
        };
        let entry = self.queues.entry(&ticket, status, dw0, dw1);
        self.group_commit.push(Uncommitted { ticket, entry, due_ps: port.meter.arrived_ps() });
    }

    /// Completes a command that failed, and logs its error.
    pub(super) fn complete_error(&mut self, port: &mut Port<'_>, ticket: Ticket, error: &CommandError) {
        let status = self.admin.log_error(&ticket, error, None);
        self.complete(port, ticket, status, error.dw0, 0);
    }

    /// Writes a completion for `ticket`.
    #[inline]
    pub(super) fn complete(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        status: Status,
        dw0: u32,
        dw1: u32,
    ) {
        port.meter.work(Work::Completion);
        port.meter.posted_write(Class::Completion, COMPLETION_BYTES as u64);
        let entry = self.queues.entry(&ticket, status, dw0, dw1);
        self.deliver(port, ticket, entry, port.meter.arrived_ps());
    }

    /// Writes a completion that is due once flash reads have ended, by `timing`.
    pub(super) fn complete_deferred(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        answer: Result<[u32; 2], (Status, u32)>,
        timing: DeferredCompletion,
    ) {
        let (status, [dw0, dw1]) = match answer {
            Ok(words) => (Status::SUCCESS, words),
            Err((status, dw0)) => (status, [dw0, 0]),
        };
        port.meter.work(Work::Completion);
        port.meter.posted_write(Class::Completion, COMPLETION_BYTES as u64);
        let entry = self.queues.entry(&ticket, status, dw0, dw1);
        self.deliver(port, ticket, entry, timing.due_ps(port));
    }

    /// Posts a completion, or keeps it until `due_ps` where time is modelled.
    #[inline]
    pub(super) fn deliver(&mut self, port: &mut Port<'_>, ticket: Ticket, entry: Completion, due_ps: u64) {
        if port.meter.is_timing() {
            self.completions.push(due_ps, ticket, entry, None);
        } else {
            self.post(port, ticket, entry);
        }
    }

    /// Posts every completion whose time has come.
    #[inline]
    pub(super) fn post_due(&mut self, port: &mut Port<'_>, now_ps: u64) {
        if !self.completions.is_empty() {
            self.post_waiting(port, now_ps);
        }
    }

    #[inline(never)]
    fn post_waiting(&mut self, port: &mut Port<'_>, now_ps: u64) {
        while let Some(due) = self.completions.pop_due(now_ps) {
            self.post_kept(port, due);
            self.announce_each(port, now_ps);
        }
    }

    /// Posts the waiting completions of submission queue `sqid` at once: the queue is being deleted.
    pub(super) fn post_all_of(&mut self, port: &mut Port<'_>, sqid: u16) {
        for due in self.completions.take_queue(sqid) {
            self.post_kept(port, due);
        }
    }

    /// Posts a completion that has waited for its time.
    fn post_kept(&mut self, port: &mut Port<'_>, due: Due) {
        match due.result {
            None => self.post(port, due.ticket, due.entry),
            Some(KeptResult { permit, bytes }) => {
                self.post_with_result(port, due.ticket, due.entry, (permit, &bytes));
            }
        }
    }

    #[inline(always)]
    fn post(&mut self, port: &mut Port<'_>, ticket: Ticket, entry: Completion) {
        self.queues.note_reported_head(ticket.sqid, entry.sqhd);
        if let Some(capsules) = &mut self.capsules {
            capsules.post(ticket.sqid, entry);
            return self.queues.post_to_owner(ticket);
        }
        let cqid = ticket.cqid;
        let posted = self.queues.post(port, ticket, entry);
        self.note_posted(cqid, posted);
    }

    #[inline]
    pub(super) fn note_posted(&mut self, cqid: u16, posted: Result<bool, DmaFault>) {
        match posted {
            Ok(true) => self.completions.note_posted(cqid),
            Ok(false) => {}
            // The host has unmapped the completion queue: no interrupt could say anything.
            Err(_) => self.fail(),
        }
    }

    /// Raises the interrupts for posted completions.
    #[inline]
    pub(super) fn announce(&mut self, port: &mut Port<'_>, now_ps: u64) {
        self.completions.announce(port, &self.queues, &self.registers, now_ps);
    }

    /// The same after each command, where interrupts are not coalesced.
    #[inline]
    pub(super) fn announce_each(&mut self, port: &mut Port<'_>, now_ps: u64) {
        if self.completions.announces_each() {
            self.announce(port, now_ps);
        }
    }

    /// Counts an executed command: for SMART, and by its type if metrics are on. Its data moved in its capsule, behind it
    /// in its ring, or through its data pointer.
    #[inline]
    pub(super) fn count(
        &self,
        subsystem: &mut Subsystem,
        port: &Port<'_>,
        typed: Typed,
        inline_bytes: Option<usize>,
        (result, changes): (&Answer, bool),
    ) {
        let ring_bytes = || self.room.mapped.len_bytes + self.room.result.len_bytes();
        let moved = || port.capsule.as_ref().map_or_else(ring_bytes, CapsuleData::moved_bytes);
        let bytes = match result {
            // The engine has not read it yet.
            Ok(Outcome::External(at)) if at.reply.data_bytes > 0 => at.reply.data_bytes as usize,
            _ => inline_bytes.unwrap_or_else(moved),
        };
        subsystem.count(&Executed { typed, result, changes, bytes });
    }

    /// The same of two fused commands.
    pub(super) fn count_pair(
        &self,
        subsystem: &mut Subsystem,
        port: &Port<'_>,
        qid: u16,
        pair: [FusedCommand<'_>; 2],
        (results, changes): ([&Answer; 2], bool),
    ) {
        // The first only compares.
        for (half, result, changes) in [(pair[0], results[0], false), (pair[1], results[1], changes)] {
            let carried = half.carried.map(<[u8]>::len);
            self.count(subsystem, port, Typed::of(qid, half.command), carried, (result, changes));
        }
    }
}
