//! What one queue shares with the threads: commands that no thread has begun, and finished ones.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use byway_core::{Error, Finished, Memory, Result};
use byway_sys::{Alarm, Wakeup};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::synchronous::Synchronous;
use crate::threads::pool::{Offers, Source};
use crate::ticket::{failed, too_late};

/// Most commands that a thread does for a queue before it looks after the others.
const TURN_JOBS: u32 = 32;

/// A command that no thread has begun.
pub(crate) struct Job<R> {
    pub tag: u64,
    pub request: R,
    pub memory: Memory,
    /// When it is given up.
    pub until: Option<Instant>,
}

/// What one queue shares with the threads.
pub(crate) struct WorkList<S: Synchronous> {
    device: Arc<S>,
    lists: Mutex<Lists<S::Request>>,
    /// Length of the list of finished ones, for a queue that is polled.
    finished_len: AtomicU32,
    came: Condvar,
    wakeup: OnceLock<(Wakeup, Alarm)>,
}

struct Lists<R> {
    waiting: VecDeque<Job<R>>,
    finished: VecDeque<Finished>,
    /// Tags of what threads are doing.
    running: Vec<u64>,
    /// Whether the pool has been notified of the waiting ones.
    offered: bool,
    /// Whether the queue's owner sleeps.
    owner_asleep: bool,
}

impl<R> Job<R> {
    /// Does it, unless its time is over.
    pub(crate) fn perform<S: Synchronous<Request = R>>(self, device: &S) -> Finished {
        let Some(until) = self.until else {
            return Finished { tag: self.tag, result: device.perform(self.request, self.memory) };
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return self.late();
        }
        let request = device.within(self.request, left);
        Finished { tag: self.tag, result: device.perform(request, self.memory) }
    }

    /// Gives it up because its time is over.
    pub(crate) fn late(self) -> Finished {
        self.given_up(too_late())
    }

    /// Gives it up.
    pub(crate) fn given_up(self, error: Error) -> Finished {
        failed(self.tag, error, self.memory)
    }
}

impl<S: Synchronous> WorkList<S> {
    /// One with room for `depth` commands.
    pub(crate) fn new(device: Arc<S>, depth: u32) -> Self {
        let depth = depth as usize;
        let lists = Lists {
            waiting: VecDeque::with_capacity(depth),
            finished: VecDeque::with_capacity(depth),
            running: Vec::with_capacity(depth.min(1024)),
            offered: false,
            owner_asleep: false,
        };
        let (lists, finished_len) = (Mutex::new(lists), AtomicU32::new(0));
        Self { device, lists, finished_len, came: Condvar::new(), wakeup: OnceLock::new() }
    }

    /// Whose commands they are.
    pub(crate) fn device(&self) -> &S {
        &self.device
    }

    /// Adds commands, and takes the first of all that wait for the caller to do it, if it will. The rest is offered to
    /// the pool.
    pub(crate) fn publish(
        self: &Arc<Self>,
        jobs: &mut VecDeque<Job<S::Request>>,
        helping: bool,
        pool: &Offers,
    ) -> Option<Job<S::Request>> {
        let mut lists = self.lists.lock();
        lists.waiting.append(jobs);
        let own = if helping { lists.waiting.pop_front() } else { None };
        self.offer(lists, pool);
        own
    }

    /// Notifies the pool of waiting commands, once.
    fn offer(self: &Arc<Self>, mut lists: MutexGuard<'_, Lists<S::Request>>, pool: &Offers) {
        if lists.waiting.is_empty() || lists.offered {
            return;
        }
        lists.offered = true;
        drop(lists);
        pool.add(Arc::clone(self) as Arc<dyn Source>);
    }

    /// Moves what is finished behind `into`.
    #[inline]
    pub(crate) fn collect(&self, into: &mut VecDeque<Finished>) {
        if self.finished_len.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut lists = self.lists.lock();
        into.append(&mut lists.finished);
        self.finished_len.store(0, Ordering::Relaxed);
    }

    /// Whether something is finished.
    #[inline]
    pub(crate) fn has_finished(&self) -> bool {
        self.finished_len.load(Ordering::Relaxed) > 0
    }

    /// Sleeps until something is finished, at most `timeout`.
    pub(crate) fn sleep(&self, timeout: Duration) {
        let mut lists = self.lists.lock();
        if !lists.finished.is_empty() {
            return;
        }
        lists.owner_asleep = true;
        self.came.wait_for(&mut lists, timeout);
        lists.owner_asleep = false;
    }

    /// Takes back a command that no thread has begun; `Err` says whether a thread is executing it.
    pub(crate) fn take_back(&self, tag: u64) -> Result<Job<S::Request>, bool> {
        let mut lists = self.lists.lock();
        match lists.waiting.iter().position(|job| job.tag == tag) {
            Some(at) => lists.waiting.remove(at).ok_or(false),
            None => Err(lists.running.contains(&tag)),
        }
    }

    /// Gives up what is past its time, behind `into`; returns when the next of those that wait is.
    pub(crate) fn expire(&self, now: Instant, into: &mut VecDeque<Finished>) -> Option<Instant> {
        expire(&mut self.lists.lock().waiting, now, into)
    }

    /// Drops commands that no thread has begun.
    pub(crate) fn forget(&self) {
        let waiting = std::mem::take(&mut self.lists.lock().waiting);
        drop(waiting);
    }

    /// A descriptor that can be read when something may be finished, or the time of [`alarm`](Self::alarm) has come.
    pub(crate) fn event(&self) -> Result<BorrowedFd<'_>> {
        if let Some((_, alarm)) = self.wakeup.get() {
            return Ok(alarm.as_fd());
        }
        let none = |cause| Error::kernel("no descriptor for completions", cause);
        let made = Wakeup::new().map_err(none)?;
        let alarm = Alarm::beside(made.as_fd()).map_err(none)?;
        let (wakeup, alarm) = self.wakeup.get_or_init(|| (made, alarm));
        if self.has_finished() {
            wakeup.raise();
        }
        Ok(alarm.as_fd())
    }

    /// Makes the descriptor readable at `until`, for an event loop that sleeps on it.
    pub(crate) fn alarm(&self, until: Option<Instant>) {
        if let Some((_, alarm)) = self.wakeup.get() {
            alarm.set(until.map(|until| until.saturating_duration_since(Instant::now())));
        }
    }

    /// Makes the descriptor readable.
    pub(crate) fn raise(&self) {
        if let Some((wakeup, _)) = self.wakeup.get() {
            wakeup.raise();
        }
    }

    /// Makes the descriptor unreadable; the caller looks for finished ones afterwards.
    #[inline]
    pub(crate) fn lower(&self) {
        if let Some((wakeup, _)) = self.wakeup.get() {
            wakeup.lower();
        }
    }

    /// Files what a thread finished, and begins the next.
    fn next_job(
        self: &Arc<Self>,
        done: Option<Finished>,
        more: bool,
        pool: &Offers,
    ) -> Option<Job<S::Request>> {
        let mut lists = self.lists.lock();
        let (mut first, mut wake) = (false, false);
        if let Some(done) = done {
            let running = lists.running.iter().position(|tag| *tag == done.tag);
            running.map(|at| lists.running.swap_remove(at));
            first = lists.finished.is_empty();
            wake = std::mem::take(&mut lists.owner_asleep);
            lists.finished.push_back(done);
            self.finished_len.store(lists.finished.len() as u32, Ordering::Relaxed);
        }
        let next = if more { lists.waiting.pop_front() } else { None };
        if let Some(job) = &next {
            lists.running.push(job.tag);
        }
        self.offer(lists, pool);
        if wake {
            self.came.notify_one();
        }
        // Later ones find the descriptor readable: the thread that makes it unreadable takes them all.
        if first {
            self.raise();
        }
        next
    }
}

impl<S: Synchronous> Source for WorkList<S> {
    fn take_turn(self: Arc<Self>, pool: &Offers) {
        self.lists.lock().offered = false;
        let mut done = None;
        for left in (0..=TURN_JOBS).rev() {
            let Some(job) = self.next_job(done.take(), left > 0, pool) else { break };
            done = Some(job.perform(&*self.device));
        }
    }
}

/// Gives up what of `jobs` is past its time, behind `into`; returns when the next of the others is.
pub(crate) fn expire<R>(
    jobs: &mut VecDeque<Job<R>>,
    now: Instant,
    into: &mut VecDeque<Finished>,
) -> Option<Instant> {
    let mut at = 0;
    while let Some(job) = jobs.get(at) {
        if job.until.is_none_or(|until| now < until) {
            at += 1;
        } else if let Some(job) = jobs.remove(at) {
            into.push_back(job.late());
        }
    }
    jobs.iter().filter_map(|job| job.until).min()
}
