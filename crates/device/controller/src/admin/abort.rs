//! Abort (Base 2.1, section 5.1.1).
//!
//! A fetched command runs to its end at once, so what can be aborted is an event request. A command whose inline
//! payload is still coming is left to complete: taking it out would leave chunks that could be read as commands.

use byway_queue::Doorbells;
use byway_spec::base::admin::AbortCdw10;
use byway_spec::{Command, Status};

use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;

/// Abort commands that may be outstanding, zero-based (Identify Controller ACL): each is done at once.
pub(super) const LIMIT_Z: u8 = 3;

/// DW0 bit 0 of the completion: the command was not aborted.
const NOT_ABORTED: u32 = 1;

impl Controller {
    pub(super) fn abort(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw10 = AbortCdw10::from_bits(command.cdw10);
        if self.submission.get(usize::from(cdw10.sqid())).is_none_or(Option::is_none) {
            return Err(CommandError::invalid_field("no such submission queue").at_byte(40));
        }
        if cdw10.sqid() != 0 || !self.admin.events.waits(cdw10.cid()) {
            return Ok(Outcome::with(NOT_ABORTED));
        }
        let Some(ticket) = self.resume(doorbells, cdw10.cid()) else { return Ok(Outcome::with(NOT_ABORTED)) };
        self.admin.events.forget(cdw10.cid());
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        Ok(Outcome::OK)
    }
}
