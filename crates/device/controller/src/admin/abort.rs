//! Abort (Base 2.1, section 5.1.1).
//!
//! A fetched command runs to its end at once, so what can be aborted is what waits: an event request, a command to an
//! exported namespace that its engine has done nothing of, and over fabrics one whose data, or the command that it is fused
//! with, is still to come. What waits for a sync was executed. In a ring, a command whose inline payload is still coming is
//! left to complete: taking it out would leave chunks that could be read as commands.

use byway_queue::Doorbells;
use byway_spec::base::admin::AbortCdw10;
use byway_spec::{Command, Status};

use super::event::REQUEST;
use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::subsystem::Subsystem;

/// Abort commands that may be outstanding, zero-based (Identify Controller ACL): each is done at once.
pub(super) const LIMIT_Z: u8 = 3;

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
        if self.submission.get(usize::from(cdw10.sqid())).is_none_or(Option::is_none) {
            return Err(CommandError::invalid_field("no such submission queue").at_byte(40));
        }
        let (sqid, cid) = (cdw10.sqid(), cdw10.cid());
        let is_aborted = self.abort_awaited(subsystem, port, (sqid, cid))
            || match sqid {
                0 => self.abort_request(subsystem, port, doorbells, cid),
                _ => self.abort_elsewhere(subsystem, port, (sqid, cid)),
            };
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
        if !self.admin.events.waits(cid) {
            return false;
        }
        let Some(ticket) = self.resume(doorbells, cid) else { return false };
        self.admin.events.forget(cid);
        subsystem.count_answered(REQUEST, Status::ABORT_REQUESTED);
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        true
    }
}
