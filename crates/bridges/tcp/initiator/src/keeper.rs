//! The thread that owns the admin queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{Deadline, Error, ErrorKind, Payload, Result};
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;

use crate::association::{Association, Post, Reply, Request, gone, plain};
use crate::attach::{ADMIN_DEPTH, connect_admin, outcome, shut_down, start};
use crate::line::Line;

/// The first pause before a lost controller is looked for again; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long the keeper sleeps with nothing to do.
const NAP: Duration = Duration::from_secs(60);

/// Why the keeper stopped serving a connection.
enum Stopped {
    /// Nobody uses it any more.
    Over,
    /// It has ended.
    Lost(String),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The admin queue, and who waits for what on it.
pub(crate) struct Keeper {
    association: Arc<Association>,
    line: Line,
    replies: BTreeMap<u64, Reply>,
    next_tag: u64,
    /// When a sign of life is due.
    next_sign: Option<Instant>,
}

impl Keeper {
    pub fn new(association: Arc<Association>, line: Line) -> Self {
        let mut keeper = Self { association, line, replies: BTreeMap::new(), next_tag: 0, next_sign: None };
        keeper.set_next_sign();
        keeper
    }

    /// Serves until nobody uses the association any more.
    pub fn run(mut self) {
        loop {
            let why = match self.serve() {
                Stopped::Over => return self.close(),
                Stopped::Lost(why) => why,
            };
            self.part(&why);
            if let Err(why) = self.find(&why) {
                return self.give_up(&why);
            }
        }
    }

    fn serve(&mut self) -> Stopped {
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(stopped) => return stopped,
            }
        }
    }

    fn turn(&mut self) -> Result<(), Stopped> {
        self.association.hush();
        if self.association.is_over() {
            return Err(Stopped::Over);
        }
        if let Some(why) = self.association.reported() {
            return Err(Stopped::Lost(why));
        }
        self.take_requests();
        self.give_sign();
        self.line.flush()?;
        while self.line.receive()? {}
        self.hand_out();
        self.expire()?;
        let timeout = self.nap();
        self.line.wait(Some(self.association.bell()), timeout)?;
        Ok(())
    }

    /// Begins the commands that wait, as many as the admin queue takes.
    fn take_requests(&mut self) {
        while self.line.connection.outstanding() < ADMIN_DEPTH {
            let Some(request) = self.association.next_request() else { return };
            self.begin(request);
        }
    }

    fn begin(&mut self, Request { mut order, payload, until, reply }: Request) {
        self.next_tag += 1;
        order.tag = self.next_tag;
        self.replies.insert(order.tag, reply);
        if let Ok(cid) = self.line.connection.begin(order, payload) {
            self.line.connection.set_until(cid, until);
        }
    }

    fn set_next_sign(&mut self) {
        let keep_alive = self.association.peer.options.keep_alive;
        self.next_sign = (!keep_alive.is_zero()).then(|| Instant::now() + keep_alive / 2);
    }

    /// Tells the controller that its host is alive, when it is time to.
    fn give_sign(&mut self) {
        let now = Instant::now();
        if self.next_sign.is_none_or(|next| now < next) {
            return;
        }
        self.set_next_sign();
        let until = now + self.association.peer.options.keep_alive.max(Duration::from_secs(1));
        let order = plain(Entry::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
        self.begin(Request { order, payload: Payload::Empty, until, reply: Reply::KeepAlive });
    }

    fn hand_out(&mut self) {
        while let Some(ended) = self.line.connection.next_ended() {
            if let Some(reply) = self.replies.remove(&ended.tag) {
                reply.give(outcome(ended));
            }
        }
    }

    /// A controller that does not answer an admin command in time is lost.
    fn expire(&mut self) -> Result<(), Stopped> {
        let connection = &mut self.line.connection;
        let Some(cid) = connection.overdue(Instant::now()) else { return Ok(()) };
        connection.give_up(cid, ErrorKind::TimedOut, None);
        connection.unname(cid);
        Err(Stopped::Lost("the controller does not answer admin commands".into()))
    }

    fn nap(&self) -> Duration {
        let due = self.line.connection.first_until().into_iter().chain(self.next_sign).min();
        due.map_or(NAP, |due| due.saturating_duration_since(Instant::now()).min(NAP))
    }

    /// Ends what is left of the connections.
    fn part(&mut self, why: &str) {
        self.line.stream().close();
        self.line.connection.interrupt(why);
        self.association.part();
        self.hand_out();
    }

    /// Looks for the controller until it is found, or given up.
    fn find(&mut self, lost: &str) -> Result<(), String> {
        let deadline = Deadline::after(self.association.peer.options.controller_loss);
        let (mut pause, mut last) = (FIRST_PAUSE, lost.to_owned());
        loop {
            if self.association.is_over() {
                return Err(last);
            }
            match self.connect_all() {
                Ok(()) => return Ok(()),
                Err((why, true)) => return Err(why),
                Err((why, false)) => last = why,
            }
            if deadline.is_over() {
                return Err(last);
            }
            self.rest(pause.min(deadline.left_or_max()));
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Pauses; admin commands that wait are given up in time.
    fn rest(&mut self, pause: Duration) {
        let end = Deadline::after(pause);
        while !end.is_over() && !self.association.is_over() {
            self.association.hush();
            self.take_requests();
            self.expire_kept();
            self.hand_out();
            self.association.doze(end.left_or_max().min(self.nap()).max(Duration::from_millis(1)));
        }
    }

    fn expire_kept(&mut self) {
        let now = Instant::now();
        while let Some(cid) = self.line.connection.overdue(now) {
            self.line.connection.give_up(cid, ErrorKind::TimedOut, None);
        }
    }

    /// Connects the admin queue and every I/O queue; says why not, and whether that is final.
    fn connect_all(&mut self) -> Result<(), (String, bool)> {
        let now = |error: Error| (error.to_string(), false);
        let deadline = Deadline::after(self.association.peer.options.connect_timeout);
        let (mut line, controller) = connect_admin(&self.association.peer, deadline)
            .map_err(|refused| (refused.error.to_string(), refused.is_final))?;
        start(&mut line, deadline).map_err(now)?;
        let mut lines = Vec::new();
        for seat in self.association.seats() {
            let line = self.association.connect(&seat, controller).map_err(now)?;
            lines.push((seat, line));
        }
        self.association.found(controller);
        lines.into_iter().for_each(|(seat, line)| seat.send(Post::Line(Box::new(line))));
        self.line.channel = line.channel;
        self.line.connection.resume(line.connection);
        self.set_next_sign();
        Ok(())
    }

    /// There is no controller any more: whoever asks is told so.
    fn give_up(mut self, why: &str) {
        self.association.is_gone(why);
        self.line.connection.abandon(why);
        self.hand_out();
        while !self.association.is_over() {
            self.association.hush();
            while let Some(request) = self.association.next_request() {
                request.reply.give(Err(gone(why).into()));
            }
            self.association.doze(NAP);
        }
    }

    /// Leaves in order.
    fn close(mut self) {
        while let Some(request) = self.association.next_request() {
            request.reply.give(Err(gone("it was closed").into()));
        }
        if self.line.connection.outstanding() == 0 {
            // A controller that does not hear it finds the connection closed.
            let _ = shut_down(&mut self.line);
        }
        self.line.stream().close();
    }
}
