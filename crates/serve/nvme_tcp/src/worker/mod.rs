//! One thread of a target's pool: it waits for its connections' sockets and serves them to completion.
//!
//! A connection with traffic is active: the thread polls its socket without epoll for as long as [`SpinBudget`] says, because a
//! host at depth 1 sends its next command right after a response. A thread without active connections sleeps in `epoll_wait`.
//!
//! [`SpinBudget`]: byway_sys::SpinBudget

mod connections;
mod served;

use std::io;
use std::sync::Arc;

use byway_sys::time::monotonic_ns;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::acceptor::LISTENERS_MAX;
use crate::options::TargetEvent;
use crate::pool::ThreadPool;

use connections::{Activity, Connections};
use served::Served;

/// Interval of `epoll_wait` while connections are active: after a response, when no next command can have arrived yet, and after
/// an empty poll.
const EPOLL_AFTER_RESPONSE_NS: u64 = 5_000;
const EPOLL_NS: u64 = 20_000;

/// Empty polls of the active connections for one reading of the clock.
const POLLS_PER_CLOCK_READ: u32 = 8;

/// Interval of timeout checks: 100 ms.
const TICK_NS: u64 = 100_000_000;

/// Events of one `epoll_wait`, at most.
const EVENTS: usize = 256;

/// Epoll tokens.
const NOTIFIER: u64 = 0;
const ENGINES: u64 = u64::MAX;
pub const FIRST_LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = FIRST_LISTENER + LISTENERS_MAX as u64;

/// A thread of the pool.
pub struct Worker {
    pool: Arc<ThreadPool>,
    at: usize,
    poll: Arc<OwnedFd>,
    served: Served,
    connections: Connections,
    /// Accepting is paused until the next tick because the process had no free descriptor.
    is_accept_paused: bool,
    ticked_ns: u64,
    /// Time of the last `epoll_wait`.
    polled_ns: u64,
}

impl Worker {
    /// Thread `at` of the pool, which waits on the epoll instance `poll`.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(pool: Arc<ThreadPool>, at: usize, poll: Arc<OwnedFd>) -> io::Result<Self> {
        let token = epoll::EventData::new_u64(NOTIFIER);
        epoll::add(&poll, pool.inbox(at).notifier(), token, epoll::EventFlags::IN)?;
        let connections = Connections::new(pool.clone(), at, poll.clone());
        let served = Served::new(&pool.target().directory, &poll)?;
        Ok(Self { pool, at, poll, served, connections, is_accept_paused: false, ticked_ns: 0, polled_ns: 0 })
    }

    /// Serves until the pool is stopped.
    pub fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let (mut now_ns, mut polls) = (monotonic_ns(), 0u32);
        while !self.pool.is_stopped() {
            let activity = self.connections.serve_active(now_ns);
            polls = polls.wrapping_add(1);
            let is_empty_poll = matches!(activity, Activity::Idle) && self.connections.has_active();
            if is_empty_poll && !polls.is_multiple_of(POLLS_PER_CLOCK_READ) {
                continue;
            }
            now_ns = monotonic_ns();
            let interval_ns = match activity {
                Activity::Busy => EPOLL_AFTER_RESPONSE_NS,
                Activity::Idle => EPOLL_NS,
                Activity::Yielding => {
                    std::thread::yield_now();
                    EPOLL_NS
                }
            };
            if self.served.has_external_commands() {
                self.advance(now_ns);
            }
            if self.connections.has_active() && now_ns.saturating_sub(self.polled_ns) < interval_ns {
                continue;
            }
            self.polled_ns = now_ns;
            if self.wait(&mut events).is_err() || self.check().is_err() {
                self.fail();
                break;
            }
            now_ns = monotonic_ns();
            self.tick(now_ns);
        }
        self.connections.close_all(monotonic_ns());
    }

    /// Checks for failed devices and a changed directory.
    fn check(&mut self) -> io::Result<()> {
        let target = self.pool.target();
        self.served.check(&target.directory, &self.poll, |event| (target.report)(event))
    }

    /// Stops the target: every device failed, or epoll did.
    #[cold]
    fn fail(&self) {
        (self.pool.target().report)(TargetEvent::DeviceFailed);
        self.pool.stop();
    }

    /// Takes epoll events: without waiting while connections are active, else until there is one.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let is_idle = !self.connections.has_active() && !self.served.must_poll_engines();
        let is_idle = is_idle && !self.served.keep_up();
        let timeout_ns = match (is_idle, !self.connections.is_empty() || self.is_accept_paused) {
            (false, _) => Some(0),
            (true, true) => Some(TICK_NS),
            (true, false) => None,
        };
        let timeout = timeout_ns.map(|ns| Timespec { tv_sec: 0, tv_nsec: ns as i64 });
        let mut slept_from_ns = if self.connections.has_active() { None } else { Some(monotonic_ns()) };
        events.clear();
        match epoll::wait(&self.poll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now_ns = if events.is_empty() { 0 } else { monotonic_ns() };
        for event in events.iter() {
            match event.data.u64() {
                NOTIFIER => self.take_notifications(),
                ENGINES => self.advance(monotonic_ns()),
                token if token < FIRST_CONNECTION => self.accept((token - FIRST_LISTENER) as usize),
                token => {
                    if let Some(from_ns) = slept_from_ns.take() {
                        self.connections.woke_after(now_ns - from_ns);
                    }
                    self.connections.activate((token - FIRST_CONNECTION) as usize, now_ns);
                }
            }
        }
        Ok(())
    }

    /// Takes connections from the inbox, and sends completions that devices reported.
    fn take_notifications(&mut self) {
        let pool = self.pool.clone();
        // Cleared before taking: what arrives later signals again.
        pool.inbox(self.at).notifier().lower();
        for (stream, endpoints) in pool.inbox(self.at).take() {
            self.connections.add(stream, endpoints);
        }
        self.connections.poll_waiting(monotonic_ns());
    }

    /// Completes commands that external engines have finished, and sends the responses.
    fn advance(&mut self, now_ns: u64) {
        if !self.served.advance() {
            return;
        }
        if self.pool.threads() > 1 {
            // Some completions belong to connections of other threads.
            self.pool.notify_all();
        }
        self.connections.resume_external(now_ns);
    }

    /// Accepts from listening socket `at` and hands each connection to a thread.
    fn accept(&mut self, at: usize) {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        let Some(listener) = self.pool.acceptor().at(at) else { return };
        loop {
            match listener.accept() {
                Ok((stream, endpoints)) => self.assign(stream, endpoints),
                Err(error) if matches!(error.kind(), ConnectionAborted | Interrupted) => {}
                Err(error) if error.kind() == WouldBlock => return,
                Err(_) => return self.set_accepting(false),
            }
        }
    }

    /// Gives a connection to the next thread; drops it where too many are open.
    fn assign(&mut self, stream: std::net::TcpStream, endpoints: crate::endpoints::Endpoints) {
        match self.pool.admit() {
            None => {}
            Some(thread) if thread == self.at => self.connections.add(stream, endpoints),
            Some(thread) => self.pool.inbox(thread).put(stream, endpoints),
        }
    }

    fn set_accepting(&mut self, is_on: bool) {
        self.is_accept_paused = !is_on;
        self.pool.acceptor().set_open(is_on);
    }

    /// Checks the timeouts of each connection, at most every [`TICK_NS`].
    fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.ticked_ns) < TICK_NS {
            return;
        }
        self.ticked_ns = now_ns;
        if self.is_accept_paused {
            self.set_accepting(true);
        }
        self.connections.tick(now_ns);
    }
}
