//! A queue for blocking calls that Ctrl-C ends: Python's signals are checked between waits.
//!
//! An interrupted call cancels its outstanding commands. Their memory is kept until they complete, and their results are
//! dropped. A command that the kernel executes in the calling thread cannot be interrupted.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use byway::{
    BackendQueue, Command, Error, ErrorKind, Failed, Finished, Outcome, Queue, QueueOptions, Refused, Result,
};
use pyo3::prelude::*;

/// Interval of the checks for signals.
pub const TURN: Duration = Duration::from_millis(20);

/// Maximum number of outstanding commands of one call.
const CALL_COMMANDS: u32 = 64;

/// The exception that a signal raised in Python, for the call that raises it in the program.
#[derive(Clone, Default)]
pub struct Interrupted(Arc<Mutex<Option<PyErr>>>);

impl Interrupted {
    /// The exception, if a signal raised one.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, raised: PyErr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
    }
}

/// A queue whose waits Ctrl-C interrupts.
pub struct InterruptibleQueue {
    queue: Queue,
    timeout: Duration,
    interrupted: Interrupted,
    /// Number of interrupted calls: distinguishes the tags of their commands from those of later calls.
    epoch: u64,
    /// Tags of the call's outstanding commands, as the queue has them.
    under_way: Vec<u64>,
    /// Commands to be submitted together, with one doorbell write.
    gathered: Vec<(Command, u64)>,
    /// Commands that the queue refused at submission, or that finished while the call waited.
    ready: VecDeque<Finished>,
}

impl InterruptibleQueue {
    /// Waits patiently for commands of `queue`, which was opened with these options.
    pub fn new(queue: Queue, options: QueueOptions, interrupted: Interrupted) -> Self {
        Self {
            queue,
            timeout: options.timeout,
            interrupted,
            epoch: 0,
            under_way: Vec::new(),
            gathered: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    fn name(&self, tag: u64) -> u64 {
        self.epoch << 32 | tag & u64::from(u32::MAX)
    }

    /// Sends what was gathered.
    fn send(&mut self) {
        let mut gathered = std::mem::take(&mut self.gathered).into_iter();
        while let Err(Refused { command, error }) = self.queue.submit_all(&mut gathered) {
            // Of those that went the last is the one that did not.
            let left = gathered.len() + 1;
            let tag = self.under_way[self.under_way.len() - left];
            let result = Err(Failed::with_memory(error, command.into_memory()));
            self.ready.push_back(Finished { tag, result });
        }
    }

    /// The call ends before its commands do.
    fn give_up(&mut self) {
        self.gathered.clear();
        self.ready.clear();
        for tag in self.under_way.drain(..) {
            // A backend that cannot cancel lets it finish.
            let _ = self.queue.cancel(tag);
        }
        self.epoch += 1;
    }

    /// Waits for a turn; whether something has finished.
    fn turn(&mut self, at_most: Duration) -> Result<bool> {
        self.send();
        if self.ready.is_empty() {
            self.ready.extend(self.queue.next_within(at_most.min(TURN))?);
        }
        if !self.ready.is_empty() {
            return Ok(true);
        }
        if let Err(raised) = Python::attach(|py| py.check_signals()) {
            self.give_up();
            self.interrupted.set(raised);
            return Err(Error::host(ErrorKind::Cancelled, "a signal ended the call"));
        }
        Ok(false)
    }

    /// Before a call begins: waits until the queue has places for it that calls before have left taken.
    fn make_room(&mut self) -> Result<()> {
        let (depth, needed) = (self.queue.depth(), CALL_COMMANDS.min(self.queue.depth()));
        while self.under_way.is_empty() && depth - self.queue.outstanding() < needed {
            if self.queue.next_finished()?.is_none() {
                self.turn(TURN)?;
                // Of a call that was given up.
                self.ready.clear();
            }
        }
        Ok(())
    }
}

impl BackendQueue for InterruptibleQueue {
    /// Gathers a command that has no time limit; others are sent at once.
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        if limit.is_some() {
            let tag = self.name(tag);
            self.queue.submit_within(command, tag, limit)?;
            self.under_way.push(tag);
            return Ok(());
        }
        if let Err(error) = self.make_room() {
            return Err(Refused { command, error });
        }
        let tag = self.name(tag);
        self.under_way.push(tag);
        self.gathered.push((command, tag));
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.send();
        self.queue.start()
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.queue.event()
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        self.send();
        loop {
            let next = match self.ready.pop_front() {
                Some(finished) => Some(finished),
                None => self.queue.next_finished()?,
            };
            let Some(Finished { tag, result }) = next else { return Ok(None) };
            if let Some(at) = self.under_way.iter().position(|under_way| *under_way == tag) {
                self.under_way.swap_remove(at);
                return Ok(Some(Finished { tag: tag & u64::from(u32::MAX), result }));
            }
            // Of a call that was given up: its memory goes now.
        }
    }

    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        let until = Instant::now().checked_add(timeout);
        while !self.under_way.is_empty() {
            let left = until.map_or(TURN, |until| until.saturating_duration_since(Instant::now()));
            self.turn(left)?;
            let finished = self.next_finished()?;
            if finished.is_some() || left.is_zero() {
                return Ok(finished);
            }
        }
        Ok(None)
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        self.send();
        let tag = self.name(tag);
        if self.ready.iter().any(|finished| finished.tag == tag) {
            return Ok(());
        }
        self.queue.cancel(tag)
    }

    fn outstanding(&self) -> u32 {
        self.under_way.len() as u32
    }

    fn depth(&self) -> u32 {
        self.queue.depth()
    }

    fn explained(&self, error: Error) -> Error {
        self.queue.explained(error)
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        self.submit(command, 0)?;
        let until = Instant::now().checked_add(self.timeout);
        loop {
            if let Some(finished) = self.next_finished()? {
                let finished = finished.result.map_err(Error::from);
                return finished.map_err(|error| self.queue.explained(error));
            }
            if !self.turn(TURN)? && until.is_some_and(|until| Instant::now() >= until) {
                self.give_up();
                let said = format!("the command did not finish within {:?}", self.timeout);
                return Err(Error::host(ErrorKind::TimedOut, said));
            }
        }
    }
}
