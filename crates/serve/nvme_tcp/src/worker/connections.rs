//! The connections of a thread: which are active and polled, and what epoll reports of the others.

use std::net::TcpStream;
use std::sync::Arc;

use byway_sys::SpinBudget;
use byway_sys::idle::Next;
use byway_sys::time::monotonic_ns;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use slab::Slab;
use tracing::debug;

use super::FIRST_CONNECTION;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::half_open::{HalfOpen, HalfOpenConnection};
use crate::options::TargetEvent;
use crate::pool::ThreadPool;
use crate::socket::{Connection, Progress};

/// Busy polls in a row after which an active connection is removed from epoll, which would only repeat what polling finds.
const POLLS_UNTIL_DEREGISTERED: u32 = 16;

/// Bytes of the receive buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// A connection, and how its thread waits for it.
struct Slot {
    connection: Connection,
    /// Its number among all connections of this thread; slots are reused, numbers are not.
    number: u64,
    /// Events registered with epoll; `None` while it is not registered.
    interest: Option<epoll::EventFlags>,
    /// Time of its last traffic.
    busy_ns: u64,
    /// Polls with traffic since it became active.
    busy_polls: u32,
    is_active: bool,
}

impl Slot {
    /// Removes it from epoll.
    fn deregister(&mut self, poll: &OwnedFd) {
        if epoll::delete(poll, self.connection.wire()).is_ok() {
            self.interest = None;
        }
    }

    /// Registers what it waits for with epoll, unless it is active.
    fn register(&mut self, at: usize, poll: &OwnedFd) {
        let mut interest = epoll::EventFlags::empty();
        interest.set(epoll::EventFlags::IN, self.connection.wants_more());
        interest.set(epoll::EventFlags::OUT, self.connection.has_more());
        if self.is_active || self.interest == Some(interest) {
            return;
        }
        let token = token(at);
        let registered = match self.interest {
            Some(_) => epoll::modify(poll, self.connection.wire(), token, interest),
            None => epoll::add(poll, self.connection.wire(), token, interest),
        };
        self.interest = registered.is_ok().then_some(interest).or(self.interest);
    }
}

/// The result of polling all active connections.
pub(super) enum Activity {
    /// At least one had traffic.
    Busy,
    /// None had traffic.
    Idle,
    /// None had traffic, and the hosts may need this processor.
    Yielding,
}

/// What follows from polling one connection.
enum Polled {
    Busy,
    Idle,
    Yielding,
    Inactive,
    Closed,
}

/// The connections of one thread.
pub(super) struct Connections {
    pool: Arc<ThreadPool>,
    thread: usize,
    poll: Arc<OwnedFd>,
    slots: Slab<Slot>,
    /// Keys of active connections.
    active: Vec<usize>,
    half_open: HalfOpen,
    /// Connections so far, which numbers them.
    accepted: u64,
    buffer: Vec<u8>,
    spin: SpinBudget,
}

impl Connections {
    /// None yet, of thread `thread`, which waits on `poll`.
    pub fn new(pool: Arc<ThreadPool>, thread: usize, poll: Arc<OwnedFd>) -> Self {
        Self {
            spin: SpinBudget::new(pool.target().options.idle),
            half_open: HalfOpen::new(pool.threads()),
            pool,
            thread,
            poll,
            slots: Slab::new(),
            active: Vec::new(),
            accepted: 0,
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether any are active.
    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// An event of a connection ended a sleep of `slept_ns`, which adapts the spin budget.
    pub fn woke_after(&mut self, slept_ns: u64) {
        self.spin.slept(slept_ns);
    }

    /// Adds an accepted connection, as active.
    pub fn add(&mut self, stream: TcpStream, endpoints: Endpoints) {
        let now_ns = monotonic_ns();
        let entry = self.slots.vacant_entry();
        let at = entry.key();
        let interest = epoll::EventFlags::IN;
        if epoll::add(&self.poll, stream.as_fd(), token(at), interest).is_err() {
            self.pool.release();
            return;
        }
        let target = self.pool.target().clone();
        let connection = Connection::new(stream, target, endpoints, self.thread, now_ns);
        let (interest, number) = (Some(interest), self.accepted);
        self.accepted += 1;
        entry.insert(Slot { connection, number, interest, busy_ns: now_ns, busy_polls: 0, is_active: false });
        self.activate(at, now_ns);
        self.evict_for(HalfOpenConnection { at, number }, now_ns);
    }

    /// Closes the oldest half-open connection if there are too many with this one.
    fn evict_for(&mut self, new: HalfOpenConnection, now_ns: u64) {
        let Self { half_open, slots, .. } = self;
        let is_still = |one: &HalfOpenConnection| {
            let slot = slots.get(one.at);
            slot.is_some_and(|slot| slot.number == one.number && slot.connection.is_half_open())
        };
        let Some(HalfOpenConnection { at, .. }) = half_open.add(new, is_still) else { return };
        if let Some(slot) = self.slots.get_mut(at) {
            slot.connection.end(CloseReason::Crowded, now_ns);
        }
        self.close(at);
    }

    /// Makes a connection active.
    pub fn activate(&mut self, at: usize, now_ns: u64) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        // An event of an active connection is no traffic: its host may take nothing.
        if !std::mem::replace(&mut slot.is_active, true) {
            (slot.busy_ns, slot.busy_polls) = (now_ns, 0);
            self.active.push(at);
        }
    }

    /// Serves each active connection once.
    pub fn serve_active(&mut self, now_ns: u64) -> Activity {
        let (mut index, mut activity) = (0, Activity::Yielding);
        while let Some(at) = self.active.get(index).copied() {
            match self.serve(at, now_ns) {
                Polled::Busy => activity = Activity::Busy,
                Polled::Idle if matches!(activity, Activity::Yielding) => activity = Activity::Idle,
                Polled::Idle | Polled::Yielding => {}
                Polled::Inactive => {
                    self.active.swap_remove(index);
                    self.register(at);
                    continue;
                }
                Polled::Closed => {
                    self.active.swap_remove(index);
                    self.close(at);
                    continue;
                }
            }
            index += 1;
        }
        if self.active.is_empty() { Activity::Idle } else { activity }
    }

    fn serve(&mut self, at: usize, now_ns: u64) -> Polled {
        let Some(slot) = self.slots.get_mut(at) else { return Polled::Closed };
        match slot.connection.serve(&mut self.buffer, now_ns) {
            Progress::Busy => {
                slot.busy_ns = now_ns;
                slot.busy_polls += 1;
                if slot.busy_polls == POLLS_UNTIL_DEREGISTERED {
                    slot.deregister(&self.poll);
                }
                Polled::Busy
            }
            Progress::Idle => match self.spin.next(now_ns.saturating_sub(slot.busy_ns)) {
                Next::Look => Polled::Idle,
                Next::Yield if slot.connection.is_worth_polling() => Polled::Yielding,
                _ => {
                    slot.is_active = false;
                    Polled::Inactive
                }
            },
            Progress::Closed => Polled::Closed,
        }
    }

    /// Sends completions of every connection that waits for some.
    pub fn poll_waiting(&mut self, now_ns: u64) {
        for at in self.keys() {
            let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.connection.waits()) else { continue };
            slot.connection.poll_completions(now_ns);
            match slot.connection.is_over() {
                true => self.activate(at, now_ns),
                false => self.register(at),
            }
        }
    }

    /// Resumes connections that wait for external engines, or that were held back because those were full.
    pub fn resume_external(&mut self, now_ns: u64) {
        for at in self.keys() {
            let Some(slot) = self.slots.get_mut(at) else { continue };
            let has_stash = slot.connection.has_stash();
            if (slot.connection.waits() && slot.connection.poll_completions(now_ns)) || has_stash {
                self.activate(at, now_ns);
            }
        }
    }

    /// Checks the timeouts of each connection, and updates the counters.
    pub fn tick(&mut self, now_ns: u64) {
        self.poll_waiting(now_ns);
        for at in self.keys() {
            let Some(slot) = self.slots.get_mut(at) else { continue };
            let was_over = slot.connection.is_over();
            let is_done = slot.connection.check_time(now_ns);
            match (is_done, slot.connection.is_over() && !was_over) {
                (true, _) => self.close(at),
                (_, true) => self.activate(at, now_ns),
                _ => self.register(at),
            }
        }
        self.count();
    }

    /// Ends and closes all of them.
    pub fn close_all(&mut self, now_ns: u64) {
        for at in self.keys() {
            if let Some(slot) = self.slots.get_mut(at) {
                slot.connection.end(CloseReason::Left, now_ns);
            }
            self.close(at);
        }
    }

    /// The keys in use, where the loop's body may remove any.
    fn keys(&self) -> std::ops::Range<usize> {
        0..self.slots.iter().next_back().map_or(0, |(last, _)| last + 1)
    }

    fn register(&mut self, at: usize) {
        if let Some(slot) = self.slots.get_mut(at) {
            slot.register(at, &self.poll);
        }
    }

    fn close(&mut self, at: usize) {
        let Some(mut slot) = self.slots.try_remove(at) else { return };
        self.active.retain(|active| *active != at);
        // Closing the socket removes it from epoll too, so a failure does not matter.
        let _ = epoll::delete(&self.poll, slot.connection.wire());
        let target = self.pool.target();
        if let Some(why) = slot.connection.why() {
            let (from, why) = (slot.connection.from(), why.to_string());
            debug!(%from, why, "connection ended");
            (target.report)(TargetEvent::ConnectionEnded { from, why });
        }
        self.pool.counters(self.thread).add(slot.connection.take_moved());
        slot.connection.ended().into_iter().for_each(|why| target.counters.end(why));
        self.pool.release();
        if self.slots.is_empty() {
            // No tick follows while a thread has no connections.
            self.count();
        }
    }

    /// Updates this thread's counters.
    fn count(&mut self) {
        let counters = self.pool.counters(self.thread);
        self.slots.iter_mut().for_each(|(_, slot)| counters.add(slot.connection.take_moved()));
        counters.set_states(self.slots.iter().map(|(_, slot)| slot.connection.state()));
    }
}

fn token(at: usize) -> epoll::EventData {
    epoll::EventData::new_u64(FIRST_CONNECTION + at as u64)
}
