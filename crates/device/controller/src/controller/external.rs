//! Completing commands that external engines execute.
//!
//! The owner of the device takes finished commands from the engines ([`Subsystem::next_done`]) and gives each to the
//! controller that its command came over ([`Controller::complete_external`]).

use byway_spec::Status;

use super::Controller;
use crate::error::CommandError;
use crate::external::Outstanding;
use crate::namespace::engine::Place;
use crate::outcome::{Done, ExternalCommand, PROGRAMS, QUERIES};
use crate::payload::{HostData, Mapped};
use crate::port::Port;
use crate::query::QueryId;
use crate::subsystem::Subsystem;

impl Controller {
    /// Completes a command that an external engine has finished. If its queue is gone, only its slot is released.
    pub fn complete_external(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, done: Done) {
        let Done { nsid, place, result, text, .. } = done;
        let Some(Outstanding { ticket, at, mapped }) = self.external.remove(nsid, place) else {
            return subsystem.abandon_external(nsid, place);
        };
        let qid = ticket.sqid;
        let result = result.map(|answer| self.answer_of(nsid, place, answer));
        if result.is_err() && nsid == QUERIES {
            self.plans.forget_query(QueryId(place.0 as u16));
        }
        let result =
            result.and_then(|answer| self.hand_over(subsystem, port, at, mapped.as_deref()).map(|()| answer));
        let has_data = result.is_ok() && at.reply.data_bytes > 0 && mapped.is_none();
        self.external.reuse(mapped);
        let status = result.as_ref().map_or_else(|error| error.status, |_| Status::SUCCESS);
        subsystem.count_external(nsid, place, status);
        match result {
            Ok([dw0, dw1]) => self.complete(port, ticket, Status::SUCCESS, dw0, dw1),
            Err(error) => self.complete_error_with(port, ticket, &error, text),
        }
        if !self.note_reply(qid, at, has_data) {
            subsystem.release_external(nsid, place);
        }
    }

    /// The answer of a command, as the command that waits for it has it.
    fn answer_of(&mut self, nsid: u32, place: Place, answer: [u32; 2]) -> [u32; 2] {
        match nsid {
            QUERIES => self.answer_of_plan(QueryId(place.0 as u16), answer),
            _ => answer,
        }
    }

    /// Copies what a command read to its host's buffer in mapped memory, if it has one.
    fn hand_over(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        at: ExternalCommand,
        mapped: Option<&Mapped>,
    ) -> Result<(), CommandError> {
        let Some(mapped) = mapped else { return Ok(()) };
        let data = subsystem.external_memory(at.nsid, at.place);
        let data = data.and_then(|data| data.get(..at.reply.data_bytes as usize)).ok_or(GONE)?;
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
        let Some((nsid, place)) = self.external.find(sqid, cid) else { return false };
        if !subsystem.cancel_external(nsid, place) {
            return false;
        }
        let Some(Outstanding { ticket, at, mapped }) = self.external.remove(nsid, place) else {
            return false;
        };
        self.external.reuse(mapped);
        if nsid == QUERIES {
            self.plans.forget_query(QueryId(place.0 as u16));
        }
        subsystem.count_external(nsid, place, Status::ABORT_REQUESTED);
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        self.note_reply(sqid, at, false);
        subsystem.release_external(nsid, place);
        true
    }

    /// Submission queue `sqid` is being deleted: whether its commands were executed is unknown.
    pub(super) fn abort_external_of(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, sqid: u16) {
        for command in self.external.take_queue(sqid) {
            self.end_awaited(subsystem, command.at);
            self.complete(port, command.ticket, Status::ABORTED_SQ_DELETION, 0, 0);
        }
    }

    /// The connection of queue `sqid` has ended: its commands are dropped.
    pub(super) fn drop_external_of(&mut self, subsystem: &mut Subsystem, sqid: u16) {
        for command in self.external.take_queue(sqid) {
            self.end_awaited(subsystem, command.at);
        }
    }

    /// Ends the query or the program that a command waits for, if it waits for one, and forgets the query's plan.
    fn end_awaited(&mut self, subsystem: &mut Subsystem, at: ExternalCommand) {
        if at.nsid == QUERIES {
            self.plans.forget_query(QueryId(at.place.0 as u16));
        }
        if matches!(at.nsid, QUERIES | PROGRAMS) {
            subsystem.abandon_external(at.nsid, at.place);
        }
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
