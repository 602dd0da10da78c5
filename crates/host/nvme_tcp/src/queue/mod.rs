//! A queue of a subsystem: which commands it takes, those that have finished, and how its program waits for them.

#[cfg(test)]
mod tests;
mod transport;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use byway_core::{
    BackendQueue, Command, Deadline, Error, ErrorKind, Failed, Finished, Outcome, QueueOptions, Refused,
    Result,
};
use byway_sys::idle::Next;
use byway_sys::time::monotonic_ns;
use byway_sys::{Idle, SpinBudget};

use crate::connection::{Ended, Order};
use crate::order::CachedLayout;
use crate::result::outcome;

pub use transport::Transport;

/// Empty polls per reading of the clock.
const POLLS_BY_TIME: u32 = 8;

/// A queue of a subsystem.
pub struct Queue<T> {
    /// Finished commands that a call met while it waited for its own.
    ready: VecDeque<Finished>,
    /// Calls that timed out, or whose wait failed, and that are still outstanding.
    left_calls: u32,
    last_call: u64,
    spin: SpinBudget,
    cached_layout: CachedLayout,
    depth: u32,
    timeout: Duration,
    transport: T,
}

impl<T: Transport> Queue<T> {
    pub(crate) fn new(transport: T, idle: Idle, options: &QueueOptions) -> Self {
        let depth = options.depth.commands();
        Self {
            ready: VecDeque::with_capacity(depth as usize),
            left_calls: 0,
            last_call: 0,
            spin: SpinBudget::new(idle),
            cached_layout: CachedLayout::default(),
            depth,
            timeout: options.timeout,
            transport,
        }
    }

    /// Whether there is a place for another command. A call that timed out keeps its place until it is answered, or the controller
    /// would have more commands than the queue is deep.
    #[inline]
    fn has_place(&mut self) -> bool {
        self.held() < self.depth || (self.left_calls > 0 && self.has_place_now())
    }

    /// Polls for the answers of calls that timed out, which no caller waits for.
    #[cold]
    fn has_place_now(&mut self) -> bool {
        self.transport.poll();
        self.collect_ended();
        if !self.ready.is_empty() && self.transport.event().is_some() {
            // The socket was read above: only the notifier makes the event descriptor readable for these completions.
            self.transport.arm(true);
        }
        self.held() < self.depth
    }

    /// Whether the transport has room for a command for which there is a place. A pair takes two places.
    #[inline]
    fn has_room(&mut self, order: &Order) -> bool {
        self.transport.has_room(order)
            || (self.left_calls > 0 && self.has_place_now() && self.transport.has_room(order))
    }

    #[inline]
    fn held(&self) -> u32 {
        self.transport.held() + self.ready.len() as u32
    }

    /// Encodes a command as an [`Order`], if the queue has room and the subsystem supports it.
    #[inline]
    fn order(&mut self, command: &Command, tag: u64, is_call: bool) -> Result<Order> {
        if !self.has_place() {
            return Err(full(self.depth));
        }
        if let Some(error) = self.transport.lost() {
            return Err(error);
        }
        let order = self.transport.order(command, tag, is_call, &mut self.cached_layout)?;
        if order.is_pair && self.depth < 2 {
            return Err(too_shallow());
        }
        if !self.has_room(&order) {
            return Err(full(self.depth));
        }
        Ok(order)
    }

    #[inline]
    fn take(
        &mut self,
        command: Command,
        (tag, is_call): (u64, bool),
        until: Option<Instant>,
    ) -> Result<(), Refused> {
        match self.order(&command, tag, is_call) {
            Ok(order) => {
                self.transport.begin(order, command, until);
                Ok(())
            }
            Err(error) => Err(Refused { command, error }),
        }
    }

    /// The next finished command that a program waits for; completions of calls that timed out are dropped.
    #[inline]
    fn take_finished(&mut self) -> Option<Finished> {
        if let Some(finished) = self.ready.pop_front() {
            return Some(finished);
        }
        while let Some(ended) = self.transport.next_ended() {
            if !ended.is_call {
                return Some(finished(ended));
            }
            self.left_calls -= 1;
        }
        None
    }

    /// Moves ended commands of the program to `ready`, and drops completions of calls that timed out.
    fn collect_ended(&mut self) {
        while let Some(ended) = self.transport.next_ended() {
            self.put_aside(ended);
        }
    }

    fn put_aside(&mut self, ended: Ended) {
        match ended.is_call {
            true => self.left_calls -= 1,
            false => self.ready.push_back(finished(ended)),
        }
    }

    /// Prepares the event descriptor for a program that waits by it: readable at the next completion, or now if there is one.
    #[cold]
    fn prepare_to_wait(&mut self) {
        self.transport.clear_notifier();
        // Events from before the clear are seen here.
        self.transport.poll();
        self.collect_ended();
        self.transport.arm(!self.ready.is_empty());
    }

    /// What comes of a call that was begun.
    fn wait_for_call(&mut self, call: u64) -> Result<Outcome> {
        let mut ended = None;
        let waited = self.wait_until(Deadline::after(self.timeout), |queue| {
            ended = queue.take_call(call);
            ended.is_some()
        });
        if let Some(ended) = ended {
            return outcome(ended).map_err(|Failed { error, .. }| error);
        }
        self.left_calls += 1;
        self.transport.give_up(call, true, ErrorKind::TimedOut);
        waited?;
        Err(Error::device(ErrorKind::TimedOut, "the controller does not answer"))
    }

    /// Takes what has ended up to the call that is waited for; the ends of others are put aside.
    fn take_call(&mut self, call: u64) -> Option<Ended> {
        while let Some(ended) = self.transport.next_ended() {
            if ended.is_call && ended.tag == call {
                return Some(ended);
            }
            self.put_aside(ended);
        }
        None
    }

    /// Spins, then sleeps, until `is` holds or the deadline passes; says whether it does.
    fn wait_until(&mut self, deadline: Deadline, mut is: impl FnMut(&mut Self) -> bool) -> Result<bool> {
        let (mut begun_ns, mut slept_ns, mut polls) = (0, 0, 0u32);
        loop {
            self.transport.poll();
            if is(self) {
                if slept_ns > 0 {
                    self.spin.slept(slept_ns);
                }
                return Ok(true);
            }
            polls = polls.wrapping_add(1);
            // The first poll sends: no clock is read before.
            if polls % POLLS_BY_TIME != 1 {
                continue;
            }
            let now_ns = monotonic_ns();
            begun_ns = if begun_ns == 0 { now_ns } else { begun_ns };
            match self.spin.next(now_ns - begun_ns) {
                Next::Look => {}
                Next::Yield if !deadline.is_over() => std::thread::yield_now(),
                _ => {
                    let left = deadline.left_or_max();
                    if left.is_zero() {
                        return Ok(false);
                    }
                    self.transport.park(left)?;
                    begun_ns = monotonic_ns();
                    (slept_ns, polls) = (begun_ns - now_ns, 0);
                }
            }
        }
    }
}

impl<T: Transport> BackendQueue for Queue<T> {
    /// At its deadline an Abort is sent. It fails as timed out, unless the controller executes it all
    /// the same. One that neither does nor aborts it in five seconds more loses the connection.
    /// A command that waits for a path fails when its time is over.
    #[inline]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        // A deadline beyond the clock's range never passes.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.take(command, (tag, false), until)
    }

    fn start(&mut self) -> Result<()> {
        self.transport.flush();
        if self.transport.event().is_some() {
            self.prepare_to_wait();
        }
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        if self.transport.event().is_none() {
            self.transport
                .open_event()
                .map_err(|cause| Error::kernel("no descriptor for completions", cause))?;
            self.prepare_to_wait();
        }
        let none = || Error::host(ErrorKind::System, "no descriptor for completions");
        self.transport.event().ok_or_else(none)
    }

    #[inline]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        loop {
            let finished = self.take_finished();
            if finished.is_some() {
                return Ok(finished);
            }
            if !self.transport.poll() {
                break;
            }
        }
        if self.transport.event().is_some() {
            self.prepare_to_wait();
        }
        Ok(self.take_finished())
    }

    #[inline]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        let outstanding = self.outstanding();
        let mut found = self.take_finished();
        if found.is_none() && outstanding > 0 {
            self.wait_until(Deadline::after(timeout), |queue| {
                found = queue.take_finished();
                found.is_some()
            })?;
        }
        Ok(found)
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        let is_finished = self.ready.iter().any(|finished| finished.tag == tag);
        if is_finished
            || self.transport.has_ended_with(tag)
            || self.transport.give_up(tag, false, ErrorKind::Cancelled)
        {
            return Ok(());
        }
        Err(not_outstanding(tag))
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.transport.outstanding() + self.ready.len() as u32 - self.left_calls
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        self.last_call += 1;
        let call = self.last_call;
        self.take(command, (call, true), None)?;
        let outcome = self.wait_for_call(call);
        if self.transport.event().is_some() {
            self.prepare_to_wait();
        }
        outcome
    }
}

#[inline]
fn finished(ended: Ended) -> Finished {
    Finished { tag: ended.tag, result: outcome(ended) }
}

#[cold]
fn too_shallow() -> Error {
    Error::host(ErrorKind::InvalidArgument, "two fused commands need a queue that is two deep")
}

#[cold]
fn full(depth: u32) -> Error {
    let said = format!("{depth} commands are outstanding, as many as the queue is deep");
    Error::host(ErrorKind::QueueFull, said)
}

/// No command with this tag is outstanding: there is none to cancel.
#[cold]
fn not_outstanding(tag: u64) -> Error {
    Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is outstanding"))
}
