//! Commands that end, or are given up, and connections that end.

use std::collections::VecDeque;
use std::time::Instant;

use byway_core::{Error, ErrorKind, Retry};
use byway_spec::{Completion, Status};

use super::table::{Slot, State, Table};
use super::{Connection, Ended, LARGE_BYTES, Lost, Order};

/// On how many connections a command is tried.
const TRIES_MAX: u8 = 3;

impl Connection {
    /// Gives a command a time until which it may take.
    pub fn set_until(&mut self, cid: u16, until: Instant) {
        // A fused command may have failed already: the controller has a depth of 1 (`send_deferred`).
        if let Some(slot) = self.table.get_mut(cid).filter(|slot| slot.state != State::Free) {
            slot.until = Some(until);
        }
    }

    /// The earliest of these times.
    pub fn first_until(&self) -> Option<Instant> {
        self.table.first_until()
    }

    /// The command, or the call, with this tag.
    pub fn find(&self, tag: u64, is_call: bool) -> Option<u16> {
        let is = |order: &Order| order.tag == tag && order.is_call == is_call;
        self.table.find(|slot| slot.order.as_ref().is_some_and(is))
    }

    /// Whether a command that has this tag has ended and was not taken yet.
    pub fn has_ended_with(&self, tag: u64) -> bool {
        self.ended.iter().any(|ended| ended.tag == tag && !ended.is_call)
    }

    /// A command whose time is over, if there is one.
    pub fn overdue(&self, now: Instant) -> Option<u16> {
        self.table.find(|slot| slot.until.is_some_and(|until| until <= now))
    }

    /// Whether the command has not ended.
    pub fn is_outstanding(&self, cid: u16) -> bool {
        self.table.get(cid).is_some_and(|slot| slot.state != State::Free)
    }

    /// Whether the command was given up before.
    pub fn is_given_up(&self, cid: u16) -> bool {
        self.table.get(cid).is_some_and(|slot| slot.given_up.is_some())
    }

    /// Gives a command up. Says whether an Abort has to be sent; else it has ended.
    pub fn give_up(&mut self, cid: u16, kind: ErrorKind, until: Option<Instant>) -> bool {
        let Some(slot) = self.table.get_mut(cid) else { return false };
        if slot.state == State::Kept {
            let said = match kind {
                ErrorKind::TimedOut => "its time was over before it was sent",
                _ => "it was taken back before it was sent",
            };
            self.deferred.retain(|deferred| *deferred != cid);
            self.end(cid, Err(Error::host(kind, said)), None);
            return false;
        }
        (slot.given_up, slot.until, slot.is_named) = (Some(kind), until, true);
        true
    }

    /// No Abort on its way names the command any more: its identifier can be another's once it has ended.
    pub fn unname(&mut self, cid: u16) {
        match self.table.get_mut(cid) {
            Some(slot) if slot.state != State::Free => slot.is_named = false,
            _ => self.table.restore(cid),
        }
    }

    /// The connection has ended, for this reason. What may be sent again waits for another; the rest has failed.
    pub fn interrupt(&mut self, why: &str) {
        self.is_open = false;
        self.deferred.clear();
        for cid in self.table.in_turn() {
            self.interrupt_one(cid, why);
        }
        self.outbox.clear();
        (self.arriving, self.large) = (None, 0);
    }

    fn interrupt_one(&mut self, cid: u16, why: &str) {
        let Some(slot) = self.table.get_mut(cid) else { return };
        let lost = match slot.state {
            State::Queued { at } if self.outbox.has_sent(at) => Lost::Unanswered,
            State::Kept if !self.gives_back => return,
            _ => Lost::Unsent,
        };
        if let Some(answer) = slot.answer.take() {
            return self.end(cid, Ok(answer), None);
        }
        if let Some(kind) = slot.given_up {
            let said = format!("it was given up, and the connection ended before an answer came: {why}");
            return self.end(cid, Err(Error::device(kind, said)), Some(lost));
        }
        let repeats = slot.order.as_ref().is_some_and(|order| order.repeats);
        let can_be_sent = lost == Lost::Unsent && !slot.is_spent;
        if !self.gives_back && (can_be_sent || (repeats && slot.tries < TRIES_MAX)) {
            slot.state = State::Kept;
            (slot.unsent, slot.is_corrupt, slot.inbound, slot.outbound) = (0, false, None, None);
            return;
        }
        let said = format!("the connection ended before the command was answered: {why}");
        let error = Error::device(ErrorKind::DeviceLost, said).with_retry(Retry::Once);
        self.end(cid, Err(error), Some(lost));
    }

    /// Goes on with the commands that wait, on another connection, with as many at once, and as much in-capsule data, as its
    /// controller takes.
    pub fn resume(&mut self, other: Self) {
        self.agreed = other.agreed;
        self.depth = other.depth;
        self.capsule_data_bytes = other.capsule_data_bytes;
        self.reader = other.reader;
        self.writer = other.writer;
        self.is_open = true;
        self.deferred = self.table.in_turn().into();
        self.send_deferred();
    }

    /// There will be no other connection: what waits has failed.
    pub fn abandon(&mut self, why: &str) {
        self.interrupt(why);
        for cid in self.table.in_turn() {
            self.end(cid, Err(Error::device(ErrorKind::DeviceLost, why.to_owned())), Some(Lost::Unsent));
        }
    }

    pub(super) fn end(&mut self, cid: u16, result: Result<Completion, Error>, lost: Option<Lost>) {
        end(&mut self.table, &mut self.ended, &mut self.large, cid, result, lost);
    }
}

impl Slot {
    /// Data came that is not what its digest is of, or less of it than the command reads.
    fn wrong(&self) -> Option<Error> {
        if self.is_corrupt {
            return Some(Error::status(Status::TRANSIENT_TRANSPORT_ERROR));
        }
        let (order, inbound) = (self.order.as_ref()?, self.inbound.as_ref()?);
        let (came, wanted) = (inbound.received_bytes() as usize, self.memory.len());
        (order.is_whole && came < wanted).then(|| {
            let said = format!("the controller answered with success and {came} of {wanted} bytes");
            Error::device(ErrorKind::Protocol, said)
        })
    }
}

/// Ends a command: its place is free, unless an Abort that is on its way names it.
pub(super) fn end(
    table: &mut Table,
    ended: &mut VecDeque<Ended>,
    large: &mut u32,
    cid: u16,
    result: Result<Completion, Error>,
    lost: Option<Lost>,
) {
    let is_named = table.get(cid).is_some_and(|slot| slot.is_named);
    let slot = table.release(cid, is_named);
    let was_large = slot.inbound.is_some() && slot.memory.len() >= LARGE_BYTES;
    *large = large.saturating_sub(u32::from(was_large));
    let wrong = match &result {
        Ok(completion) if completion.status().is_success() => slot.wrong(),
        _ => None,
    };
    let result = wrong.map_or(result, Err);
    let result = match (slot.given_up, result) {
        (Some(kind), Ok(completion)) if !completion.status().is_success() => {
            Err(given_up(kind).with_source(Error::status(completion.status())))
        }
        (_, result) => result,
    };
    let (tag, is_call) = slot.order.map_or((0, false), |order| (order.tag, order.is_call));
    ended.push_back(Ended { tag, is_call, memory: slot.memory, result, lost, commands: 1 });
}

#[cold]
fn given_up(kind: ErrorKind) -> Error {
    let said = match kind {
        ErrorKind::TimedOut => "not done within the time that it was given",
        _ => "it was taken back",
    };
    Error::device(kind, said)
}
