//! A queue whose commands are executed by its device's threads and by the thread that waits for them.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{BackendQueue, Command, Finished, Outcome, QueueOptions, Refused, Result};
use byway_sys::{Deadline, Spin};

use byway_link::Method;

use crate::psync::queue::{full, not_outstanding};
use crate::synchronous::Synchronous;
use crate::target::Target;
use crate::threads::pool::{Pool, SPINS};
use crate::threads::work_list::{Job, WorkList, expire};
use crate::ticket::taken_back;

/// A thread that waits at least this long executes commands that no pool thread has begun.
pub const HELP_FROM: Duration = Duration::from_millis(100);

/// Commands that are gathered before threads are woken for them, unless the queue is polled earlier.
const GATHERED_MAX: usize = 16;

/// A queue whose commands are executed by its device's threads and by the thread that waits for them.
pub struct ThreadsQueue<S: Synchronous = Target> {
    work: Arc<WorkList<S>>,
    pool: Arc<Pool>,
    /// Submitted, and known to no thread.
    gathered: VecDeque<Job<S::Request>>,
    /// Finished, and known to no thread any more.
    ready: VecDeque<Finished>,
    /// When the first command's time is over, of those that have one.
    first_until: Option<Instant>,
    outstanding: u32,
    depth: u32,
    timeout: Duration,
    method: Method,
}

impl<S: Synchronous> ThreadsQueue<S> {
    pub(crate) fn new(device: Arc<S>, pool: Arc<Pool>, options: QueueOptions) -> Self {
        let QueueOptions { depth, timeout, transfer: method, .. } = options;
        let depth = depth.commands();
        let room = depth as usize;
        Self {
            work: Arc::new(WorkList::new(device, depth)),
            pool,
            gathered: VecDeque::with_capacity(room.min(GATHERED_MAX)),
            ready: VecDeque::with_capacity(room),
            first_until: None,
            outstanding: 0,
            depth,
            timeout,
            method,
        }
    }

    fn take(&mut self, command: Command, tag: u64, until: Option<Instant>) -> Result<(), Refused> {
        if self.outstanding >= self.depth {
            return Err(Refused { command, error: full(self.depth) });
        }
        let (request, memory) = self.work.device().take(command)?;
        let request = self.work.device().by(request, self.method);
        self.gathered.push_back(Job { tag, request, memory, until });
        self.outstanding += 1;
        if self.gathered.len() >= GATHERED_MAX {
            self.publish();
        }
        Ok(())
    }

    fn publish(&mut self) {
        if !self.gathered.is_empty() {
            self.work.publish(&mut self.gathered, false, self.pool.offers());
        }
    }

    /// The next finished command that is there without any more being begun.
    #[inline]
    fn pop(&mut self) -> Option<Finished> {
        if self.ready.is_empty() {
            self.work.collect(&mut self.ready);
        }
        let finished = self.ready.pop_front()?;
        self.outstanding -= 1;
        Some(finished)
    }

    /// Takes what is finished, without any more being begun.
    fn take_all(&mut self, on: &mut impl FnMut(Finished)) -> usize {
        let mut taken = 0;
        while let Some(finished) = self.pop() {
            on(finished);
            taken += 1;
        }
        taken
    }

    fn wait_until(&mut self, min: usize, until: Deadline, on: &mut impl FnMut(Finished)) -> Result<usize> {
        let mut taken = 0;
        while taken < min && self.outstanding > 0 {
            let left = until.left_or_max();
            if !self.sleep(left) && left.is_zero() {
                break;
            }
            taken += self.take_all(on);
        }
        Ok(taken)
    }

    /// Cancels commands that no thread has begun and whose deadline has passed.
    fn expire(&mut self) {
        let Some(first) = self.first_until else { return };
        let now = Instant::now();
        if now < first {
            return;
        }
        let gathered = expire(&mut self.gathered, now, &mut self.ready);
        let waiting = self.work.expire(now, &mut self.ready);
        self.first_until = gathered.into_iter().chain(waiting).min();
    }

    /// Does a command that no thread has begun, if there is one.
    fn help(&mut self) -> bool {
        let alone = self.outstanding == 1;
        let job = if alone && let Some(only) = self.gathered.pop_front() {
            Some(only)
        } else {
            self.work.publish(&mut self.gathered, true, self.pool.offers())
        };
        let Some(job) = job else { return false };
        self.ready.push_back(job.perform(self.work.device()));
        true
    }

    /// Waits until a finished command can be taken, at most `timeout`; says whether one can be.
    fn sleep(&mut self, timeout: Duration) -> bool {
        self.expire();
        if !self.ready.is_empty() || self.work.has_finished() {
            return true;
        }
        if self.outstanding == 0 {
            return false;
        }
        if timeout >= HELP_FROM && self.help() {
            return true;
        }
        self.publish();
        if !self.look() {
            self.work.sleep(self.until_first(timeout));
            self.expire();
        }
        !self.ready.is_empty() || self.work.has_finished()
    }

    fn look(&self) -> bool {
        let mut spin = Spin::polls(SPINS);
        while !self.work.has_finished() {
            if !spin.again() {
                return false;
            }
        }
        true
    }

    /// How long to sleep so that the first time that is over is noticed.
    fn until_first(&self, timeout: Duration) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.first_until.map_or(timeout, |until| timeout.min(left(until)))
    }
}

impl<S: Synchronous> BackendQueue for ThreadsQueue<S> {
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        // A deadline beyond the clock's range never passes.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.take(command, tag, until)?;
        let first = self.first_until.into_iter().chain(until).min();
        if first != self.first_until {
            self.first_until = first;
            self.work.alarm(first);
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.publish();
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        let event = self.work.event()?;
        self.work.alarm(self.first_until);
        if !self.ready.is_empty() {
            self.work.raise();
        }
        Ok(event)
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        if let Some(finished) = self.pop() {
            return Ok(Some(finished));
        }
        self.work.lower();
        self.expire();
        self.work.alarm(self.first_until);
        self.publish();
        Ok(self.pop())
    }

    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        Ok(if self.sleep(timeout) { self.pop() } else { None })
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        let gathered = self.gathered.iter().position(|job| job.tag == tag);
        let job = match gathered.and_then(|at| self.gathered.remove(at)) {
            Some(job) => job,
            None => match self.work.take_back(tag) {
                Ok(job) => job,
                // It finishes as it does.
                Err(running) => return if running { Ok(()) } else { Err(not_outstanding(tag)) },
            },
        };
        self.ready.push_back(job.given_up(taken_back()));
        self.work.raise();
        Ok(())
    }

    fn outstanding(&self) -> u32 {
        self.outstanding
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        let device = self.work.device();
        let request = device.by(device.check(&command)?, self.method);
        let request = device.within(request, self.timeout);
        Ok(device.perform(request, command.into_memory())?)
    }

    /// As for every queue, but wakes no pool thread for what the waiting thread will execute itself.
    fn wait(&mut self, min: usize, timeout: Duration, on: &mut impl FnMut(Finished)) -> Result<usize> {
        let mut taken = self.take_all(on);
        // Needs no clock: it is the one command by which a wait may be too long.
        if taken < min && timeout >= HELP_FROM && self.outstanding > 0 && self.help() {
            taken += self.take_all(on);
        }
        if taken < min && self.outstanding > 0 {
            taken += self.wait_until(min - taken, Deadline::after(timeout), on)?;
        }
        self.publish();
        Ok(taken)
    }
}

impl<S: Synchronous> Drop for ThreadsQueue<S> {
    /// What no thread has begun never begins; what one is doing keeps its memory until it is done.
    fn drop(&mut self) {
        if self.pool.is_here() {
            self.work.forget();
        }
    }
}

impl<S: Synchronous> fmt::Debug for ThreadsQueue<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ThreadsQueue({} of {} outstanding)", self.outstanding, self.depth)
    }
}
