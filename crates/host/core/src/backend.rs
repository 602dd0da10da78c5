//! The boundary between programs and the interfaces by which commands reach a device.
//!
//! **What an implementer must do.** Take a command by value and give its buffer back with its completion, success or
//! not, exactly once. Never free memory that the kernel or a device may still write: a queue that is dropped with
//! commands outstanding waits for them, or leaves their memory allocated for ever. Allocate nothing between `submit`
//! and the completion's delivery. Refuse what it cannot honour at once, with a sentence that says what and why. Spin a little, then
//! sleep: an idle queue burns no core.
//!
//! **What it may rely on.** A queue is used by one thread at a time (`&mut self`), so it needs no locks. Tags are the
//! caller's and mean nothing to it; it does not check that they differ. No other code touches a buffer's memory while a
//! command holds it.
//!
//! **When a command begins.** At the latest with the queue's next [`start`](BackendQueue::start), or the next `next_finished`
//! or `next_within` that has nothing to give: a backend may put commands together until then, so that one system call or
//! doorbell carries many.
//!
//! A user of a backend may submit from wherever a completion is delivered by [`BackendQueue::next_finished`], at full
//! depth: the completion's place is free before it is delivered. This holds for every backend.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_link::Method;
use byway_sys::Deadline;

use crate::admin::AdminCommand;
use crate::buffer::Buffer;
use crate::buffers::Buffers;
use crate::capability::Capabilities;
use crate::command::{Command, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Identity, Namespace};
use crate::memory::Memory;
use crate::prepared::Unprepared;

/// One interface to one open device.
pub trait Backend: Send + Sync {
    /// Its queues.
    type Queue: BackendQueue;

    /// The word for it in URIs and reports: `io_uring`, `psync`, `embedded`.
    fn name(&self) -> &'static str;

    /// Identity of the device.
    fn identity(&self) -> &Identity;

    /// What can be done over this backend.
    fn capabilities(&self) -> &Capabilities;

    /// The namespaces that are attached, asked anew.
    ///
    /// # Errors
    /// When the device does not answer, or not by the specification.
    fn namespaces(&self) -> Result<Vec<Namespace>>;

    /// A buffer of `len` bytes in memory that the backend need not prepare again for each command. What it holds is left
    /// from its last use by this program, or zeroes.
    /// Any other [`Buffer`] is taken as well, at a cost.
    ///
    /// # Errors
    /// When there is no memory, or the device cannot be given access to it.
    fn buffer(&self, len: usize) -> Result<Buffer>;

    /// Prepares memory that a program brought as that of [`Backend::buffer`] is, until the buffer and all that were cut from
    /// it are gone: mapped for the device, or known to the kernel. Commands over a backend that has no use for it are as
    /// quick without.
    ///
    /// # Errors
    /// For memory that does not begin and end at a page, or that the device cannot be given.
    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        Ok(brought)
    }

    /// Opens a queue.
    ///
    /// # Errors
    /// When an option cannot be honoured, or the device has no queue left.
    fn queue(&self, options: QueueOptions) -> Result<Self::Queue>;

    /// Sends an admin command and waits for it.
    ///
    /// # Errors
    /// When the device refuses it or does not answer.
    fn admin(&self, command: AdminCommand) -> Result<Outcome>;
}

/// Most commands that are outstanding at once on a queue, from 1.
///
/// A number converts into [`Depth::Exactly`]: what a program asks for by argument is honoured or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Depth {
    /// At most this depth: less if the device's queues hold fewer commands. For defaults, and for options of URIs.
    UpTo(u32),
    /// Exactly this depth: refused if the device's queues hold fewer commands.
    Exactly(u32),
}

impl Depth {
    /// Of queues whose depth nothing says.
    pub const DEFAULT: Self = Self::UpTo(128);

    /// The number of commands.
    #[must_use]
    pub const fn commands(self) -> u32 {
        match self {
            Self::UpTo(commands) | Self::Exactly(commands) => commands,
        }
    }

    /// The same for a device whose queues hold `most` commands, 0 where that is not known. What was asked for exactly stays,
    /// to be refused.
    #[must_use]
    pub fn capped(self, most: u32) -> Self {
        match self {
            Self::UpTo(commands) if most > 0 => Self::UpTo(commands.min(most)),
            Self::UpTo(_) | Self::Exactly(_) => self,
        }
    }
}

impl From<u32> for Depth {
    fn from(depth: u32) -> Self {
        Self::Exactly(depth)
    }
}

/// How a queue shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueOptions {
    /// Most commands outstanding at once; the queue says what it has ([`BackendQueue::depth`]).
    pub depth: Depth,
    /// Entries of the submission ring; `None` lets the backend choose one that holds `depth` commands.
    pub ring_entries: Option<u32>,
    /// How payloads cross the link.
    pub transfer: Method,
    /// By what `adaptive` chooses.
    pub policy: AdaptivePolicy,
    /// After how long a synchronous call gives a command up.
    pub timeout: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            depth: Depth::DEFAULT,
            ring_entries: None,
            transfer: Method::Prp,
            policy: AdaptivePolicy::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

impl QueueOptions {
    /// The options for a device whose queues hold `most` commands.
    #[must_use]
    pub fn capped(self, most: u32) -> Self {
        Self { depth: self.depth.capped(most), ..self }
    }
}

/// By what the `adaptive` transfer method chooses for a store. Not `non_exhaustive`: the driver has to know every policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdaptivePolicy {
    /// BandSlim's: `below` for values shorter than τ·α bytes, `prp` from there on.
    Threshold {
        /// Value length, in bytes, from which `prp` is as quick as `below`: from calibration.
        tau_bytes: u32,
        /// The program's preference: above 1 for less traffic, below 1 for less latency.
        alpha: f32,
        /// The fine-grained method: `piggyback` or `cxl`.
        below: Method,
    },
    /// The fewest bytes on the wire.
    Bytes,
    /// The shortest modelled time.
    Time,
}

impl Default for AdaptivePolicy {
    /// By bytes: it needs no calibration.
    fn default() -> Self {
        Self::Bytes
    }
}

/// A command that was finished, well or not.
#[derive(Debug)]
pub struct Finished {
    /// The tag it was submitted with.
    pub tag: u64,
    /// What came of it.
    pub result: Result<Outcome, Failed>,
}

/// A command that failed, with the buffers that it had taken.
#[derive(Debug)]
pub struct Failed {
    /// What failed, and by whose word: the host's, the kernel's or the device's.
    pub error: Error,
    /// Its buffer, if it had one and the device can no longer touch it.
    pub buffer: Option<Buffer>,
    /// The buffers of a vectored command.
    pub vector: Buffers,
}

impl Failed {
    /// A failure that gives this memory back.
    #[must_use]
    #[cold]
    pub fn with_memory(error: Error, memory: impl Into<Memory>) -> Self {
        let (buffer, vector) = memory.into().into_buffers();
        Self { error, buffer, vector }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, buffer: None, vector: Buffers::NONE }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// A command that was not taken, given back.
#[derive(Debug)]
pub struct Refused {
    /// The command as it was.
    pub command: Command,
    /// Why. [`crate::ErrorKind::QueueFull`]: take completions, then submit it again.
    pub error: Error,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl From<Refused> for Failed {
    #[cold]
    fn from(Refused { command, error }: Refused) -> Self {
        Self::with_memory(error, command.into_memory())
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

/// A queue of a backend. See the module's text for the contract.
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

/// For programs that choose a queue's type as they run. Not for boxes of any queue: one of a known type would have the calls
/// below that are made of others, and not its own.
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

#[cfg(test)]
mod tests {
    use super::Depth;

    #[test]
    fn depth_up_to_is_capped_and_an_exact_depth_is_not() {
        assert_eq!(Depth::DEFAULT.capped(127), Depth::UpTo(127));
        assert_eq!(Depth::DEFAULT.capped(1000), Depth::UpTo(128));
        assert_eq!(Depth::DEFAULT.capped(0), Depth::UpTo(128));
        assert_eq!(Depth::from(128).capped(127), Depth::Exactly(128));
    }
}
