//! A queue with what its commands hold of Python's: commands in, completions out, memory kept in between.
//!
//! Any thread may use such a queue. Threads take turns; a waiting thread gives its turn up every few milliseconds, and checks
//! for signals of Python (Ctrl-C) between turns.
//!
//! Memory goes back when its completion is taken. A queue that closes waits for that. After the timeout, the queue and
//! all that its commands hold are never freed, because a device may still write there.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway::{Answer, Backend, BackendQueue, Command, Error, ErrorKind, Finished, Queue, QueueOptions};
use pyo3::prelude::*;
use slab::Slab;

use crate::errors::Fault;
use crate::held::{Held, Part, without_gil};
use crate::interruptible::TURN;
use crate::memory::Keep;
use crate::turnstile::Turnstile;

/// How long a queue that closes waits for its commands, and an interrupted call for its own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A queue, and what its commands hold.
pub struct CommandQueue {
    state: Turnstile<Option<QueueState>>,
    depth: u32,
    align_bytes: usize,
    pub held: Arc<Held>,
}

/// The queue itself, for one thread at a time.
struct QueueState {
    queue: Queue,
    /// Commands on their way, by the tag that the queue knows.
    flights: Slab<Flight>,
    /// Completions that were taken from the queue, and not yet by the program.
    done: VecDeque<Done>,
    /// The next tag of a command that the program gives none.
    next_tag: u64,
}

/// What is kept of a command on its way.
pub struct Flight {
    /// The program's tag, or the next of the queue's.
    pub tag: Option<u64>,
    /// The memory it has.
    pub keep: Keep,
    /// Called with the completion, which `poll` and `wait` then do not return.
    pub callback: Option<Py<PyAny>>,
    /// What it reads into or sends, as the program knows it.
    pub memory: Option<Py<PyAny>>,
    /// Its answer is the length of what it reads.
    pub answers_length: bool,
    /// Its waiter is gone.
    pub is_abandoned: bool,
}

/// A command that has finished.
pub struct Done {
    /// Its tag.
    pub tag: u64,
    /// What was kept of it; its memory is back.
    pub flight: Flight,
    /// What came of it.
    pub result: byway::Result<Answer>,
}

impl CommandQueue {
    /// A queue of `held`, with these options.
    pub fn open(
        held: &Arc<Held>,
        options: impl FnOnce(QueueOptions) -> QueueOptions,
    ) -> Result<Arc<Self>, Fault> {
        let (queue, align_bytes) = held.look(|device| {
            let queue = Backend::queue(device, options(device.queue_options()))?;
            Ok((queue, device.capabilities().memory_align_bytes as usize))
        })?;
        let depth = queue.depth();
        let state = QueueState { queue, flights: Slab::new(), done: VecDeque::new(), next_tag: 0 };
        let state = Turnstile::new(Some(state));
        let made = Arc::new(Self { state, depth, align_bytes, held: Arc::clone(held) });
        held.adopt(&made);
        Ok(made)
    }

    /// Most commands on their way at once.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// What a command's memory must begin and end on, in bytes.
    pub const fn align_bytes(&self) -> usize {
        self.align_bytes
    }

    /// Takes a turn with the GIL released.
    fn turn<R: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut QueueState) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        self.held.check_owner()?;
        Ok(py.detach(|| what(self.state.enter().as_mut().ok_or(Fault::Closed("queue"))?))?)
    }

    /// Gives a command up whose waiter is gone.
    fn abandon(&self, py: Python<'_>, tag: u64) -> PyResult<()> {
        self.turn(py, |state| {
            state.abandon(tag);
            Ok(())
        })
    }

    /// Sends one command and waits for it. Ctrl-C gives it up.
    pub fn execute(&self, py: Python<'_>, command: Command, keep: Keep) -> PyResult<Answer> {
        let flight = Flight::of(keep);
        let (tag, mut done) = self.turn(py, |state| {
            let tag = state.submit(command, flight, None)?;
            Ok((tag, state.wait_for(tag)?))
        })?;
        let until = Instant::now() + TIMEOUT;
        while done.is_none() {
            if let Err(interrupted) = py.check_signals() {
                self.abandon(py, tag)?;
                return Err(interrupted);
            }
            if Instant::now() > until {
                self.abandon(py, tag)?;
                let said = format!("the device did not answer within {} s", TIMEOUT.as_secs());
                return Err(Fault::from(Error::device(ErrorKind::TimedOut, said)).into());
            }
            done = self.turn(py, |state| state.wait_for(tag))?;
        }
        let result = done.map_or(Ok(Answer::default()), |done| done.result);
        match result {
            Ok(answer) => Ok(answer),
            Err(error) => self.turn(py, |state| Err(state.queue.explained(error).into())),
        }
    }
}

impl CommandQueue {
    /// Sends a command; its tag.
    pub fn submit(
        &self,
        py: Python<'_>,
        command: Command,
        flight: Flight,
        timeout: Option<Duration>,
    ) -> PyResult<u64> {
        self.turn(py, |state| state.submit(command, flight, timeout))
    }

    /// Sends commands, all of them if there is room for all; their tags.
    pub fn submit_all(
        &self,
        py: Python<'_>,
        commands: Vec<(Command, Flight)>,
        timeout: Option<Duration>,
    ) -> PyResult<Vec<u64>> {
        self.turn(py, |state| state.submit_all(commands, timeout))
    }

    /// Begins what was submitted.
    pub fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.turn(py, |state| Ok(state.queue.start()?))
    }

    /// At most `max` completions that are there.
    pub fn poll(&self, py: Python<'_>, max: usize) -> PyResult<VecDeque<Done>> {
        self.turn(py, |state| {
            state.take_all()?;
            let taken = max.min(state.done.len());
            Ok(state.done.drain(..taken).collect())
        })
    }

    /// Completions, once there are `min` of them, or none is on its way, or `timeout` is over. Where Ctrl-C ends this, none
    /// is lost.
    pub fn wait(&self, py: Python<'_>, min: usize, timeout: Option<Duration>) -> PyResult<VecDeque<Done>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = until.map_or(TURN, |until| until.saturating_duration_since(Instant::now()));
            let is_enough = self.turn(py, |state| state.wait_for_some(min, left.min(TURN)))?;
            if is_enough || left.is_zero() {
                return self.turn(py, |state| Ok(std::mem::take(&mut state.done)));
            }
            py.check_signals()?;
        }
    }

    /// Puts completions back that the program did not get.
    pub fn put_back(&self, py: Python<'_>, mut done: VecDeque<Done>) -> PyResult<()> {
        self.turn(py, |state| {
            done.append(&mut state.done);
            state.done = done;
            Ok(())
        })
    }

    /// Asks for the command with this tag to be given up.
    pub fn cancel(&self, py: Python<'_>, tag: u64) -> PyResult<()> {
        self.turn(py, |state| state.cancel(tag))
    }

    /// Commands whose completion the program did not get yet.
    pub fn outstanding(&self, py: Python<'_>) -> PyResult<usize> {
        self.turn(py, |state| Ok(state.queue.outstanding() as usize + state.done.len()))
    }

    /// The descriptor that can be read when completions may be there.
    pub fn event(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.turn(py, |state| Ok(state.queue.event()?.as_raw_fd()))
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.held.is_here() && without_gil(|| self.state.enter().is_none())
    }
}

impl Flight {
    /// Of a command that has this of Python's.
    pub const fn of(keep: Keep) -> Self {
        Self { tag: None, keep, callback: None, memory: None, answers_length: false, is_abandoned: false }
    }
}

impl Part for CommandQueue {
    fn close(&self) {
        if let Some(state) = self.state.enter().take() {
            state.end();
        }
    }
}

impl Drop for CommandQueue {
    fn drop(&mut self) {
        if !self.held.is_here() {
            return;
        }
        without_gil(|| self.close());
    }
}

impl QueueState {
    /// Sends a command; its tag.
    fn submit(&mut self, command: Command, flight: Flight, timeout: Option<Duration>) -> Result<u64, Fault> {
        let slot = self.flights.insert(flight);
        match self.queue.submit_within(command, slot as u64, timeout) {
            Ok(()) => Ok(self.sent(slot)),
            Err(refused) => {
                self.not_sent(slot, refused.command);
                Err(refused.error.into())
            }
        }
    }

    /// Sends commands, under one doorbell where they have no timeout.
    fn submit_all(
        &mut self,
        commands: Vec<(Command, Flight)>,
        timeout: Option<Duration>,
    ) -> Result<Vec<u64>, Fault> {
        let count = commands.len();
        let room = (self.queue.depth() - self.queue.outstanding()) as usize;
        let (commands, flights): (Vec<Command>, Vec<Flight>) = commands.into_iter().unzip();
        let slots: Vec<usize> = flights.into_iter().map(|flight| self.flights.insert(flight)).collect();
        let mut left = commands.into_iter().zip(slots.iter().map(|slot| *slot as u64));
        let refused = match timeout {
            _ if count > room => None,
            None => self.queue.submit_all(&mut left).err(),
            limit => left.find_map(|(command, slot)| self.queue.submit_within(command, slot, limit).err()),
        };
        let (why, first) = match refused {
            Some(refused) => (Some(refused.error), Some(refused.command)),
            None if count > room => {
                let said =
                    format!("{count} commands for a queue that has room for {room} now; none was sent");
                (Some(Error::host(ErrorKind::QueueFull, said)), None)
            }
            None => (None, None),
        };
        let refused_at = first.is_some();
        let not_sent: Vec<Command> = first.into_iter().chain(left.map(|(command, _)| command)).collect();
        let sent = count - not_sent.len();
        let mut slots = slots.into_iter();
        let tags = slots.by_ref().take(sent).map(|slot| self.sent(slot)).collect();
        slots.zip(not_sent).for_each(|(slot, command)| self.not_sent(slot, command));
        match why {
            Some(error) if refused_at => Err(error.doing(format!("command {} of {count}", sent + 1)).into()),
            Some(error) => Err(error.into()),
            None => Ok(tags),
        }
    }

    /// The tag of a command that was sent: the program's, or the queue's next.
    fn sent(&mut self, slot: usize) -> u64 {
        let Some(flight) = self.flights.get_mut(slot) else { return self.next_tag };
        let next_tag = &mut self.next_tag;
        *flight.tag.get_or_insert_with(|| {
            *next_tag += 1;
            *next_tag - 1
        })
    }

    /// Puts everything back of a command that was not sent.
    fn not_sent(&mut self, slot: usize, command: Command) {
        let (buffer, parts) = command.into_payload().into_buffers();
        if let Some(flight) = self.flights.try_remove(slot) {
            flight.keep.take_back(buffer, parts);
        }
    }

    /// Sleeps for at most this long until there are as many completions, or none is on its way; whether that is so.
    fn wait_for_some(&mut self, min: usize, at_most: Duration) -> Result<bool, Fault> {
        let until = Instant::now() + at_most;
        loop {
            self.take_all()?;
            if self.done.len() >= min || self.queue.outstanding() == 0 {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(left)?;
        }
    }

    /// Takes completions until that of `tag` is among them, sleeping for a turn at most.
    fn wait_for(&mut self, tag: u64) -> Result<Option<Done>, Fault> {
        let until = Instant::now() + TURN;
        loop {
            self.take_all()?;
            if let Some(at) = self.done.iter().position(|done| done.tag == tag) {
                return Ok(self.done.remove(at));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.wait(left)?;
        }
    }

    /// Waits for a completion, at most this long, and takes it.
    fn wait(&mut self, at_most: Duration) -> Result<(), Fault> {
        let finished = self.queue.next_within(at_most)?;
        finished.into_iter().for_each(|finished| self.took(finished));
        Ok(())
    }

    /// Takes every completion that there is.
    fn take_all(&mut self) -> Result<(), Fault> {
        while let Some(finished) = self.queue.next_finished()? {
            self.took(finished);
        }
        Ok(())
    }

    /// Gives a finished command's memory back and its place free.
    fn took(&mut self, finished: Finished) {
        let (result, buffer, parts) = match finished.result {
            Ok(outcome) => (Ok(outcome.answer), outcome.buffer, outcome.vector),
            Err(failed) => (Err(failed.error), failed.buffer, failed.vector),
        };
        let Some(flight) = self.flights.try_remove(finished.tag as usize) else { return };
        flight.keep.take_back(buffer, parts);
        if !flight.is_abandoned {
            self.done.push_back(Done { tag: flight.tag.unwrap_or_default(), flight, result });
        }
    }

    /// Where the command with this tag is kept.
    fn slot_of(&self, tag: u64) -> Option<usize> {
        self.flights.iter().find(|(_, flight)| flight.tag == Some(tag)).map(|(slot, _)| slot)
    }

    fn cancel(&mut self, tag: u64) -> Result<(), Fault> {
        match self.slot_of(tag) {
            Some(slot) => Ok(self.queue.cancel(slot as u64)?),
            None => {
                Err(Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is on its way"))
                    .into())
            }
        }
    }

    /// Gives a command up whose waiter is gone: its memory stays until it has finished.
    fn abandon(&mut self, tag: u64) {
        self.done.retain(|done| done.tag != tag);
        let Some(slot) = self.slot_of(tag) else { return };
        if let Some(flight) = self.flights.get_mut(slot) {
            flight.is_abandoned = true;
        }
        // A backend that cannot cancel lets it finish.
        let _ = self.queue.cancel(slot as u64);
    }

    /// Waits for the commands on their way, so that all memory is back before the queue is gone.
    fn end(mut self) {
        let until = Instant::now() + TIMEOUT;
        while self.queue.outstanding() > 0 && Instant::now() < until {
            if self.take_all().and_then(|()| self.wait(TURN)).and_then(|()| self.take_all()).is_err() {
                break;
            }
        }
        if self.queue.outstanding() > 0 {
            std::mem::forget(self);
        }
    }
}
