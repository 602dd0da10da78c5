//! Completing commands that external engines execute.
//!
//! The owner of the device takes finished commands from the engines ([`Subsystem::next_done`]) and gives each to the
//! controller that its command came over ([`Controller::complete_external`]).

use std::collections::HashSet;

use byway_queue::Doorbells;
use byway_spec::Status;

use super::Controller;
use super::finish::DeferredCompletion;
use crate::error::CommandError;
use crate::external::Outstanding;
use crate::outcome::{Done, ExternalCommand, ExternalWork};
use crate::payload::{HostData, Mapped};
use crate::port::Port;
use crate::subsystem::Subsystem;

impl Controller {
    /// Completes a command that an external engine has finished. If its queue is gone, only its slot is released.
    pub fn complete_external(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        done: Done,
    ) {
        let Done { work, result, text, at_ps, .. } = done;
        let Some(Outstanding { ticket, at, mut mapped }) = self.external.remove(work) else {
            return subsystem.abandon_external(self.id, work);
        };
        let qid = ticket.sqid;
        let timing = DeferredCompletion { begun_ps: port.meter.cursor_ps(), reads_end_ps: at_ps };
        let at = ExternalCommand { reply: subsystem.reply_of(&at), ..at };
        let result = result.map(|answer| self.answer_of(work, answer));
        if result.is_err() {
            self.forget_plan_of(work);
        }
        self.open_reply(doorbells, &ticket, at.reply);
        let result = result
            .and_then(|answer| self.hand_over(subsystem, port, at, mapped.as_deref_mut()).map(|()| answer));
        let has_data = result.is_ok() && at.reply.room_bytes > 0 && mapped.is_none();
        self.external.reuse(mapped);
        let status = result.as_ref().map_or_else(|error| error.status, |_| Status::SUCCESS);
        subsystem.count_external(work, status);
        match result {
            Ok(words) if self.room.result.len_bytes() > 0 => {
                self.complete_deferred_with_result(port, ticket, words, timing);
            }
            result => {
                let answer = result.map_err(|error| (self.admin.log_error(&ticket, &error, text), error.dw0));
                self.complete_deferred(port, ticket, answer, timing);
            }
        }
        self.room.result.close();
        if !self.note_reply(qid, at, has_data) {
            subsystem.release_external(work);
        }
    }

    /// The answer of a command, as the command that waits for it has it.
    fn answer_of(&mut self, work: ExternalWork, answer: [u32; 2]) -> [u32; 2] {
        match work {
            ExternalWork::Query(id) => self.answer_of_plan(id, answer),
            ExternalWork::Engine { .. } | ExternalWork::Program(_) => answer,
        }
    }

    /// Forgets the plan of a query, if a command waited for one.
    fn forget_plan_of(&mut self, work: ExternalWork) {
        if let ExternalWork::Query(id) = work {
            self.plans.forget_query(id);
        }
    }

    /// Copies what a command read to its host: behind the completion, or to its buffer in mapped memory, if it has one.
    fn hand_over(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        at: ExternalCommand,
        mapped: Option<&mut Mapped>,
    ) -> Result<(), CommandError> {
        let Some(mapped) = mapped else { return Ok(()) };
        mapped.len_bytes = mapped.len_bytes.min(at.reply.data_bytes as usize);
        let data = subsystem.external_memory(at.work);
        let data = data.and_then(|data| data.get(..at.reply.data_bytes as usize)).ok_or(GONE)?;
        if let Some(result) = self.room.result.take(data.len()) {
            result.extend_from_slice(data);
            return Ok(());
        }
        let mut sink = HostData::Mapped(mapped).sink(&mut self.room.stage)?;
        sink.put(port, data)?;
        sink.finish(port)
    }

    /// Aborts command `cid` of queue `sqid`, if an external engine has it and has not started it; whether it did.
    pub(super) fn abort_external(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (sqid, cid): (u16, u16),
    ) -> bool {
        let Some(work) = self.external.find(sqid, cid) else { return false };
        if !subsystem.cancel_external(self.id, work) {
            return false;
        }
        let Some(Outstanding { ticket, at, mapped }) = self.external.remove(work) else {
            return false;
        };
        self.external.reuse(mapped);
        self.forget_plan_of(work);
        subsystem.count_external(work, Status::ABORT_REQUESTED);
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        self.note_reply(sqid, at, false);
        subsystem.release_external(work);
        true
    }

    /// Submission queue `sqid` is being deleted: whether its commands were executed is unknown.
    pub(super) fn abort_external_of(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, sqid: u16) {
        let commands = self.external.take_queue(sqid);
        self.end_works(subsystem, commands.iter().map(|command| command.at.work));
        for command in commands {
            self.complete(port, command.ticket, Status::ABORTED_SQ_DELETION, 0, 0);
        }
    }

    /// The connection of queue `sqid` has ended: its commands are dropped.
    pub(super) fn drop_external_of(&mut self, subsystem: &mut Subsystem, sqid: u16) {
        let commands = self.external.take_queue(sqid);
        self.end_works(subsystem, commands.iter().map(|command| command.at.work));
    }

    /// All queues are gone: their commands are dropped.
    pub(super) fn drop_all_external(&mut self, subsystem: &mut Subsystem) {
        let works = self.external.take_all();
        self.end_works(subsystem, works.into_iter());
    }

    /// Ends the queries and the programs that dropped commands wait for, and forgets the queries' plans. An engine's command goes on, and its
    /// slot is released once it has finished.
    fn end_works(&mut self, subsystem: &mut Subsystem, works: impl Iterator<Item = ExternalWork>) {
        let mut programs = HashSet::new();
        for work in works {
            self.forget_plan_of(work);
            match work {
                ExternalWork::Engine { .. } => {}
                ExternalWork::Query(_) => subsystem.abandon_external(self.id, work),
                ExternalWork::Program(id) => _ = programs.insert(id),
            }
        }
        subsystem.abandon_programs(self.id, &programs);
    }

    /// Namespace `nsid` is gone with its engine: its commands fail, and so do completions whose data was not taken.
    pub fn fail_external(&mut self, port: &mut Port<'_>, nsid: u32) {
        for command in self.external.take_namespace(nsid) {
            let qid = command.ticket.sqid;
            self.complete_error(port, command.ticket, &GONE);
            self.note_reply(qid, command.at, false);
        }
        self.capsules.iter_mut().for_each(|capsules| capsules.fail_data_of(nsid, &GONE));
    }

    fn note_reply(&mut self, qid: u16, at: ExternalCommand, has_data: bool) -> bool {
        self.capsules.as_mut().is_some_and(|capsules| capsules.note_reply(qid, at, has_data))
    }
}

const GONE: CommandError =
    CommandError::new(Status::NAMESPACE_NOT_READY, "the namespace is not exported any more");
