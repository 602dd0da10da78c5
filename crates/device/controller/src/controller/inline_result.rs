//! Results that stand in the completion queue behind their completions (decision 0095).

use byway_queue::{DoorbellIndex, Doorbells, ResultPermit};
use byway_spec::vendor::{INLINE_RESULT, VendorOpcode, inline_result_max_bytes, result_entries};
use byway_spec::{Command, Completion, Status};

use super::Controller;
use super::finish::DeferredCompletion;
use crate::error::CommandError;
use crate::inline_result::{KeptResult, bytes_in};
use crate::namespace::Namespace;
use crate::outcome::Reply;
use crate::port::Port;
use crate::subsystem::Subsystem;
use crate::ticket::Ticket;

impl Controller {
    /// Lets the result of an I/O command stand behind its completion, as far as its host takes that and there is room.
    #[inline]
    pub(super) fn open_result(
        &mut self,
        subsystem: &Subsystem,
        doorbells: &Doorbells,
        ticket: &Ticket,
        command: &Command,
    ) {
        if self.inline_max_bytes(command) > 0 {
            self.look_for_room(subsystem, doorbells, ticket, command);
        }
    }

    /// Longest result in bytes that the host and the device let stand behind a command's completion; 0 if they let none.
    #[inline]
    pub(super) fn inline_max_bytes(&self, command: &Command) -> u16 {
        let is_enabled = self.admin.transfers().inline_read();
        if is_enabled { inline_result_max_bytes(command).min(self.result_max_bytes) as u16 } else { 0 }
    }

    #[inline(never)]
    fn look_for_room(
        &mut self,
        subsystem: &Subsystem,
        doorbells: &Doorbells,
        ticket: &Ticket,
        command: &Command,
    ) {
        // Opcodes 02h, 06h and 83h are other commands, or none, in other sets.
        let is_query = command.opcode() == VendorOpcode::QUERY_RESULTS.0;
        if !is_query && !matches!(subsystem.namespace(command.nsid), Some(Namespace::Kv(_))) {
            return;
        }
        self.open_room(doorbells, ticket, self.inline_max_bytes(command).into());
    }

    /// Lets the data of a command that has waited stand behind its completion, if all of it has room there.
    pub(super) fn open_reply(&mut self, doorbells: &Doorbells, ticket: &Ticket, reply: Reply) {
        if (1..=reply.inline_max_bytes.into()).contains(&reply.data_bytes) {
            self.open_room(doorbells, ticket, reply.data_bytes as usize);
        }
    }

    /// Lets a result of up to `max_bytes` stand behind a completion, as far as there is room.
    fn open_room(&mut self, doorbells: &Doorbells, ticket: &Ticket, max_bytes: usize) {
        let is_shadowed = self.admin.has_shadow_doorbells();
        let head = || (!is_shadowed).then(|| doorbells.load(DoorbellIndex::completion(ticket.cqid)));
        let entries = self.queues.room_for_result(ticket, result_entries(max_bytes) as u32, head);
        self.room.result.open(max_bytes.min(bytes_in(entries)));
    }

    /// Completes a command whose result stands behind its completion.
    #[inline]
    pub(super) fn complete_with_result(&mut self, port: &mut Port<'_>, ticket: Ticket, dw0: u32, dw1: u32) {
        self.complete_deferred_with_result(port, ticket, [dw0, dw1], DeferredCompletion::default());
    }

    /// The same, due once flash reads have ended, as [`complete_deferred`](Self::complete_deferred) does it.
    #[inline(never)]
    pub(super) fn complete_deferred_with_result(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        [dw0, dw1]: [u32; 2],
        timing: DeferredCompletion,
    ) {
        let bytes = self.room.result.take_bytes();
        match self.queues.permit_result(&ticket, result_entries(bytes.len()) as u32) {
            Some(permit) => {
                let entry = self.queues.entry(&ticket, Status::SUCCESS, dw0, dw1 | INLINE_RESULT);
                self.deliver_with_result(port, ticket, entry, (permit, &bytes), timing);
            }
            None => self.complete_error(port, ticket, &NO_ROOM),
        }
        self.room.result.reuse(bytes);
    }

    fn deliver_with_result(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        entry: Completion,
        (permit, bytes): (ResultPermit, &[u8]),
        timing: DeferredCompletion,
    ) {
        let before = self.completions.entries_of(ticket.cqid);
        if let Some(cq) = self.queues.completion(ticket.cqid) {
            cq.meter_with_result(port, before, bytes.len(), permit.entries());
        }
        if port.meter.is_timing() {
            let kept = KeptResult { permit, bytes: bytes.into() };
            self.completions.push(timing.due_ps(port), ticket, entry, Some(kept));
        } else {
            self.post_with_result(port, ticket, entry, (permit, bytes));
        }
    }

    /// Posts a completion with the result behind it.
    pub(super) fn post_with_result(
        &mut self,
        port: &mut Port<'_>,
        ticket: Ticket,
        entry: Completion,
        result: (ResultPermit, &[u8]),
    ) {
        self.queues.note_reported_head(ticket.sqid, entry.sqhd);
        let cqid = ticket.cqid;
        let posted = self.queues.post_with_result(port, ticket, entry, result);
        self.note_posted(cqid, posted);
    }
}

const NO_ROOM: CommandError =
    CommandError::new(Status::INTERNAL_ERROR, "the room for a result behind its completion is gone");
