//! Commands that came over a fabric and cannot be executed yet: their data is still to come, or the command that they are
//! fused with. Until whoever has their connection claims them, they can be aborted.
//!
//! A command is claimed or aborted, whichever comes first with the device in hand: it has one completion either way.

use std::collections::VecDeque;

use byway_spec::{Command, Status};

use crate::controller::Controller;
use crate::counting::Typed;
use crate::port::Port;
use crate::subsystem::Subsystem;

/// A command that waits.
#[derive(Debug)]
pub(crate) struct Awaited {
    cid: u16,
    typed: Typed,
}

impl Controller {
    /// A command of queue `qid` came, and waits.
    pub fn expect(&mut self, qid: u16, command: &Command) {
        if let Some(commands) = self.awaited(qid) {
            commands.push_back(Awaited { cid: command.cid(), typed: Typed::of(qid, command) });
        }
    }

    /// Command `cid` of queue `qid` waits no more: whether it is to be executed. Else it was aborted, and its completion is
    /// [posted](Self::take_posted).
    pub fn claim(&mut self, qid: u16, cid: u16) -> bool {
        self.take_awaited(qid, cid).is_some()
    }

    /// Aborts command `cid` of queue `qid`, if it waits; whether it did.
    pub(crate) fn abort_awaited(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (qid, cid): (u16, u16),
    ) -> bool {
        let Some(Awaited { typed, .. }) = self.take_awaited(qid, cid) else { return false };
        // It counted among the commands of its queue, so that there is a place for its completion.
        let Some(ticket) = self.take_ticket(qid, cid) else { return false };
        subsystem.count_answered(typed, Status::ABORT_REQUESTED);
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        true
    }

    fn awaited(&mut self, qid: u16) -> Option<&mut VecDeque<Awaited>> {
        self.capsules.as_mut()?.awaited.get_mut(usize::from(qid))
    }

    /// The oldest of that identifier, where a host uses one for several commands at once.
    fn take_awaited(&mut self, qid: u16, cid: u16) -> Option<Awaited> {
        let commands = self.awaited(qid)?;
        let at = commands.iter().position(|awaited| awaited.cid == cid)?;
        commands.remove(at)
    }
}
