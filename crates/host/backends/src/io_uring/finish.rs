//! What a command asks of the ring, and what comes of it when an operation has ended.

use std::io;

use byway_core::{Error, ErrorKind, Failed, Outcome, Payload, Result};
use byway_sys::RangeChange;
use byway_sys::uring::{Completed, Deadline, Ending, Operation};

use crate::request::{Request, dsm_ranges};
use crate::target::Target;
use crate::work;

/// What a queue knows of a command under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    pub tag: u64,
    /// Whether a synchronous call waits for it; then the tag is the call's.
    pub call: bool,
    pub request: Request,
    /// Ranges of a Deallocate that are done or under way.
    pub ranges: u16,
    /// When it is given up.
    pub until: Option<Deadline>,
}

/// How a command goes on when one of its operations has ended.
pub(super) enum Step {
    /// It is done.
    Finished(Ticket, Result<Outcome, Failed>),
    /// It has another operation.
    Next(Ticket, Payload, Operation),
}

impl Ticket {
    /// The first operation that the command asks of a ring; `None` where it asks for none, and [`work::run`] does it.
    #[inline]
    pub(super) fn first_operation(&mut self, target: &Target, memory: &Payload) -> Option<Operation> {
        match self.request {
            Request::WriteZeroes { of, free } => {
                let change = if free { RangeChange::ZeroAndFree } else { RangeChange::Zero };
                Some(Operation::Change { at: of.at, len_bytes: of.len, change })
            }
            Request::Deallocate { .. } => self.next_range(target, memory),
            other => other.transfer().map(Operation::Transfer),
        }
    }

    /// The operation for the next range of a Deallocate that has blocks, if there is one.
    fn next_range(&mut self, target: &Target, memory: &Payload) -> Option<Operation> {
        let Request::Deallocate { ranges } = self.request else { return None };
        let left = dsm_ranges(memory.contiguous()?).take(ranges).skip(self.ranges.into());
        for range in left {
            self.ranges += 1;
            let span = target.shape().byte_range(range.slba, range.nlb.into()).ok()?;
            if span.len > 0 {
                let change = RangeChange::Free;
                return Some(Operation::Change { at: span.at, len_bytes: span.len, change });
            }
        }
        None
    }
}

/// What comes of a command whose operation has ended.
#[inline]
pub(super) fn step(target: &Target, completed: Completed<Payload, Ticket>) -> Step {
    let Completed { held, ticket, ending } = completed;
    match (&ending, ticket.request) {
        (Ending::Done(moved), Request::Read(span) | Request::Write { to: span, .. })
            if *moved as u64 == span.len =>
        {
            Step::Finished(ticket, Ok(work::outcome(held)))
        }
        _ => step_other(target, held, ticket, ending),
    }
}

#[inline(never)]
fn step_other(target: &Target, held: Payload, mut ticket: Ticket, ending: Ending) -> Step {
    let error = match (ending, ticket.request) {
        (Ending::Done(moved), Request::Read(span) | Request::Write { to: span, .. }) => {
            work::ended(target, span.at + moved as u64)
        }
        (Ending::Done(_), _) => {
            return match ticket.next_range(target, &held) {
                Some(operation) => Step::Next(ticket, held, operation),
                None => Step::Finished(ticket, Ok(work::outcome(held))),
            };
        }
        // What the interface cannot do with this file is done by other system calls.
        (Ending::Failed(cause), request) if cause.kind() == io::ErrorKind::Unsupported => {
            return Step::Finished(ticket, work::run(target, request, held));
        }
        (Ending::Failed(cause), request) => work::refused(request, cause),
        (Ending::Cancelled, _) => cancelled(),
        (Ending::TimedOut, _) => Error::host(ErrorKind::TimedOut, "the command was given up after its time"),
    };
    Step::Finished(ticket, Err(Failed::with_memory(error, held)))
}

#[cold]
pub(super) fn cancelled() -> Error {
    Error::host(ErrorKind::Cancelled, "the command was cancelled")
}
