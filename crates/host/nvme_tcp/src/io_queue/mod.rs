//! An I/O queue of a controller: a connection of its own.

mod aborts;
mod event_descriptor;
mod pairs;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{Command, Error, ErrorKind, Payload, Result};
use rustix::event::PollFlags;

use crate::association::{Opened, QueueMessage, Registration};
use crate::connection::{Ended, Order};
use crate::line::Line;
use crate::order::{CachedLayout, order_of_io};
use crate::owner::Owner;
use crate::queue::Transport;
use crate::result::queue_lost;

use aborts::{ABORT_TIME, Aborts};
use event_descriptor::EventDescriptor;
use pairs::Pairs;

/// Most bytes that are gathered before they are sent, unless the queue is polled earlier.
const GATHERED_BYTES_MAX: u64 = 128 << 10;

/// An I/O queue of a controller.
pub struct IoQueue {
    line: Line,
    registration: Arc<Registration>,
    /// Of which connections this is.
    generation: u64,
    pairs: Pairs,
    aborts: Aborts,
    has_deadlines: bool,
    event: Option<EventDescriptor>,
    /// There will be no connection any more: a sentence says why.
    gone: Option<String>,
    depth: u32,
    /// Dropped last: with the last queue, the admin thread closes the association.
    owner: Arc<Owner>,
}

impl IoQueue {
    /// Connects a queue.
    ///
    /// # Errors
    /// When the controller has none left, or cannot be reached.
    pub(crate) fn open(owner: Arc<Owner>, depth: u32) -> Result<Self> {
        let opened = owner.association.open_queue(depth)?;
        Ok(Self::of(owner, opened, depth))
    }

    /// A queue as one path of several: it gives back what its connection ends with, and may wait for its first.
    ///
    /// # Errors
    /// When the controller has none left, or is given up.
    pub(crate) fn for_path(owner: Arc<Owner>, depth: u32) -> Result<Self> {
        let opened = owner.association.open_path_queue(depth)?;
        Ok(Self::of(owner, opened, depth))
    }

    fn of(owner: Arc<Owner>, opened: Opened, depth: u32) -> Self {
        let Opened { registration, line, generation } = opened;
        Self {
            line,
            registration,
            generation,
            pairs: Pairs::default(),
            aborts: Aborts::default(),
            has_deadlines: false,
            event: None,
            gone: None,
            depth,
            owner,
        }
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
    #[inline]
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

    /// Begins a command; gives its data back where there is no room for it.
    ///
    /// # Errors
    /// The data.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        order: Order,
        payload: Payload,
        until: Option<Instant>,
    ) -> Result<(), Payload> {
        if !self.has_room(&order) {
            return Err(payload);
        }
        self.begin_order(order, payload, until)
    }

    #[inline]
    fn begin_order(&mut self, order: Order, payload: Payload, until: Option<Instant>) -> Result<(), Payload> {
        if order.is_pair {
            return self.begin_pair(order, payload, until);
        }
        self.begin_one(order, payload, until)?;
        if self.line.connection.unsent_bytes() > GATHERED_BYTES_MAX {
            self.flush();
        }
        Ok(())
    }

    #[inline]
    fn begin_one(&mut self, order: Order, payload: Payload, until: Option<Instant>) -> Result<(), Payload> {
        let cid = self.line.connection.begin(order, payload)?;
        if let Some(until) = until {
            self.line.connection.set_until(cid, until);
            self.has_deadlines = true;
        }
        Ok(())
    }

    /// Begins two fused commands, for which there is room: nothing comes between them.
    #[cold]
    fn begin_pair(&mut self, order: Order, payload: Payload, until: Option<Instant>) -> Result<(), Payload> {
        for (order, payload) in self.pairs.take(order, payload) {
            self.begin_one(order, payload, until)?;
        }
        Ok(())
    }

    /// The connection has ended: the admin thread reconnects.
    #[cold]
    fn end_connection(&mut self, error: &Error) {
        let why = error.to_string();
        if let Some(event) = &self.event {
            event.remove(&self.line);
        }
        self.line.stream().close();
        self.line.connection.interrupt(&why);
        self.owner.association.report(self.generation, &why);
        self.aborts.forget(&mut self.line.connection);
    }

    /// Takes the message of the admin thread, if there is one.
    #[cold]
    fn take_message(&mut self) {
        match self.registration.take_message() {
            None => self.tend(),
            Some(QueueMessage::Line(line, generation)) => self.go_on(*line, generation),
            Some(QueueMessage::Gone(why)) => {
                self.line.connection.abandon(&why);
                self.gone = Some(why);
            }
        }
    }

    /// Goes on with what waits on another connection.
    fn go_on(&mut self, line: Line, generation: u64) {
        self.generation = generation;
        self.line.channel = line.channel;
        self.line.connection.resume(line.connection);
        if let Some(event) = &mut self.event {
            event.add(&self.line);
        }
        self.flush();
    }

    /// Gives up what has had its time.
    #[cold]
    fn tend(&mut self) {
        let now = Instant::now();
        self.aborts.follow(&mut self.line.connection, now);
        while let Some(cid) = self.line.connection.overdue(now) {
            if self.line.connection.is_given_up(cid) {
                let said = "the controller neither did nor aborted a command";
                return self.end_connection(&Error::device(ErrorKind::TimedOut, said));
            }
            self.give_up_command(cid, ErrorKind::TimedOut);
        }
        self.has_deadlines = self.line.connection.first_until().is_some();
    }

    /// Has an Abort sent for a command, once.
    fn give_up_command(&mut self, cid: u16, kind: ErrorKind) {
        if self.line.connection.is_given_up(cid) {
            return;
        }
        let until = Instant::now() + ABORT_TIME;
        if self.line.connection.give_up(cid, kind, Some(until)) {
            self.has_deadlines = true;
            self.flush();
            let abort = self.owner.association.abort(&self.registration, cid, self.generation);
            self.aborts.add(cid, abort);
        }
    }
}

impl Transport for IoQueue {
    #[inline]
    fn order(&self, command: &Command, tag: u64, is_call: bool, cached: &mut CachedLayout) -> Result<Order> {
        let association = &self.owner.association;
        let layout = |nsid| cached.of(nsid, &association.layouts, |_| association.layout(nsid));
        order_of_io(command, tag, is_call, &association.facts().capabilities, layout)
    }

    /// Aborts that are on their way may withhold identifiers.
    #[inline]
    fn has_room(&self, order: &Order) -> bool {
        let commands = 1 + u32::from(order.is_pair);
        self.line.connection.outstanding() + commands <= self.depth
            && self.line.connection.has_room(commands as usize)
    }

    #[inline]
    fn begin(&mut self, order: Order, command: Command, until: Option<Instant>) {
        // There is room.
        let _ = self.begin_order(order, command.into_payload(), until);
    }

    #[inline]
    fn lost(&self) -> Option<Error> {
        self.why_gone().map(queue_lost)
    }

    /// Commands that the controller has, or that wait to be taken.
    #[inline]
    fn held(&self) -> u32 {
        self.line.connection.outstanding()
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.line.connection.outstanding() - self.pairs.extra()
    }

    /// Reports an ended connection to the admin thread.
    #[inline]
    fn flush(&mut self) {
        if self.line.has_unsent()
            && self.line.connection.is_open()
            && let Err(error) = self.line.flush()
        {
            self.end_connection(&error);
        }
    }

    #[inline]
    fn poll(&mut self) -> bool {
        self.flush();
        if !self.line.connection.is_open() {
            self.take_message();
            return self.line.connection.has_ended();
        }
        let came = match self.line.receive() {
            Ok(came) => came,
            Err(error) => {
                self.end_connection(&error);
                true
            }
        };
        if self.has_deadlines || !self.aborts.is_empty() {
            self.tend();
        }
        came
    }

    #[inline]
    fn next_ended(&mut self) -> Option<Ended> {
        loop {
            let ended = self.line.connection.next_ended()?;
            if self.pairs.is_empty() {
                return Some(ended);
            }
            if let Some(ended) = self.pairs.join(ended) {
                return Some(ended);
            }
        }
    }

    fn has_ended_with(&self, tag: u64) -> bool {
        self.line.connection.has_ended_with(tag)
    }

    fn give_up(&mut self, tag: u64, is_call: bool, kind: ErrorKind) -> bool {
        if let Some(calls) = self.pairs.find(tag, is_call) {
            for call in calls {
                self.give_up(call, true, kind);
            }
            return true;
        }
        let found = self.line.connection.find(tag, is_call);
        found.into_iter().for_each(|cid| self.give_up_command(cid, kind));
        found.is_some()
    }

    fn park(&mut self, timeout: Duration) -> Result<()> {
        let timeout = self.time_left().map_or(timeout, |left| left.min(timeout));
        let wakeup = self.registration.wakeup();
        let is_called = if self.line.connection.is_open() {
            self.line.wait(Some(wakeup.as_fd()), timeout)?.other
        } else {
            // A socket that has ended can always be read.
            let waited = wakeup.wait(timeout);
            waited.map_err(|cause| Error::kernel("waiting for a connection failed", cause))?
        };
        if is_called {
            wakeup.lower();
        }
        Ok(())
    }

    #[inline]
    fn event(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(EventDescriptor::event)
    }

    fn open_event(&mut self) -> io::Result<()> {
        self.event = Some(EventDescriptor::new(&self.line, self.registration.wakeup())?);
        Ok(())
    }

    fn clear_notifier(&self) {
        self.registration.wakeup().lower();
    }

    fn arm(&mut self, is_ready: bool) {
        let left = self.time_left();
        let Some(event) = &mut self.event else { return };
        event.arm(&self.line, left);
        if is_ready {
            self.registration.wakeup().raise();
        }
    }
}

impl Drop for IoQueue {
    /// What is outstanding is left to the controller: its memory is this process's alone, which no controller can write.
    fn drop(&mut self) {
        if !self.owner.process.is_current() {
            return;
        }
        self.flush();
        self.aborts.withdraw();
        self.owner.association.leave(&self.registration);
    }
}
