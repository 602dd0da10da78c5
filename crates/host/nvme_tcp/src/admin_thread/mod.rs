//! The thread that owns the admin queue.

mod keep_alive;
mod path_states;
mod queue;
mod reconnected;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{Deadline, Error, Failed, Result};
use byway_fabrics::ControllerId;
use tracing::{debug, info, warn};

use keep_alive::KeepAlive;
use path_states::PathStates;
use queue::AdminQueue;
use reconnected::Reconnected;

use crate::ana::States;
use crate::association::{Association, Reply, Request};
use crate::attach::{Attached, attach};
use crate::backoff::Backoff;
use crate::peer::Peer;
use crate::result::{NotAttached, gone, outcome};

/// First pause between two attempts to reconnect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between two attempts to reconnect.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long the admin thread sleeps with nothing to do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the admin thread stopped serving a connection.
enum Stopped {
    /// The association was closed.
    Over,
    /// The connection has ended, for this reason.
    Lost(String),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The thread that owns the admin queue.
pub(crate) struct AdminThread {
    association: Arc<Association>,
    queue: AdminQueue,
    keep_alive: KeepAlive,
    /// Why the first attempt to connect failed, if [`run`](Self::run) has to reconnect first.
    awaited: Option<String>,
    /// When open queues that the controller no longer grants fail.
    beyond_grant: Option<Instant>,
    /// The ANA states, where there are several paths.
    states: Option<PathStates>,
}

impl AdminThread {
    /// Of a controller that was found.
    ///
    /// # Errors
    /// When it does not report its ANA states.
    pub fn new(association: Arc<Association>, attached: Attached) -> Result<Self> {
        let mut admin_thread = Self::unconnected(association)?;
        admin_thread.begin_with(attached, Reconnected::default())?;
        Ok(admin_thread)
    }

    /// Of a controller that is to be found yet, and why.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn awaiting(association: Arc<Association>, why: String) -> Result<Self> {
        Ok(Self { awaited: Some(why), ..Self::unconnected(association)? })
    }

    fn unconnected(association: Arc<Association>) -> Result<Self> {
        let timeout = association.peer.options.admin_timeout;
        Ok(Self {
            queue: AdminQueue::unconnected(association.path.is_some())?,
            keep_alive: KeepAlive::new(association.peer.options.keep_alive),
            states: association.path.clone().map(|path| PathStates::new(path, timeout)),
            association,
            awaited: None,
            beyond_grant: None,
        })
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
        self.ask_for_event();
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(stopped) => return stopped,
            }
        }
    }

    fn turn(&mut self) -> Result<(), Stopped> {
        self.association.notifier().lower();
        if self.association.is_over() {
            return Err(Stopped::Over);
        }
        if let Some(why) = self.association.take_report() {
            return Err(Stopped::Lost(why));
        }
        self.take_requests();
        self.keep_alive.next_request().into_iter().for_each(|request| self.queue.begin(request));
        self.ask_for_states()?;
        self.queue.flush()?;
        self.queue.receive()?;
        self.hand_out();
        // An answer makes room for an Abort that waits.
        self.take_requests();
        self.queue.flush()?;
        // A controller that does not answer an admin command in time is lost.
        if self.queue.give_up_overdue() {
            return Err(Stopped::Lost("the controller does not answer admin commands".into()));
        }
        self.expire_queues();
        self.queue.wait(self.association.notifier().as_fd(), self.next_timeout())?;
        Ok(())
    }

    /// Begins the commands that wait, as many as the admin queue takes.
    fn take_requests(&mut self) {
        while self.queue.has_room() {
            let Some(request) = self.next_request() else { return };
            self.queue.begin(request);
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        while let Some(request) = self.association.next_request() {
            match request.reply {
                Reply::Abort(..) => self.queue.add_abort(request),
                _ => return Some(request),
            }
        }
        self.queue.next_abort(self.association.generation(), self.association.peer.options.admin_timeout)
    }

    fn ask_for_event(&mut self) {
        if let Some(request) = self.states.as_ref().and_then(PathStates::event_request) {
            self.queue.begin(request);
        }
    }

    /// Reads the ANA states when due.
    fn ask_for_states(&mut self) -> Result<()> {
        let are_stale = self.association.take_stale_states();
        if let Some(states) = &mut self.states
            && let Some(request) = states.next_request(are_stale)?
        {
            self.queue.begin(request);
        }
        Ok(())
    }

    fn hand_out(&mut self) {
        while let Some((reply, ended)) = self.queue.next_ended() {
            match (reply, &mut self.states) {
                (Reply::Event, Some(states)) => {
                    states.take_event(ended).into_iter().for_each(|request| self.queue.begin(request));
                }
                (Reply::States, Some(states)) => states.take_page(ended),
                (reply, _) => reply.give(outcome(ended)),
            }
        }
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
        let asking = self.states.as_ref().and_then(PathStates::due);
        let due = self.queue.first_until().into_iter().chain(self.keep_alive.next());
        timeout_until(due.chain(asking).chain(self.beyond_grant).min())
    }

    /// Ends what is left of the connections.
    fn part(&mut self, why: &str) {
        self.queue.interrupt(why);
        if let Some(path) = &self.association.path {
            path.set_lost(why, self.association.facts().ends_within);
        }
        self.association.part();
        self.states.iter_mut().for_each(PathStates::end);
        self.keep_alive.stop();
        self.queue.end_aborts();
        self.hand_out();
        if self.association.path.is_some() {
            self.refuse_requests(why);
        }
    }

    /// Sleeps until there is something to do, at most so long.
    fn park(&self, timeout: Duration) {
        // Without a wait the admin thread polls again.
        let _ = self.association.notifier().wait(timeout);
    }

    fn refuse_requests(&self, why: &str) {
        while let Some(request) = self.association.next_request() {
            request.reply.give(Err(Failed::with_memory(gone(why), request.payload)));
        }
    }

    /// Looks for the controller until it is found, or given up.
    fn find(&mut self, lost: &str) -> Result<(), String> {
        let deadline = Deadline::after(self.association.peer.options.controller_loss);
        let (mut backoff, mut last) = (Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), lost.to_owned());
        loop {
            if self.association.is_over() {
                return Err(last);
            }
            match self.reconnect() {
                Ok(()) => return Ok(()),
                Err(NotAttached { error, is_final: true }) => return Err(error.to_string()),
                Err(NotAttached { error, .. }) => last = error.to_string(),
            }
            debug!(portal = %self.association.peer.shown(), why = last, "reconnect failed");
            if let Some(path) = &self.association.path {
                path.still_away(&last);
            }
            let left = self.time_left(deadline);
            if left.is_zero() {
                return Err(last);
            }
            self.pause(backoff.pause().min(left));
        }
    }

    /// Time left to reconnect. With several paths it counts from the loss of the last live one.
    fn time_left(&self, deadline: Deadline) -> Duration {
        let controller_loss = self.association.peer.options.controller_loss;
        match &self.association.path {
            None => deadline.left_or_max(),
            Some(path) => {
                path.all_away_for().map_or(Duration::MAX, |away| controller_loss.saturating_sub(away))
            }
        }
    }

    /// Sleeps this long between two attempts to reconnect; admin commands fail at their deadlines meanwhile.
    fn pause(&mut self, time: Duration) {
        let end = Deadline::after(time);
        while !end.is_over() && !self.association.is_over() {
            self.association.notifier().lower();
            self.take_requests();
            self.queue.expire_kept();
            self.hand_out();
            // Without a connection only commands that wait are due: queues beyond the grant fail after it is back.
            let timeout = timeout_until(self.queue.first_until());
            self.park(end.left_or_max().min(timeout).max(Duration::from_millis(1)));
        }
    }

    fn reconnect(&mut self) -> Result<(), NotAttached> {
        let attached = attach(&self.association.peer)?;
        if let Some(path) = &self.association.path {
            path.check(&attached.facts).map_err(|error| NotAttached { error, is_final: true })?;
        }
        let queues = Reconnected::new(&self.association, &attached)?;
        Ok(self.begin_with(attached, queues)?)
    }

    /// Goes on with a controller that was found, and the connections of the queues at it.
    fn begin_with(&mut self, mut attached: Attached, queues: Reconnected) -> Result<()> {
        let association = Arc::clone(&self.association);
        let states = match &association.path {
            Some(_) => attached.states(&association.peer)?,
            None => States::default(),
        };
        let Attached { line, controller, facts } = attached;
        let generation = association.generation();
        let (ana, abort_limit, has_keep_alive) = (facts.ana, facts.aborts, facts.keep_alive);
        log_connected(&association.peer, controller, generation, facts.queues());
        association.set_controller(controller, facts);
        self.states.iter_mut().for_each(|path| path.begin(ana, states.clone()));
        queues.hand_out(generation);
        if let Some(path) = &association.path {
            path.set_live(generation, controller, states);
        }
        self.queue.resume(line, abort_limit);
        self.keep_alive.start(has_keep_alive);
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
        self.queue.abandon(why);
        self.hand_out();
        self.queue.end_unsent_aborts();
        while !self.association.is_over() {
            self.association.notifier().lower();
            while let Some(request) = self.association.next_request() {
                request.reply.give(Err(gone(why).into()));
            }
            self.park(IDLE_TIMEOUT);
        }
    }

    /// Leaves in order.
    fn close(mut self) {
        while let Some(request) = self.association.next_request() {
            request.reply.give(Err(gone("it was closed").into()));
        }
        self.queue.end_unsent_aborts();
        self.queue.close();
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
