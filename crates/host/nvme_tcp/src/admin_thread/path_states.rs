//! The ANA states of one path of several: when they are read, and what they are.

use std::time::{Duration, Instant};

use byway_core::{Error, ErrorKind, Payload, Result};

use crate::ana::{AnaFacts, States, event_request, is_of_states};
use crate::association::{Reply, Request};
use crate::connection::Ended;
use crate::order::order_of_admin;
use crate::paths::PathPlace;
use crate::result::outcome;

/// Pause before the ANA log page is read again, while a namespace is in the Change state or after a failed read.
const REREAD_PAUSE: Duration = Duration::from_millis(500);

/// The ANA states of one path of several.
pub(super) struct PathStates {
    path: PathPlace,
    /// Time to read the log page.
    timeout: Duration,
    /// None while there is no controller, or of one that does not report its states.
    reading: Option<Reading>,
}

/// When the ANA log page of a controller is read.
struct Reading {
    facts: AnaFacts,
    /// When it is to be read.
    due: Option<Instant>,
    /// It is outstanding.
    is_asked: bool,
    /// Since when a namespace is between two states.
    changing: Option<Instant>,
}

impl PathStates {
    pub fn new(path: PathPlace, timeout: Duration) -> Self {
        Self { path, timeout, reading: None }
    }

    /// There is a controller, and these are its states; without `facts` it does not report them.
    pub fn begin(&mut self, facts: Option<AnaFacts>, states: States) {
        self.reading = facts.map(|facts| Reading { facts, due: None, is_asked: false, changing: None });
        if self.reading.is_some() {
            self.note(states);
        }
    }

    /// The controller is lost.
    pub fn end(&mut self) {
        self.reading = None;
    }

    /// The command that asks for an event at the next change, of a controller that sends them.
    pub fn event_request(&self) -> Option<Request> {
        let order = event_request();
        let reading = self.reading.as_ref().filter(|reading| reading.facts.events);
        reading.map(|_| Request { order, payload: Payload::Empty, until: None, reply: Reply::Event })
    }

    /// When the log page is to be read.
    pub fn due(&self) -> Option<Instant> {
        self.reading.as_ref().filter(|reading| !reading.is_asked).and_then(|reading| reading.due)
    }

    /// The command that reads the log page, when due or when the known states `are_stale`. States that a controller does not
    /// report are forgotten when stale: they are taken for passing.
    ///
    /// # Errors
    /// When a namespace is between two states for longer than ANATT: the controller counts as lost. When there is no memory.
    pub fn next_request(&mut self, are_stale: bool) -> Result<Option<Request>> {
        let now = Instant::now();
        let Some(reading) = &mut self.reading else {
            if are_stale {
                self.path.set_states(States::default());
            }
            return Ok(None);
        };
        if reading.changing.is_some_and(|since| now.duration_since(since) > reading.facts.transition) {
            let said = "the controller took longer for a change of paths than it said";
            return Err(Error::device(ErrorKind::TimedOut, said));
        }
        let is_due = are_stale || reading.due.is_some_and(|due| due <= now);
        if !is_due || reading.is_asked {
            return Ok(None);
        }
        (reading.is_asked, reading.due) = (true, None);
        let question = reading.facts.question()?;
        let (order, until) = (order_of_admin(&question, 0), Some(now + self.timeout));
        Ok(Some(Request { order, payload: question.into_payload(), until, reply: Reply::States }))
    }

    /// An asynchronous event came; the command that asks for the next.
    pub fn take_event(&mut self, ended: Ended) -> Option<Request> {
        // One that fails is of a controller that is lost, or has no room for requests of events.
        let event = outcome(ended).ok()?;
        if let Some(reading) = self.reading.as_mut().filter(|_| is_of_states(event.dw0())) {
            reading.due = Some(Instant::now());
        }
        self.event_request()
    }

    /// The log page came, or could not be read.
    pub fn take_page(&mut self, ended: Ended) {
        let Some(reading) = &mut self.reading else { return };
        match outcome(ended).ok().and_then(|outcome| outcome.buffer) {
            Some(page) => self.note(States::of(page.as_slice())),
            None => (reading.is_asked, reading.due) = (false, Some(Instant::now() + REREAD_PAUSE)),
        }
    }

    fn note(&mut self, states: States) {
        let Some(reading) = &mut self.reading else { return };
        let now = Instant::now();
        reading.is_asked = false;
        if states.is_changing() {
            reading.changing.get_or_insert(now);
            reading.due = Some(now + REREAD_PAUSE);
        } else {
            reading.changing = None;
        }
        self.path.set_states(states);
    }
}
