//! The admin queue: its connection, the receivers of its results, and the Aborts that wait for the controller's limit (ACL).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use byway_core::{ErrorKind, Outcome, Result};

use crate::association::{Reply, Request};
use crate::attach::{ADMIN_DEPTH, shut_down};
use crate::connection::Ended;
use crate::line::Line;

/// The admin queue, and the receivers of its results.
pub(super) struct AdminQueue {
    line: Line,
    replies: BTreeMap<u64, Reply>,
    next_tag: u64,
    /// Aborts that wait until the controller takes another.
    aborts: VecDeque<Request>,
    /// Aborts that it takes at once.
    abort_limit: usize,
}

impl AdminQueue {
    /// Without a connection. One that `gives_back` fails its commands when a connection ends, whether they could be sent again or
    /// not.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn unconnected(gives_back: bool) -> Result<Self> {
        let mut line = Line::awaited(ADMIN_DEPTH)?;
        if gives_back {
            line.connection.give_back();
        }
        Ok(Self { line, replies: BTreeMap::new(), next_tag: 0, aborts: VecDeque::new(), abort_limit: 1 })
    }

    /// Goes on over another connection, with a controller that takes so many Aborts at once.
    pub fn resume(&mut self, line: Line, abort_limit: usize) {
        self.line.channel = line.channel;
        self.line.connection.resume(line.connection);
        self.abort_limit = abort_limit;
    }

    pub fn has_room(&self) -> bool {
        self.line.connection.outstanding() < ADMIN_DEPTH
    }

    pub fn begin(&mut self, Request { mut order, payload, until, reply }: Request) {
        self.next_tag += 1;
        order.tag = self.next_tag;
        self.replies.insert(order.tag, reply);
        if let (Ok(cid), Some(until)) = (self.line.connection.begin(order, payload), until) {
            self.line.connection.set_until(cid, until);
        }
    }

    /// Has an Abort wait for its turn.
    pub fn add_abort(&mut self, request: Request) {
        self.aborts.push_back(request);
    }

    /// The next Abort to send, to be answered within `timeout`; none while as many as the controller takes are outstanding. Aborts
    /// of earlier generations of connections end unsent.
    pub fn next_abort(&mut self, generation: u64, timeout: Duration) -> Option<Request> {
        let sent = self.replies.values().filter(|reply| matches!(reply, Reply::Abort(..))).count();
        if sent >= self.abort_limit || !self.line.connection.is_open() {
            return None;
        }
        while let Some(request) = self.aborts.pop_front() {
            let Reply::Abort(abort, _) = &request.reply else { continue };
            if abort.generation == generation && abort.begin() {
                return Some(Request { until: Some(Instant::now() + timeout), ..request });
            }
            request.reply.give(Ok(Outcome::default()));
        }
        None
    }

    /// Sends what waits, as much as there is room for.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn flush(&mut self) -> Result<()> {
        self.line.flush().map(drop)
    }

    /// Takes all that was received.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn receive(&mut self) -> Result<()> {
        self.line.receive_all()
    }

    /// Sleeps until something can be received or sent, or `other` can be read.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait(&self, other: BorrowedFd<'_>, timeout: Duration) -> Result<()> {
        self.line.wait(Some(other), timeout).map(drop)
    }

    /// The next command that has ended, with the receiver of its result.
    pub fn next_ended(&mut self) -> Option<(Reply, Ended)> {
        loop {
            let ended = self.line.connection.next_ended()?;
            if let Some(reply) = self.replies.remove(&ended.tag) {
                return Some((reply, ended));
            }
        }
    }

    /// The earliest time by which a command must have been answered.
    pub fn first_until(&self) -> Option<Instant> {
        self.line.connection.first_until()
    }

    /// Gives up a command that the controller has not answered in time; says whether there is one.
    pub fn give_up_overdue(&mut self) -> bool {
        let overdue = self.line.connection.overdue(Instant::now());
        if let Some(cid) = overdue {
            self.line.connection.give_up(cid, ErrorKind::TimedOut, None);
            self.line.connection.unname(cid);
        }
        overdue.is_some()
    }

    /// Gives up the commands that wait for a connection and whose time is over.
    pub fn expire_kept(&mut self) {
        let now = Instant::now();
        while let Some(cid) = self.line.connection.overdue(now) {
            self.line.connection.give_up(cid, ErrorKind::TimedOut, None);
        }
    }

    /// The connection has ended. What can be sent again waits for another.
    pub fn interrupt(&mut self, why: &str) {
        self.line.stream().close();
        self.line.connection.interrupt(why);
    }

    /// There will be no other connection: fails what waits.
    pub fn abandon(&mut self, why: &str) {
        self.line.connection.abandon(why);
    }

    /// Ends Aborts whose commands were of the lost connections: the next controller has other commands by these names.
    pub fn end_aborts(&mut self) {
        let aborts = self.replies.iter().filter(|(_, reply)| matches!(reply, Reply::Abort(..)));
        for cid in aborts.filter_map(|(tag, _)| self.line.connection.find(*tag, false)).collect::<Vec<_>>() {
            self.line.connection.give_up(cid, ErrorKind::Cancelled, None);
        }
        self.end_unsent_aborts();
    }

    pub fn end_unsent_aborts(&mut self) {
        self.aborts.drain(..).for_each(|request| request.reply.give(Ok(Outcome::default())));
    }

    /// Shuts the controller down unless it has commands of callers, and closes the connection.
    pub fn close(&mut self) {
        if self.replies.values().all(|reply| matches!(reply, Reply::Event)) {
            // A controller that does not hear it finds the connection closed.
            let _ = shut_down(&mut self.line);
        }
        self.line.stream().close();
    }
}
