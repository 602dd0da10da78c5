//! Queues of a backend: submission, completion and cancellation of commands.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_sys::Deadline;

use super::{Failed, Finished, Refused};
use crate::command::{Command, Outcome};
use crate::error::{Error, ErrorKind, Result};

/// A queue of a backend. Its contract is in the text of `backend/mod.rs`.
pub trait BackendQueue: Send {
    /// Takes a command. Its completion carries `tag`. With a `limit`, the command is given up, as by
    /// [`cancel`](Self::cancel), if it has not finished by then; its failure's kind is [`crate::ErrorKind::TimedOut`].
    ///
    /// # Errors
    /// The command is given back when the queue is full or cannot carry it, or cannot give up what it has begun.
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused>;

    /// Takes a command that has no time limit.
    ///
    /// # Errors
    /// As [`submit_within`](Self::submit_within).
    #[inline(always)]
    fn submit(&mut self, command: Command, tag: u64) -> Result<(), Refused> {
        self.submit_within(command, tag, None)
    }

    /// Begins every command that was submitted, for a program that will not look at the queue soon.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn start(&mut self) -> Result<()>;

    /// A descriptor that can be read when finished commands may be there to be taken, for a program's own event loop.
    /// The event loop takes completions until there are none. It stays the queue's.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] for a backend that has none, or the system's answer.
    fn event(&mut self) -> Result<BorrowedFd<'_>>;

    /// Takes commands with their tags, under one doorbell where there are doorbells: the device sees them together, and
    /// what they wait for comes at the same time. Stops at the first that is refused.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); those before the refused command are taken, those behind it stay where they are.
    fn submit_all(&mut self, commands: &mut impl Iterator<Item = (Command, u64)>) -> Result<(), Refused>
    where
        Self: Sized,
    {
        commands.find_map(|(command, tag)| self.submit(command, tag).err()).map_or(Ok(()), Err)
    }

    /// The next finished command, if there is one; never sleeps. A device that runs in the caller's thread does its work
    /// here too, such as syncing its medium.
    ///
    /// # Errors
    /// When the queue itself fails; commands that fail are [`Finished`].
    fn next_finished(&mut self) -> Result<Option<Finished>>;

    /// The next finished command, waited for, at most `timeout`. `None` when the time is over, and at once when no command
    /// is outstanding.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>>;

    /// Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
    ///
    /// # Errors
    /// When no such command is outstanding, or the backend cannot cancel.
    fn cancel(&mut self, tag: u64) -> Result<()>;

    /// Commands submitted whose completion was not taken yet.
    fn outstanding(&self) -> u32;

    /// Most commands outstanding at once.
    fn depth(&self) -> u32;

    /// The error of a command of this queue that was [`Finished`], with what the device has on record of it beyond its
    /// status ("the namespace is full"), where it has: of several that failed alike, the newest. Asks the device and waits
    /// for its answer, which taking completions never does; calls that wait for their command have asked already.
    #[must_use]
    fn explained(&self, error: Error) -> Error {
        error
    }

    /// Sends one command and waits for it. Completions of others stay in the queue.
    ///
    /// # Errors
    /// When the command fails, explained, or is given up after the queue's timeout. Its buffer is then dropped as soon as the
    /// device can no longer touch it.
    fn execute(&mut self, command: Command) -> Result<Outcome>;

    /// Sends one command while no other is outstanding, and waits for it, as long as it takes: an interface that does it in the
    /// call keeps nothing of it. Its memory comes back with its failure too.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while others are outstanding, whose completions would have nowhere to go; when the command fails,
    /// unexplained.
    #[inline(always)]
    fn alone(&mut self, command: Command) -> Result<Outcome, Failed> {
        self.alone_within(command, None)
    }

    /// As [`alone`](Self::alone), of a command that may have a time limit, as in [`submit_within`](Self::submit_within).
    ///
    /// # Errors
    /// As [`alone`](Self::alone); [`ErrorKind::TimedOut`] when it is given up.
    fn alone_within(&mut self, command: Command, limit: Option<Duration>) -> Result<Outcome, Failed> {
        if self.outstanding() > 0 {
            return Err(Refused { command, error: others_are_outstanding() }.into());
        }
        self.submit_within(command, 0, limit)?;
        loop {
            if let Some(finished) = self.next_within(Duration::MAX)? {
                return finished.result;
            }
        }
    }

    /// Hands at most `max` finished commands to `on`; returns how many. Never sleeps.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn poll(&mut self, max: usize, on: &mut impl FnMut(Finished)) -> Result<usize>
    where
        Self: Sized,
    {
        let mut taken = 0;
        while taken < max {
            let Some(finished) = self.next_finished()? else { break };
            on(finished);
            taken += 1;
        }
        Ok(taken)
    }

    /// Hands finished commands to `on` until there were `min` (or none is outstanding), at most for `timeout`;
    /// returns how many.
    ///
    /// # Errors
    /// When the queue itself fails. Running out of time is none.
    fn wait(&mut self, min: usize, timeout: Duration, on: &mut impl FnMut(Finished)) -> Result<usize>
    where
        Self: Sized,
    {
        let mut taken = self.poll(usize::MAX, on)?;
        if taken >= min {
            return Ok(taken);
        }
        let until = Deadline::after(timeout);
        while taken < min && self.outstanding() > 0 {
            let left = until.left_or_max();
            match self.next_within(left)? {
                Some(finished) => {
                    on(finished);
                    taken += 1;
                }
                None if left.is_zero() => break,
                None => {}
            }
            taken += self.poll(usize::MAX, on)?;
        }
        Ok(taken)
    }

    /// Hands finished commands to `on` until none is outstanding; returns how many.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn drain(&mut self, on: &mut impl FnMut(Finished)) -> Result<usize>
    where
        Self: Sized,
    {
        let mut taken = 0;
        while self.outstanding() > 0 {
            taken += self.wait(1, Duration::from_secs(1), on)?;
        }
        Ok(taken)
    }
}

/// For programs that choose a backend at run time. Only for `dyn BackendQueue`: a generic `Box<Q>` would use the default
/// methods instead of `Q`'s own.
impl BackendQueue for Box<dyn BackendQueue> {
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        (**self).submit_within(command, tag, limit)
    }

    fn start(&mut self) -> Result<()> {
        (**self).start()
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        (**self).event()
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        (**self).next_finished()
    }

    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        (**self).next_within(timeout)
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        (**self).cancel(tag)
    }

    fn outstanding(&self) -> u32 {
        (**self).outstanding()
    }

    fn depth(&self) -> u32 {
        (**self).depth()
    }

    fn explained(&self, error: Error) -> Error {
        (**self).explained(error)
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        (**self).execute(command)
    }

    fn alone_within(&mut self, command: Command, limit: Option<Duration>) -> Result<Outcome, Failed> {
        (**self).alone_within(command, limit)
    }
}

/// For a call that would take the completions of others.
#[cold]
#[must_use]
pub fn others_are_outstanding() -> Error {
    let said =
        "commands of this queue are outstanding; a call that waits for one alone needs a queue of its own";
    Error::host(ErrorKind::Busy, said)
}
