//! Abort and Delete I/O Submission Queue (Base 2.1, sections 5.1.1 and 5.2.4): commands that end others.
//!
//! A fetched command runs to its end at once, so only commands that wait can be aborted: an event request, a command that
//! an external engine has not started, and over fabrics a command that awaits data, or the command that it is fused with.
//! A command that awaits durability was executed. In a ring, a command whose inline payload is still coming is left to
//! complete: taking it out would leave chunks that could be read as commands.

use byway_queue::Doorbells;
use byway_spec::base::admin::AbortCdw10;
use byway_spec::{Command, Status};
use tracing::debug;

use super::Controller;
use crate::admin::{NO_SUCH_QUEUE, REQUEST, deleted_queue};
use crate::error::CommandError;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::subsystem::Subsystem;

/// DW0 bit 0 of the completion: the command was not aborted.
const NOT_ABORTED: u32 = 1;

impl Controller {
    pub(super) fn abort(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw10 = AbortCdw10::from_bits(command.cdw10);
        if self.queues.submission(cdw10.sqid()).is_none() {
            return Err(CommandError::invalid_field("no such submission queue").at_byte(40));
        }
        let (sqid, cid) = (cdw10.sqid(), cdw10.cid());
        let is_aborted = self.abort_awaiting_data(subsystem, port, (sqid, cid))
            || match sqid {
                0 => self.abort_request(subsystem, port, doorbells, cid),
                _ => self.abort_external(subsystem, port, (sqid, cid)),
            };
        debug!(controller = self.id.0, sqid, cid, is_aborted, "Abort");
        Ok(Outcome::with(if is_aborted { 0 } else { NOT_ABORTED }))
    }

    /// Aborts the event request `cid`; whether there is one.
    fn abort_request(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        cid: u16,
    ) -> bool {
        if !self.admin.has_request(cid) {
            return false;
        }
        let rings = self.capsules.is_none().then_some(doorbells);
        let Some(ticket) = self.queues.resume(rings, cid) else { return false };
        self.admin.drop_request(cid);
        subsystem.count_unexecuted(REQUEST, Status::ABORT_REQUESTED);
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        true
    }

    /// Aborts command `cid` of queue `qid`, if it awaits data; whether it did.
    fn abort_awaiting_data(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (qid, cid): (u16, u16),
    ) -> bool {
        let awaiting = self.capsules.as_mut().and_then(|capsules| capsules.take_awaiting_data(qid, cid));
        let Some(typed) = awaiting else { return false };
        // It counted among the commands of its queue, so there is a slot for its completion.
        let Some(ticket) = self.queues.take_ticket(qid, cid) else { return false };
        subsystem.count_unexecuted(typed, Status::ABORT_REQUESTED);
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        true
    }

    /// Completes what the queue has executed, and drops what was not fetched.
    pub(super) fn delete_submission_queue(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let qid = deleted_queue(command)?;
        if self.queues.submission(qid).is_none() {
            return Err(NO_SUCH_QUEUE);
        }
        self.post_all_of(port, qid);
        self.abort_uncommitted_of(port, qid);
        self.abort_external_of(subsystem, port, qid);
        self.release_window(subsystem, qid);
        self.queues.delete_submission(qid);
        debug!(controller = self.id.0, qid, "submission queue deleted");
        Ok(Outcome::OK)
    }
}
