//! A queue as one path of several.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{QueueOptions, Result};
use rustix::event::PollFlags;

use super::TcpQueue;
use crate::device::Owner;

impl TcpQueue {
    /// A queue that gives back what its connection ends with, and may wait for its first.
    ///
    /// # Errors
    /// When the controller has none left, or is given up.
    pub(crate) fn for_path(owner: Arc<Owner>, options: QueueOptions) -> Result<Self> {
        let opened = owner.association.open_path_queue(options.depth.commands())?;
        Ok(Self::of(owner, opened, options))
    }

    /// Whether commands can be sent.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.line.connection.is_open()
    }

    /// Of which connections this is.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Why there will be no connection any more, as a sentence.
    pub(crate) fn why_gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// A command's status showed an ANA state that was not reported.
    pub(crate) fn mark_states_stale(&self) {
        self.owner.association.mark_states_stale();
    }

    /// How long until something is due.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let due = self.line.connection.first_until().filter(|_| self.has_deadlines);
        due.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// What is waited for: a socket that has ended can always be read, and is left out.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let flags = if self.line.has_unsent() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let socket = self.is_open().then(|| (self.line.stream().as_fd(), flags));
        socket.into_iter().chain([(self.registration.wakeup().as_fd(), PollFlags::IN)])
    }
}
