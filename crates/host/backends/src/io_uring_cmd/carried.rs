//! A command as the ring carries it, and its result.

use std::io;
use std::time::Duration;

use byway_core::moves::Layout;
use byway_core::{Command, Failed, Memory, Outcome, Result};
use byway_link::Method;
use byway_sys::uring::{Completed, Deadline, Ending};
use byway_sys::{KernelMemory, NvmeAnswer, NvmeCommand};

use crate::nvme::{NvmeTarget, Onward, PIECES_MAX, Passage, Passed, outcome};
use crate::ring::{RingDevice, Step, Ticket, cancelled, timed_out};
use crate::synchronous::Synchronous;

const EFAULT: i32 = 14;
const EINVAL: i32 = 22;

/// The layout that a queue looked up last.
#[derive(Debug, Clone, Copy)]
pub struct CachedLayout {
    epoch: u64,
    nsid: u32,
    layout: Layout,
}

impl CachedLayout {
    fn layout<P: Passage>(&mut self, target: &NvmeTarget<P>, nsid: u32) -> Result<Layout> {
        if self.nsid != nsid || self.epoch != target.epoch() {
            let (epoch, layout) = target.layout(nsid)?;
            *self = Self { epoch, nsid, layout };
        }
        Ok(self.layout)
    }
}

impl<P: Passage> RingDevice for NvmeTarget<P> {
    type Operation = NvmeCommand;
    type Request = Passed;
    type Known = CachedLayout;

    /// Nothing yet: no namespace has the number 0.
    fn known(&self) -> CachedLayout {
        CachedLayout { epoch: 0, nsid: 0, layout: Layout::Other }
    }

    #[inline]
    fn request_of(&self, cached: &mut CachedLayout, command: &Command) -> Result<Passed> {
        self.passed(command, |nsid| cached.layout(self, nsid))
    }

    #[inline]
    fn by(&self, request: Passed, method: Method) -> Passed {
        self.by_method(request, method)
    }

    fn given_up_after(&self, request: Passed, timeout: Duration) -> (Passed, Option<Deadline>) {
        (request.within(timeout), None)
    }

    #[inline]
    fn first_operation(&self, ticket: &mut Ticket<Passed>, memory: &Memory) -> Option<NvmeCommand> {
        if ticket.request.pieces.is_some() {
            return Some(ticket.request.first_command(memory));
        }
        (memory.segments() <= PIECES_MAX).then_some(ticket.request.command)
    }

    #[inline]
    fn step(&self, completed: Completed<Memory, Ticket<Passed>>) -> Step<Self> {
        if completed.ticket.request.may_go_on() {
            return step_onward(self, completed);
        }
        let Completed { held, ticket, ending, answer } = completed;
        let result = ended(self, ticket.request, ending, answer, held);
        Step::Finished(ticket, result)
    }

    fn run(&self, request: Passed, memory: Memory) -> Result<Outcome, Failed> {
        self.perform(request, memory)
    }
}

/// How a command goes on that one answer need not end.
#[inline(never)]
fn step_onward<P: Passage>(
    target: &NvmeTarget<P>,
    completed: Completed<Memory, Ticket<Passed>>,
) -> Step<NvmeTarget<P>> {
    let Completed { held, mut ticket, ending, answer } = completed;
    let Ending::Done(status) = ending else {
        return Step::Finished(ticket, ended(target, ticket.request, ending, answer, held));
    };
    let answer = NvmeAnswer { status: status as u16, result: answer };
    match target.onward(&mut ticket.request, answer, &held) {
        Onward::Piece(command) => Step::Next(ticket, held, command),
        Onward::Whole if held.segments() <= PIECES_MAX => Step::Next(ticket, held, ticket.request.command),
        Onward::Whole => Step::Finished(ticket, target.perform(ticket.request, held)),
        Onward::Ended(Ok(answer)) => Step::Finished(ticket, Ok(outcome(answer, held))),
        Onward::Ended(Err(error)) => Step::Finished(ticket, Err(Failed::with_memory(error, held))),
    }
}

/// What came of a command that the ring has given back.
#[inline]
pub(super) fn ended<P: Passage>(
    target: &NvmeTarget<P>,
    passed: Passed,
    ending: Ending,
    answer: u64,
    memory: Memory,
) -> Result<Outcome, Failed> {
    let answered = match ending {
        Ending::Done(status) => passed.answered(NvmeAnswer { status: status as u16, result: answer }),
        Ending::Failed(cause) if is_misread(&cause) => return target.perform(passed, memory),
        Ending::Failed(cause) => Err(passed.not_sent(cause)),
        Ending::Cancelled => Err(cancelled()),
        Ending::TimedOut => Err(timed_out()),
    };
    match answered {
        Ok(answer) => Ok(outcome(answer, memory)),
        Err(error) => Err(Failed::with_memory(error, memory)),
    }
}

/// Whether the kernel may have refused another command than it was given, before it sent anything: a system call shows it. A command for
/// which the driver's queue has no room is begun again by a worker of the kernel's, and some of these misread it: memory is not
/// found where it is (Linux 6.12 and 7.2), the namespace is another one (6.12); fio's commands fare no better.
#[cold]
fn is_misread(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(EFAULT | EINVAL))
}
