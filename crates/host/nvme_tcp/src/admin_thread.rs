//! The thread that owns the admin queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{Deadline, Error, ErrorKind, Failed, Outcome, Payload, Result};
use byway_fabrics::ControllerId;
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use tracing::{debug, info, warn};

use crate::ana::{AnaFacts, States, event_request, is_of_states};
use crate::association::{Association, Post, Registration, Reply, Request};
use crate::attach::{ADMIN_DEPTH, Attached, attach, shut_down};
use crate::connection::Ended;
use crate::line::Line;
use crate::order::{order_of_admin, plain};
use crate::peer::Peer;
use crate::result::{gone, outcome};

/// The first pause before a lost controller is looked for again; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long the admin thread sleeps with nothing to do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the admin thread stopped serving a connection.
enum Stopped {
    /// The association was closed.
    Over,
    /// It has ended.
    Lost(String),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The admin queue, and the receivers of its results.
pub(crate) struct AdminThread {
    association: Arc<Association>,
    line: Line,
    replies: BTreeMap<u64, Reply>,
    next_tag: u64,
    /// Aborts that wait until the controller takes another.
    aborts: VecDeque<Request>,
    /// Aborts that it takes at once.
    abort_limit: usize,
    /// The controller supports Keep Alive.
    has_keep_alive: bool,
    /// When a Keep Alive is due.
    next_keep_alive: Option<Instant>,
    /// Why there is no connection yet.
    awaited: Option<String>,
    /// When open queues that the controller no longer grants fail.
    beyond_grant: Option<Instant>,
    /// ANA states and when to read them, where there are several paths.
    ana: Option<StateReading>,
}

/// When the ANA states of a controller are read.
struct StateReading {
    facts: AnaFacts,
    /// When they are to be read.
    due: Option<Instant>,
    /// The log page is outstanding.
    is_asked: bool,
    /// Since when a namespace is between two states.
    changing: Option<Instant>,
}

/// How long a namespace may be between two states before the controller is asked again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl AdminThread {
    /// Of a controller that was found.
    ///
    /// # Errors
    /// When it does not report its ANA states.
    pub fn new(association: Arc<Association>, attached: Attached) -> Result<Self> {
        let mut admin_thread = Self::unconnected(association, Line::awaited(ADMIN_DEPTH)?);
        admin_thread.begin_with(attached, Vec::new())?;
        Ok(admin_thread)
    }

    /// Of a controller that is to be found yet, and why.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn awaiting(association: Arc<Association>, why: String) -> Result<Self> {
        let admin_thread = Self::unconnected(association, Line::awaited(ADMIN_DEPTH)?);
        Ok(Self { awaited: Some(why), ..admin_thread })
    }

    fn unconnected(association: Arc<Association>, mut line: Line) -> Self {
        if association.path.is_some() {
            line.connection.give_back();
        }
        Self {
            association,
            line,
            replies: BTreeMap::new(),
            next_tag: 0,
            aborts: VecDeque::new(),
            abort_limit: 1,
            has_keep_alive: false,
            next_keep_alive: None,
            awaited: None,
            beyond_grant: None,
            ana: None,
        }
    }

    /// Serves until the association is closed.
    pub fn run(mut self) {
        loop {
            let why = match self.awaited.take() {
                Some(why) => why,
                None => match self.serve() {
                    Stopped::Over => return self.close(),
                    Stopped::Lost(why) => {
                        warn!(portal = %self.association.peer.shown(), why, "controller lost");
                        self.part(&why);
                        why
                    }
                },
            };
            if let Err(why) = self.find(&why) {
                return self.give_up(&why);
            }
        }
    }

    fn serve(&mut self) -> Stopped {
        if self.ana.as_ref().is_some_and(|ana| ana.facts.events) {
            self.ask_for_event();
        }
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(stopped) => return stopped,
            }
        }
    }

    fn turn(&mut self) -> Result<(), Stopped> {
        self.association.clear_notifier();
        if self.association.is_over() {
            return Err(Stopped::Over);
        }
        if let Some(why) = self.association.reported() {
            return Err(Stopped::Lost(why));
        }
        self.take_requests();
        self.send_keep_alive();
        self.ask_for_states()?;
        self.line.flush()?;
        while self.line.receive()? {}
        self.hand_out();
        // An answer makes room for an Abort that waits.
        self.take_requests();
        self.line.flush()?;
        self.expire()?;
        self.expire_queues();
        let timeout = self.next_timeout();
        self.line.wait(Some(self.association.notifier()), timeout)?;
        Ok(())
    }

    /// Begins the commands that wait, as many as the admin queue takes.
    fn take_requests(&mut self) {
        while self.line.connection.outstanding() < ADMIN_DEPTH {
            let Some(request) = self.next_request() else { return };
            self.begin(request);
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        while let Some(request) = self.association.next_request() {
            match request.reply {
                Reply::Abort(..) => self.aborts.push_back(request),
                _ => return Some(request),
            }
        }
        self.next_abort()
    }

    /// The next Abort to send; none while `abort_limit` are outstanding. Aborts of earlier connections end unsent.
    fn next_abort(&mut self) -> Option<Request> {
        let sent = self.replies.values().filter(|reply| matches!(reply, Reply::Abort(..))).count();
        if sent >= self.abort_limit || !self.line.connection.is_open() {
            return None;
        }
        let generation = self.association.generation();
        while let Some(request) = self.aborts.pop_front() {
            let Reply::Abort(abort, _) = &request.reply else { continue };
            if abort.generation == generation && abort.begin() {
                let until = Some(Instant::now() + self.association.peer.options.admin_timeout);
                return Some(Request { until, ..request });
            }
            request.reply.give(Ok(Outcome::default()));
        }
        None
    }

    fn begin(&mut self, Request { mut order, payload, until, reply }: Request) {
        self.next_tag += 1;
        order.tag = self.next_tag;
        self.replies.insert(order.tag, reply);
        if let (Ok(cid), Some(until)) = (self.line.connection.begin(order, payload), until) {
            self.line.connection.set_until(cid, until);
        }
    }

    fn ask_for_event(&mut self) {
        let order = event_request();
        self.begin(Request { order, payload: Payload::Empty, until: None, reply: Reply::Event });
    }

    /// Reads the ANA states when due. A controller that stays in a change for longer than ANATT counts as lost.
    fn ask_for_states(&mut self) -> Result<(), Stopped> {
        let now = Instant::now();
        let are_stale = self.association.take_stale_states();
        let Some(ana) = &mut self.ana else {
            // There is nothing to be asked: the states that commands met are taken for passing.
            let path = self.association.path.as_ref().filter(|_| are_stale);
            path.into_iter().for_each(|path| path.set_states(States::default()));
            return Ok(());
        };
        if ana.changing.is_some_and(|since| now.duration_since(since) > ana.facts.transition) {
            let said = "the controller took longer for a change of paths than it said";
            return Err(Stopped::Lost(said.into()));
        }
        let is_due = are_stale || ana.due.is_some_and(|due| due <= now);
        if !is_due || ana.is_asked {
            return Ok(());
        }
        (ana.is_asked, ana.due) = (true, None);
        let question = ana.facts.question()?;
        let order = order_of_admin(&question, 0);
        let until = Some(now + self.association.peer.options.admin_timeout);
        self.begin(Request { order, payload: question.into_payload(), until, reply: Reply::States });
        Ok(())
    }

    /// The controller reported its ANA states.
    fn note_states(&mut self, states: States) {
        let Some(ana) = &mut self.ana else { return };
        let now = Instant::now();
        ana.is_asked = false;
        if states.is_changing() {
            ana.changing.get_or_insert(now);
            ana.due = Some(now + LOOK_AGAIN);
        } else {
            ana.changing = None;
        }
        if let Some(path) = &self.association.path {
            path.set_states(states);
        }
    }

    fn set_next_keep_alive(&mut self) {
        let keep_alive = self.association.peer.options.keep_alive;
        let is_due = self.has_keep_alive && !keep_alive.is_zero();
        self.next_keep_alive = is_due.then(|| Instant::now() + keep_alive / 2);
    }

    /// Sends a Keep Alive when due.
    fn send_keep_alive(&mut self) {
        let now = Instant::now();
        if self.next_keep_alive.is_none_or(|next| now < next) {
            return;
        }
        self.set_next_keep_alive();
        let until = Some(now + self.association.peer.options.keep_alive.max(Duration::from_secs(1)));
        let order = plain(Entry::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
        self.begin(Request { order, payload: Payload::Empty, until, reply: Reply::KeepAlive });
    }

    fn hand_out(&mut self) {
        while let Some(ended) = self.line.connection.next_ended() {
            match self.replies.remove(&ended.tag) {
                Some(Reply::Event) => self.take_event(ended),
                Some(Reply::States) => self.take_states(ended),
                Some(reply) => reply.give(outcome(ended)),
                None => {}
            }
        }
    }

    fn take_event(&mut self, ended: Ended) {
        // One that fails is of a controller that is lost, or has no room for requests of events.
        let Ok(event) = outcome(ended) else { return };
        if let Some(ana) = self.ana.as_mut().filter(|_| is_of_states(event.dw0())) {
            ana.due = Some(Instant::now());
        }
        self.ask_for_event();
    }

    fn take_states(&mut self, ended: Ended) {
        let page = outcome(ended).ok().and_then(|outcome| outcome.buffer);
        match (page, &mut self.ana) {
            (Some(page), _) => self.note_states(States::of(page.as_slice())),
            (None, Some(ana)) => {
                (ana.is_asked, ana.due) = (false, Some(Instant::now() + LOOK_AGAIN));
            }
            (None, None) => {}
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

    /// Sets when open queues that the controller no longer grants fail, if there are any. With several paths none fails: commands
    /// go by another path.
    fn wait_for_grant(&mut self) {
        let waits = self.association.path.is_none() && self.association.has_queues_beyond_grant();
        let end = || Instant::now().checked_add(self.association.peer.options.controller_loss);
        self.beyond_grant = waits.then(|| self.beyond_grant.or_else(end)).flatten();
    }

    fn expire_queues(&mut self) {
        if self.beyond_grant.is_some_and(|end| end <= Instant::now()) {
            self.beyond_grant = None;
            warn!(portal = %self.association.peer.shown(), "queues beyond the controller's grant given up");
            self.association.give_up_queues_beyond_grant();
        }
    }

    fn next_timeout(&self) -> Duration {
        let asking = self.ana.as_ref().filter(|ana| !ana.is_asked).and_then(|ana| ana.due);
        let due = self.line.connection.first_until().into_iter().chain(self.next_keep_alive);
        timeout_until(due.chain(asking).chain(self.beyond_grant).min())
    }

    /// Ends what is left of the connections.
    fn part(&mut self, why: &str) {
        self.line.stream().close();
        self.line.connection.interrupt(why);
        if let Some(path) = &self.association.path {
            path.set_lost(why, self.association.facts().ends_within);
        }
        self.association.part();
        (self.ana, self.next_keep_alive) = (None, None);
        self.end_aborts();
        self.hand_out();
        if self.association.path.is_some() {
            self.refuse_requests(why);
        }
    }

    /// Ends Aborts whose commands were of the lost connections: the next controller has other commands by these names.
    fn end_aborts(&mut self) {
        let aborts = self.replies.iter().filter(|(_, reply)| matches!(reply, Reply::Abort(..)));
        for cid in aborts.filter_map(|(tag, _)| self.line.connection.find(*tag, false)).collect::<Vec<_>>() {
            self.line.connection.give_up(cid, ErrorKind::Cancelled, None);
        }
        self.end_unsent_aborts();
    }

    fn end_unsent_aborts(&mut self) {
        self.aborts.drain(..).for_each(|request| request.reply.give(Ok(Outcome::default())));
    }

    fn refuse_requests(&self, why: &str) {
        while let Some(request) = self.association.next_request() {
            request.reply.give(Err(Failed::with_memory(gone(why), request.payload)));
        }
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
            debug!(portal = %self.association.peer.shown(), why = last, "reconnect failed");
            if let Some(path) = &self.association.path {
                path.still_away(&last);
            }
            let left = self.time_left(deadline);
            if left.is_zero() {
                return Err(last);
            }
            self.rest(pause.min(left));
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// How long the controller is looked for still: as one of several paths, for as long as others stand.
    fn time_left(&self, deadline: Deadline) -> Duration {
        let controller_loss = self.association.peer.options.controller_loss;
        match &self.association.path {
            None => deadline.left_or_max(),
            Some(path) => {
                path.all_away_for().map_or(Duration::MAX, |away| controller_loss.saturating_sub(away))
            }
        }
    }

    /// Pauses; admin commands that wait are given up in time.
    fn rest(&mut self, pause: Duration) {
        let end = Deadline::after(pause);
        while !end.is_over() && !self.association.is_over() {
            self.association.clear_notifier();
            self.take_requests();
            self.expire_kept();
            self.hand_out();
            // Without a connection only commands that wait are due: queues beyond the grant fail after it is back.
            let timeout = timeout_until(self.line.connection.first_until());
            self.association.park(end.left_or_max().min(timeout).max(Duration::from_millis(1)));
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
        let attached = attach(&self.association.peer)
            .map_err(|refused| (refused.error.to_string(), refused.is_final))?;
        if let Some(path) = &self.association.path {
            path.check(&attached.facts).map_err(|error| (error.to_string(), true))?;
        }
        let mut lines = Vec::new();
        for registration in self.association.number_queues(attached.facts.queues()) {
            let line =
                self.association.connect(&registration, attached.controller, &attached.facts).map_err(now)?;
            lines.push((registration, line));
        }
        self.begin_with(attached, lines).map_err(now)
    }

    /// Goes on with a controller that was found, and the connections of the queues at it.
    fn begin_with(&mut self, mut attached: Attached, lines: Vec<(Arc<Registration>, Line)>) -> Result<()> {
        let association = Arc::clone(&self.association);
        let states = match &association.path {
            Some(_) => attached.states(&association.peer)?,
            None => States::default(),
        };
        let Attached { line, controller, facts } = attached;
        let generation = association.generation();
        let telling = |facts| StateReading { facts, due: None, is_asked: false, changing: None };
        (self.has_keep_alive, self.abort_limit) = (facts.keep_alive, facts.aborts);
        self.ana = facts.ana.filter(|_| association.path.is_some()).map(telling);
        log_connected(&association.peer, controller, generation, facts.queues());
        association.set_controller(controller, facts);
        self.note_states(states.clone());
        lines
            .into_iter()
            .for_each(|(registration, line)| registration.send(Post::Line(Box::new(line), generation)));
        if let Some(path) = &association.path {
            path.set_live(generation, controller, states);
        }
        self.line.channel = line.channel;
        self.line.connection.resume(line.connection);
        self.set_next_keep_alive();
        self.wait_for_grant();
        Ok(())
    }

    /// The controller is given up: every later request fails with the reason.
    fn give_up(mut self, why: &str) {
        if !self.association.is_over() {
            warn!(portal = %self.association.peer.shown(), why, "controller given up");
        }
        self.association.give_up(why);
        if let Some(path) = &self.association.path {
            path.give_up(why);
        }
        self.line.connection.abandon(why);
        self.hand_out();
        self.end_unsent_aborts();
        while !self.association.is_over() {
            self.association.clear_notifier();
            while let Some(request) = self.association.next_request() {
                request.reply.give(Err(gone(why).into()));
            }
            self.association.park(IDLE_TIMEOUT);
        }
    }

    /// Leaves in order.
    fn close(mut self) {
        while let Some(request) = self.association.next_request() {
            request.reply.give(Err(gone("it was closed").into()));
        }
        self.end_unsent_aborts();
        if self.replies.values().all(|reply| matches!(reply, Reply::Event)) {
            // A controller that does not hear it finds the connection closed.
            let _ = shut_down(&mut self.line);
        }
        self.line.stream().close();
        debug!(portal = %self.association.peer.shown(), "controller closed");
    }
}

/// Logs the first connection to a controller, or a later one.
fn log_connected(peer: &Peer, ControllerId(controller): ControllerId, generation: u64, queues: u16) {
    let portal = peer.shown();
    match generation {
        0 => debug!(%portal, controller, queues, "controller connected"),
        _ => info!(%portal, controller, queues, "controller reconnected"),
    }
}

/// How long to sleep until `due`.
fn timeout_until(due: Option<Instant>) -> Duration {
    due.map_or(IDLE_TIMEOUT, |due| due.saturating_duration_since(Instant::now()).min(IDLE_TIMEOUT))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::association::tests::unreachable;

    /// How often this thread has slept.
    fn sleeps() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    }

    #[test]
    fn admin_thread_sleeps_through_its_pause_while_the_controller_is_away() {
        let mut thread = AdminThread::awaiting(unreachable(), "away".into()).unwrap();
        let past = Instant::now();
        (thread.next_keep_alive, thread.beyond_grant) = (Some(past), Some(past));
        thread.part("away");
        let before = sleeps();
        thread.rest(Duration::from_millis(200));
        assert!(past.elapsed() >= Duration::from_millis(200));
        assert!(sleeps() - before < 10, "it slept {} times", sleeps() - before);
        assert_eq!(thread.beyond_grant, Some(past));
    }

    #[test]
    fn aborts_that_wait_end_when_the_controller_is_given_up_or_closed() {
        for end in [|thread: AdminThread| thread.give_up("away"), AdminThread::close] {
            let association = unreachable();
            let mut thread = AdminThread::awaiting(Arc::clone(&association), "away".into()).unwrap();
            let abort = association.abort(&association.registration(), 1, association.generation());
            thread.take_requests();
            assert!(!abort.is_over());
            association.end();
            end(thread);
            assert!(abort.is_over());
        }
    }
}
