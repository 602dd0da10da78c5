//! The ring operations of a command, and its result when one has completed.

use std::io;
use std::time::Duration;

use byway_core::{Buffer, Command, Failed, Memory, Outcome, Refused, Result};
use byway_sys::RangeChange;
use byway_sys::uring::{Completed, Deadline, Ending, Operation};

use crate::request::{Request, dsm_ranges};
use crate::ring::{RingDevice, Step, Ticket, cancelled, timed_out};
use crate::target::{Shape, Target};
use crate::work;

impl RingDevice for Target {
    type Operation = Operation;
    type Request = Request;
    type Known = Shape;

    fn known(&self) -> Shape {
        self.shape()
    }

    #[inline]
    fn request_of(&self, shape: &mut Shape, command: &Command) -> Result<Request> {
        Request::of(command, shape)
    }

    #[inline(always)]
    fn take<T>(
        &self,
        shape: &mut Shape,
        command: Command,
        admit: impl FnOnce(Option<&Buffer>) -> Result<T>,
    ) -> Result<(Request, Memory, T), Refused> {
        Request::take(command, shape, admit)
    }

    #[inline]
    fn given_up_after(&self, request: Request, timeout: Duration) -> (Request, Option<Deadline>) {
        (request, Some(Deadline::after(timeout)))
    }

    #[inline(always)]
    fn first_operation(&self, ticket: &mut Ticket<Request>, memory: &Memory) -> Option<Operation> {
        match ticket.request {
            Request::WriteZeroes { of, free } => {
                let change = if free { RangeChange::ZeroAndFree } else { RangeChange::Zero };
                Some(Operation::Change { at: of.at, len_bytes: of.len, change })
            }
            Request::Deallocate { .. } => next_range(self, ticket, memory),
            other => other.transfer().map(Operation::Transfer),
        }
    }

    #[inline(always)]
    fn step(&self, completed: Completed<Memory, Ticket<Request>>) -> Step<Self> {
        let Completed { held, ticket, ending, .. } = completed;
        match (&ending, ticket.request) {
            (Ending::Done(moved), Request::Read(span) | Request::Write { to: span, .. })
                if *moved as u64 == span.len =>
            {
                Step::Finished(ticket, Ok(work::outcome(held)))
            }
            _ => step_other(self, held, ticket, ending),
        }
    }

    #[inline]
    fn run(&self, request: Request, memory: Memory) -> Result<Outcome, Failed> {
        work::run(self, request, memory)
    }
}

/// The operation for the next range of a Deallocate that has blocks, if there is one.
fn next_range(target: &Target, ticket: &mut Ticket<Request>, memory: &Memory) -> Option<Operation> {
    let Request::Deallocate { ranges } = ticket.request else { return None };
    let left = dsm_ranges(memory.contiguous()?).take(ranges).skip(ticket.parts.into());
    for range in left {
        ticket.parts += 1;
        let span = target.shape().byte_range(range.slba, range.nlb.into()).ok()?;
        if span.len > 0 {
            let change = RangeChange::Free;
            return Some(Operation::Change { at: span.at, len_bytes: span.len, change });
        }
    }
    None
}

#[inline(never)]
fn step_other(target: &Target, held: Memory, mut ticket: Ticket<Request>, ending: Ending) -> Step<Target> {
    let error = match (ending, ticket.request) {
        (Ending::Done(moved), Request::Read(span) | Request::Write { to: span, .. }) => {
            work::ended(target, span.at + moved as u64)
        }
        (Ending::Done(_), _) => {
            return match next_range(target, &mut ticket, &held) {
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
        (Ending::TimedOut, _) => timed_out(),
    };
    Step::Finished(ticket, Err(Failed::with_memory(error, held)))
}
