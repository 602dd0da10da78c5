//! Commands that other engines have, until those have done them.
//!
//! Each keeps its place in the completion queue. Whoever serves the device hands out what engines have done
//! ([`Subsystem::next_done`]) and gives each to the controller that its command came over
//! ([`Controller::end_elsewhere`]). A queue or a controller that goes meanwhile forgets its commands: what comes of
//! them then is thrown away.

use std::collections::HashMap;

use byway_spec::Status;

use crate::completion::Ticket;
use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::engine::Place;
use crate::namespace::{Done, Elsewhere};
use crate::payload::{HostData, Mapped};
use crate::port::Port;
use crate::subsystem::Subsystem;

/// Commands of one controller that other engines have.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    commands: HashMap<(u32, Place), ParkedCommand>,
    /// Lists that the next commands note their hosts' memory in.
    #[expect(clippy::vec_box, reason = "each moves as a pointer from one command to the next")]
    spare: Vec<Box<Mapped>>,
}

#[derive(Debug)]
struct ParkedCommand {
    ticket: Ticket,
    at: Elsewhere,
    /// Where its host takes what it reads, if that lies in memory.
    mapped: Option<Box<Mapped>>,
}

impl Parked {
    /// Forgets everything: controller reset.
    pub fn clear(&mut self) {
        self.commands.clear();
    }

    /// Forgets every command of queue `sqid`.
    pub fn forget_queue(&mut self, sqid: u16) {
        self.commands.retain(|_, parked| parked.ticket.sqid != sqid);
    }

    /// Takes the commands that `belongs` says, in no order.
    fn take_all(&mut self, belongs: impl Fn(&ParkedCommand) -> bool) -> Vec<ParkedCommand> {
        self.commands.extract_if(|_, parked| belongs(parked)).map(|(_, parked)| parked).collect()
    }
}

impl Controller {
    /// Keeps the place of a command that was begun in another engine.
    pub(crate) fn park_elsewhere(&mut self, ticket: Ticket, at: Elsewhere) {
        let takes_in_memory = at.reply.data_bytes > 0 && self.capsules.is_none();
        let mapped = takes_in_memory.then(|| {
            let mut mapped = self.elsewhere.spare.pop().unwrap_or_default();
            std::mem::swap(&mut *mapped, &mut self.room.mapped);
            mapped
        });
        self.elsewhere.commands.insert((at.nsid, at.place), ParkedCommand { ticket, at, mapped });
    }

    /// Completes a command that an engine has done, if somebody waits for it still.
    pub fn end_elsewhere(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, done: Done) {
        let Done { nsid, place, result, .. } = done;
        let Some(parked) = self.elsewhere.commands.remove(&(nsid, place)) else {
            return subsystem.release_elsewhere(nsid, place);
        };
        let ParkedCommand { ticket, at, mapped } = parked;
        let qid = ticket.sqid;
        let result = result.and_then(|()| self.hand_over(subsystem, port, at, mapped.as_deref()));
        let has_data = result.is_ok() && at.reply.data_bytes > 0 && mapped.is_none();
        self.elsewhere.spare.extend(mapped);
        if let Some(counting) = &mut subsystem.counting {
            let status = result.as_ref().map_or_else(|error| error.status, |()| Status::SUCCESS);
            counting.end_elsewhere(nsid, place, status);
        }
        match result {
            Ok(()) => self.complete(port, ticket, Status::SUCCESS, 0, 0),
            Err(error) => self.end_with(port, ticket, &error),
        }
        if !self.note_reply(qid, at, has_data) {
            subsystem.release_elsewhere(nsid, place);
        }
    }

    /// Gives a host what its command read, where it takes it in memory.
    fn hand_over(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        at: Elsewhere,
        mapped: Option<&Mapped>,
    ) -> Result<(), CommandError> {
        let Some(mapped) = mapped else { return Ok(()) };
        let data = subsystem.memory_elsewhere(at.nsid, at.place);
        let data = data.and_then(|data| data.get(..at.reply.data_bytes as usize)).ok_or(GONE)?;
        let mut sink = HostData::Mapped(mapped).sink(&mut self.room.stage)?;
        sink.put(port, data)?;
        sink.finish(port)
    }

    fn end_with(&mut self, port: &mut Port<'_>, ticket: Ticket, error: &CommandError) {
        let status = self.log_error(&ticket, error);
        self.complete(port, ticket, status, error.dw0, 0);
    }

    /// Aborts the command `cid` of queue `sqid`, if an engine has it and has done nothing of it; whether it did.
    pub(crate) fn abort_elsewhere(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (sqid, cid): (u16, u16),
    ) -> bool {
        let is_meant = |parked: &ParkedCommand| (parked.ticket.sqid, parked.ticket.cid) == (sqid, cid);
        let found = self.elsewhere.commands.iter().find(|(_, parked)| is_meant(parked));
        let Some((nsid, place)) = found.map(|(at, _)| *at) else { return false };
        if !subsystem.cancel_elsewhere(nsid, place) {
            return false;
        }
        let Some(ParkedCommand { ticket, at, mapped }) = self.elsewhere.commands.remove(&(nsid, place))
        else {
            return false;
        };
        self.elsewhere.spare.extend(mapped);
        if let Some(counting) = &mut subsystem.counting {
            counting.end_elsewhere(nsid, place, Status::ABORT_REQUESTED);
        }
        self.complete(port, ticket, Status::ABORT_REQUESTED, 0, 0);
        self.note_reply(sqid, at, false);
        subsystem.release_elsewhere(nsid, place);
        true
    }

    /// The queue is being deleted: nobody can say what became of its commands.
    pub(crate) fn abort_elsewhere_of(&mut self, port: &mut Port<'_>, sqid: u16) {
        for parked in self.elsewhere.take_all(|parked| parked.ticket.sqid == sqid) {
            self.complete(port, parked.ticket, Status::ABORTED_SQ_DELETION, 0, 0);
        }
    }

    /// Namespace `nsid` is gone with its engine: its commands fail, those among them whose data nobody has taken.
    pub fn lose_elsewhere(&mut self, port: &mut Port<'_>, nsid: u32) {
        for parked in self.elsewhere.take_all(|parked| parked.at.nsid == nsid) {
            let qid = parked.ticket.sqid;
            self.end_with(port, parked.ticket, &GONE);
            self.note_reply(qid, parked.at, false);
        }
        self.lose_posted(nsid, &GONE);
    }
}

const GONE: CommandError =
    CommandError::new(Status::NAMESPACE_NOT_READY, "the namespace is not exported any more");
