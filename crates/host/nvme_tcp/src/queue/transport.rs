//! What carries the commands of a queue.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use byway_core::{Command, Error, ErrorKind, Result};

use crate::connection::{Ended, Order};
use crate::order::CachedLayout;

/// What carries the commands of a queue: a connection to one controller, or one by each path.
pub trait Transport: Send {
    /// Encodes a command as an [`Order`].
    ///
    /// # Errors
    /// When the subsystem cannot be given it.
    fn order(&self, command: &Command, tag: u64, is_call: bool, cached: &mut CachedLayout) -> Result<Order>;

    /// Whether an order can be begun beside the outstanding commands.
    fn has_room(&self, order: &Order) -> bool;

    /// Begins a command for which there is room.
    fn begin(&mut self, order: Order, command: Command, until: Option<Instant>);

    /// Why nothing is carried any more.
    fn lost(&self) -> Option<Error>;

    /// Places that commands take whose end was not taken yet.
    fn held(&self) -> u32;

    /// Commands whose end was not taken yet; two fused commands are one.
    fn outstanding(&self) -> u32;

    /// Sends the gathered commands.
    fn flush(&mut self);

    /// Sends, receives, and does what has become due; says whether anything came. Never blocks.
    fn poll(&mut self) -> bool;

    /// The next command that has ended.
    fn next_ended(&mut self) -> Option<Ended>;

    /// Whether a command with this tag has ended and was not taken yet.
    fn has_ended_with(&self, tag: u64) -> bool;

    /// Gives up the command, or the call, with this tag; says whether there is one.
    fn give_up(&mut self, tag: u64, is_call: bool, kind: ErrorKind) -> bool;

    /// Sleeps until something may have come, at most so long.
    ///
    /// # Errors
    /// The system's answer.
    fn park(&mut self, timeout: Duration) -> Result<()>;

    /// The event descriptor of the queue, once it was created.
    fn event(&self) -> Option<BorrowedFd<'_>>;

    /// Creates the event descriptor.
    ///
    /// # Errors
    /// The system's answer.
    fn open_event(&mut self) -> io::Result<()>;

    /// Clears the notifiers: only later events signal them again.
    fn clear_notifier(&self);

    /// Makes the event descriptor readable at the next event, or now when the queue `is_ready`.
    fn arm(&mut self, is_ready: bool);
}
