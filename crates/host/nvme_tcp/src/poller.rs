//! Finished commands of a queue and how it waits for them, over one connection or several.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_core::{Deadline, Error, ErrorKind, Failed, Finished, Outcome, Result};
use byway_sys::idle::Next;
use byway_sys::time::monotonic_ns;
use byway_sys::{Idle, SpinBudget};

use crate::connection::Ended;
use crate::result::outcome;

/// Empty polls per reading of the clock.
const LOOKS_BY_TIME: u32 = 8;

/// A queue's finished commands and its spin budget.
#[derive(Debug)]
pub(crate) struct Poller {
    /// Finished commands that a call met while it waited for its own.
    pub ready: VecDeque<Finished>,
    /// Calls that timed out and are still outstanding.
    pub left_calls: u32,
    next_call: u64,
    spin: SpinBudget,
}

impl Poller {
    /// Of a queue of this depth.
    pub fn new(depth: u32, idle: Idle) -> Self {
        let ready = VecDeque::with_capacity(depth as usize);
        Self { ready, left_calls: 0, next_call: 0, spin: SpinBudget::new(idle) }
    }

    /// The number of the next call.
    pub fn next_call(&mut self) -> u64 {
        self.next_call += 1;
        self.next_call
    }
}

/// The methods of `BackendQueue` that every queue that [`Waits`] has alike.
macro_rules! as_it_waits {
    () => {
        fn start(&mut self) -> Result<()> {
            self.flush_all();
            if self.listened().is_some() {
                self.prepare_to_wait();
            }
            Ok(())
        }

        fn event(&mut self) -> Result<BorrowedFd<'_>> {
            self.event_of_all()
        }

        #[inline]
        fn next_finished(&mut self) -> Result<Option<Finished>> {
            Ok(self.next_of_all())
        }

        #[inline]
        fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
            let outstanding = self.outstanding();
            self.next_waited_for(timeout, outstanding)
        }

        fn depth(&self) -> u32 {
            self.depth
        }
    };
}

pub(crate) use as_it_waits;

/// A queue that can be waited for.
pub(crate) trait Waits: Sized {
    fn poller(&mut self) -> &mut Poller;

    /// Sends the gathered commands.
    fn flush_all(&mut self);

    /// Sends, receives, and does what has become due; says whether anything came.
    fn look(&mut self) -> bool;

    /// The next command that has ended.
    fn next_ended(&mut self) -> Option<Ended>;

    /// Sleeps until something may have come.
    fn park(&mut self, timeout: Duration) -> Result<()>;

    /// The descriptor that a program waits by, where there is one.
    fn listened(&self) -> Option<BorrowedFd<'_>>;

    /// Makes it.
    fn listen(&mut self) -> std::io::Result<()>;

    /// The program is going to wait by it: it can be read when there is something to come for.
    fn prepare_to_wait(&mut self);

    /// Gives up a call that timed out: an Abort is sent.
    fn give_up_call(&mut self, call: u64);

    /// The next finished command that a program waits for; completions of calls that timed out are dropped.
    #[inline]
    fn take_finished(&mut self) -> Option<Finished> {
        if let Some(finished) = self.poller().ready.pop_front() {
            return Some(finished);
        }
        while let Some(ended) = self.next_ended() {
            if !ended.is_call {
                return Some(finished(ended));
            }
            self.poller().left_calls -= 1;
        }
        None
    }

    fn is_ready(&mut self) -> bool {
        if self.poller().ready.is_empty()
            && let Some(finished) = self.take_finished()
        {
            self.poller().ready.push_back(finished);
        }
        !self.poller().ready.is_empty()
    }

    /// As [`BackendQueue::event`](byway_core::BackendQueue::event).
    fn event_of_all(&mut self) -> Result<BorrowedFd<'_>> {
        let none = || Error::host(ErrorKind::System, "no descriptor for completions");
        if self.listened().is_none() {
            self.listen().map_err(|cause| Error::kernel("no descriptor for completions", cause))?;
            self.prepare_to_wait();
        }
        self.listened().ok_or_else(none)
    }

    /// The next finished command of those that have come.
    #[inline]
    fn next_of_all(&mut self) -> Option<Finished> {
        loop {
            let finished = self.take_finished();
            if finished.is_some() {
                return finished;
            }
            if !self.look() {
                break;
            }
        }
        if self.listened().is_some() {
            self.prepare_to_wait();
        }
        self.take_finished()
    }

    /// The next finished command, waited for where any is outstanding.
    #[inline]
    fn next_waited_for(&mut self, timeout: Duration, outstanding: u32) -> Result<Option<Finished>> {
        let mut found = self.take_finished();
        if found.is_none() && outstanding > 0 {
            self.wait_until(Deadline::after(timeout), |queue| {
                found = queue.take_finished();
                found.is_some()
            })?;
        }
        Ok(found)
    }

    /// What comes of a call that was begun.
    fn wait_for_call(&mut self, call: u64, timeout: Duration) -> Result<Outcome> {
        let mut ended = None;
        let done = self.wait_until(Deadline::after(timeout), |queue| {
            ended = queue.take_call(call);
            ended.is_some()
        })?;
        match ended.filter(|_| done) {
            Some(ended) => outcome(ended).map_err(|Failed { error, .. }| error),
            None => {
                self.poller().left_calls += 1;
                self.give_up_call(call);
                Err(Error::device(ErrorKind::TimedOut, "the controller does not answer"))
            }
        }
    }

    /// Takes what has ended up to the call that is waited for; the ends of others are put aside.
    fn take_call(&mut self, call: u64) -> Option<Ended> {
        while let Some(ended) = self.next_ended() {
            match ended.is_call {
                true if ended.tag == call => return Some(ended),
                true => self.poller().left_calls -= 1,
                false => self.poller().ready.push_back(finished(ended)),
            }
        }
        None
    }

    /// Spins, then sleeps, until `is` holds or the deadline passes; says whether it does.
    fn wait_until(&mut self, deadline: Deadline, mut is: impl FnMut(&mut Self) -> bool) -> Result<bool> {
        let (mut begun_ns, mut slept_ns, mut looks) = (0, 0, 0u32);
        loop {
            self.look();
            if is(self) {
                if slept_ns > 0 {
                    self.poller().spin.slept(slept_ns);
                }
                return Ok(true);
            }
            looks = looks.wrapping_add(1);
            // The first poll sends: no clock is read before.
            if looks % LOOKS_BY_TIME != 1 {
                continue;
            }
            let now_ns = monotonic_ns();
            begun_ns = if begun_ns == 0 { now_ns } else { begun_ns };
            match self.poller().spin.next(now_ns - begun_ns) {
                Next::Look => {}
                Next::Yield if !deadline.is_over() => std::thread::yield_now(),
                _ => {
                    let left = deadline.left_or_max();
                    if left.is_zero() {
                        return Ok(false);
                    }
                    self.park(left)?;
                    begun_ns = monotonic_ns();
                    (slept_ns, looks) = (begun_ns - now_ns, 0);
                }
            }
        }
    }
}

#[inline]
fn finished(ended: Ended) -> Finished {
    Finished { tag: ended.tag, result: outcome(ended) }
}

/// That there is nothing to take back.
#[cold]
pub(crate) fn not_outstanding(tag: u64) -> Error {
    Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is outstanding"))
}
