//! What a queue needs of its device, and of its ring.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_core::{
    Buffer, Command, Error, ErrorKind, Failed, KvCommand, Memory, NvmCommand, Outcome, Payload, RawCommand,
    RawData, Refused, Result,
};
use byway_link::Method;
use byway_sys::uring::{Asked, BufferIndex, Completed, Deadline, RegisteredBuffer, Uring};

/// What a queue knows of a command under way.
#[derive(Debug, Clone, Copy)]
pub struct Ticket<R> {
    /// The program's tag, or the number of a synchronous call.
    pub tag: u64,
    /// Whether a synchronous call waits for it.
    pub call: bool,
    /// The command's request.
    pub request: R,
    /// How much of a command of several operations is done or under way.
    pub parts: u16,
    /// When it is given up.
    pub until: Option<Deadline>,
}

/// How a command goes on when one of its operations has ended.
pub enum Step<D: RingDevice> {
    /// It is done.
    Finished(Ticket<D::Request>, Result<Outcome, Failed>),
    /// It has another operation.
    Next(Ticket<D::Request>, Memory, D::Operation),
}

/// A device whose commands a ring carries.
pub trait RingDevice: Send + Sync + Sized + 'static {
    /// What its ring is asked.
    type Operation: Asked;
    /// What a command asks for, without its memory.
    type Request: Copy + Send;
    /// What a queue keeps to check commands by.
    type Known: Send;

    /// What a new queue knows.
    fn known(&self) -> Self::Known;

    /// What `command` asks for.
    ///
    /// # Errors
    /// When it can be refused before anything is done.
    fn request_of(&self, known: &mut Self::Known, command: &Command) -> Result<Self::Request>;

    /// The same for a command that will be done, with its memory, if `admit` has no objection; that is asked first, and
    /// given the command's one buffer.
    ///
    /// # Errors
    /// As [`request_of`](Self::request_of); the command is given back.
    fn take<T>(
        &self,
        known: &mut Self::Known,
        command: Command,
        admit: impl FnOnce(Option<&Buffer>) -> Result<T>,
    ) -> Result<(Self::Request, Memory, T), Refused> {
        let admitted = admit(buffer_of(&command));
        match admitted.and_then(|admitted| Ok((self.request_of(known, &command)?, admitted))) {
            Ok((request, admitted)) => Ok((request, command.into_memory(), admitted)),
            Err(error) => Err(Refused { command, error }),
        }
    }

    /// The same as a queue's transfer method has it go, on a device that has several.
    #[inline]
    fn by(&self, request: Self::Request, _method: Method) -> Self::Request {
        request
    }

    /// The same, given up after `timeout`: by itself, or by the ring at a time.
    fn given_up_after(&self, request: Self::Request, timeout: Duration) -> (Self::Request, Option<Deadline>);

    /// The first operation that a command asks of the ring; `None` where it asks for none, and [`run`](Self::run) does it.
    fn first_operation(&self, ticket: &mut Ticket<Self::Request>, memory: &Memory)
    -> Option<Self::Operation>;

    /// What comes of a command whose operation has ended.
    fn step(&self, completed: Completed<Memory, Ticket<Self::Request>>) -> Step<Self>;

    /// Does a command in the caller's thread.
    ///
    /// # Errors
    /// When it fails; its memory is given back.
    fn run(&self, request: Self::Request, memory: Memory) -> Result<Outcome, Failed>;
}

/// A ring for operations: the kernel's, or its replacement in tests. Each pushed operation completes once.
pub trait Ring<T: Copy, O: Asked>: Send {
    /// Takes an operation, which begins with the next [`start`](Self::start) or [`sleep`](Self::sleep), or the next
    /// [`next_completed`](Self::next_completed) that finds none.
    ///
    /// # Errors
    /// Its memory is given back when there is no place for it.
    fn push(
        &mut self,
        memory: Memory,
        ticket: T,
        operation: O,
        buffer: Option<BufferIndex>,
        until: Option<Deadline>,
    ) -> Result<(), Memory>;

    /// Has the kernel know a buffer.
    ///
    /// # Errors
    /// The system's answer.
    fn register(&mut self, buffer: RegisteredBuffer) -> io::Result<Option<BufferIndex>>;

    /// The next operation that is done, of those whose completions are in the ring.
    fn reap(&mut self) -> Option<Completed<Memory, T>>;

    /// The next operation that is done; begins what was pushed when there is none.
    ///
    /// # Errors
    /// The system's answer.
    fn next_completed(&mut self) -> io::Result<Option<Completed<Memory, T>>>;

    /// Begins what was pushed.
    ///
    /// # Errors
    /// The system's answer.
    fn start(&mut self) -> io::Result<()>;

    /// Begins what was pushed and sleeps until `min` operations are done, at most `timeout`, or for ever.
    ///
    /// # Errors
    /// The system's answer.
    fn sleep(&mut self, min: u32, timeout: Option<Duration>) -> io::Result<()>;

    /// Asks for operations to be given up; says whether there was one.
    ///
    /// # Errors
    /// The system's answer.
    fn cancel(&mut self, is: impl Fn(&T) -> bool) -> io::Result<bool>;

    /// A descriptor that can be read when operations may be done.
    ///
    /// # Errors
    /// The system's answer.
    fn event(&mut self) -> io::Result<BorrowedFd<'_>>;

    /// Makes the descriptor readable.
    fn raise(&self);

    /// Operations under way.
    fn under_way(&self) -> u32;
}

impl<T: Copy + Send, O: Asked> Ring<T, O> for Uring<Memory, T, O> {
    #[inline(always)]
    fn push(
        &mut self,
        memory: Memory,
        ticket: T,
        operation: O,
        buffer: Option<BufferIndex>,
        until: Option<Deadline>,
    ) -> Result<(), Memory> {
        self.push(memory, ticket, operation, buffer, until)
    }

    #[inline]
    fn register(&mut self, buffer: RegisteredBuffer) -> io::Result<Option<BufferIndex>> {
        self.register(buffer)
    }

    #[inline(always)]
    fn reap(&mut self) -> Option<Completed<Memory, T>> {
        self.reap()
    }

    #[inline]
    fn next_completed(&mut self) -> io::Result<Option<Completed<Memory, T>>> {
        self.next_completed()
    }

    #[inline]
    fn start(&mut self) -> io::Result<()> {
        self.start()
    }

    #[inline]
    fn sleep(&mut self, min: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.sleep(min, timeout)
    }

    fn cancel(&mut self, is: impl Fn(&T) -> bool) -> io::Result<bool> {
        self.cancel(is)
    }

    fn event(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.event()
    }

    fn raise(&self) {
        self.raise();
    }

    #[inline]
    fn under_way(&self) -> u32 {
        self.len()
    }
}

impl<D: RingDevice> fmt::Debug for Step<D> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished(ticket, result) => write!(out, "Finished({}, {})", ticket.tag, result.is_ok()),
            Self::Next(ticket, ..) => write!(out, "Next({})", ticket.tag),
        }
    }
}

/// For a command that was cancelled.
#[cold]
pub(crate) fn cancelled() -> Error {
    Error::host(ErrorKind::Cancelled, "the command was cancelled")
}

/// For a command whose time was over.
#[cold]
pub(crate) fn timed_out() -> Error {
    Error::host(ErrorKind::TimedOut, "the command was given up after its time")
}

/// The one buffer of a command that moves data.
#[inline]
pub(super) fn buffer_of(command: &Command) -> Option<&Buffer> {
    match command {
        Command::Nvm(
            NvmCommand::Read { into: buffer, .. } | NvmCommand::Write { data: Payload::Buffer(buffer), .. },
        )
        | Command::Kv(
            KvCommand::Retrieve { into: buffer, .. }
            | KvCommand::List { into: buffer, .. }
            | KvCommand::Store { value: Payload::Buffer(buffer), .. },
        )
        | Command::Raw(RawCommand {
            data: RawData::FromDevice(buffer) | RawData::ToDevice(Payload::Buffer(buffer)),
            ..
        }) => Some(buffer),
        _ => None,
    }
}
