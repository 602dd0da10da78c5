//! Results that stand in the completion queue behind their completions (decision 0095).

use byway_queue::{DoorbellIndex, Doorbells, ResultPermit};
use byway_spec::vendor::{INLINE_RESULT, VendorOpcode, inline_result_max_bytes, result_entries};
use byway_spec::{Command, Completion, Status};

use super::Controller;
use crate::error::CommandError;
use crate::inline_result::{KeptResult, bytes_in};
use crate::namespace::Namespace;
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
        if self.admin.transfers().inline_read() && inline_result_max_bytes(command) > 0 {
            self.look_for_room(subsystem, doorbells, ticket, command);
        }
    }

    #[inline(never)]
    fn look_for_room(
        &mut self,
        subsystem: &Subsystem,
        doorbells: &Doorbells,
        ticket: &Ticket,
        command: &Command,
    ) {
        // Opcodes 02h and 06h are other commands in other sets.
        let is_query = command.opcode() == VendorOpcode::QUERY_RESULTS.0;
        if !is_query && !matches!(subsystem.namespace(command.nsid), Some(Namespace::Kv(_))) {
            return;
        }
        let max_bytes = inline_result_max_bytes(command).min(self.result_max_bytes);
        let is_shadowed = self.admin.has_shadow_doorbells();
        let head = || (!is_shadowed).then(|| doorbells.load(DoorbellIndex::completion(ticket.cqid)));
        let entries = self.queues.room_for_result(ticket, result_entries(max_bytes) as u32, head);
        self.room.result.open(max_bytes.min(bytes_in(entries)));
    }

    /// Completes a command whose result stands behind its completion.
    #[inline(never)]
    pub(super) fn complete_with_result(&mut self, port: &mut Port<'_>, ticket: Ticket, dw0: u32, dw1: u32) {
        let bytes = self.room.result.take_bytes();
        match self.queues.permit_result(&ticket, result_entries(bytes.len()) as u32) {
            Some(permit) => {
                let entry = self.queues.entry(&ticket, Status::SUCCESS, dw0, dw1 | INLINE_RESULT);
                self.deliver_with_result(port, ticket, entry, (permit, &bytes));
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
    ) {
        let before = self.completions.entries_of(ticket.cqid);
        if let Some(cq) = self.queues.completion(ticket.cqid) {
            cq.meter_with_result(port, before, bytes.len(), permit.entries());
        }
        if port.meter.is_timing() {
            let kept = KeptResult { permit, bytes: bytes.into() };
            self.completions.push(port.meter.arrived_ps(), ticket, entry, Some(kept));
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
