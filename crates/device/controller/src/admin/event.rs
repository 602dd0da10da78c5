//! Asynchronous events (Base 2.1, section 5.1.2): requests that wait for an event, and events that wait for a request.
//!
//! A request may wait forever, so it gives its completion slot back and takes one when it completes: waiting requests
//! never fill the completion queue.

use std::collections::VecDeque;

use byway_spec::Status;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::event::{Event, EventType};
use byway_spec::base::feature::AsyncEvents;
use byway_spec::base::log::LogPage;

use crate::counting::{QueueKind, Typed};
use crate::error::CommandError;
use crate::outcome::Outcome;
use crate::subsystem::{WARN_READ_ONLY, WARN_RELIABILITY, WARN_SPARE, WARN_TEMPERATURE};

/// Requests that may wait at a time; Identify Controller AERL is this less one.
pub(super) const MAX_REQUESTS: usize = 8;

/// The type that a request is counted as, once it completes.
pub(crate) const REQUEST: Typed =
    Typed { queue: QueueKind::Admin, nsid: 0, opcode: AdminOpcode::ASYNC_EVENT_REQUEST.0 };

/// Requests, and events to report. `pending` holds each event at most once, so it is bounded by their kinds.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Events that the host wants (feature 0Bh).
    wanted: AsyncEvents,
    /// Critical warnings when they were last checked.
    warned: u8,
    /// Identifiers of the requests that wait, oldest first.
    requests: VecDeque<u16>,
    pending: Vec<Event>,
    /// Bit for each event type that was reported and whose log page was not read since.
    masked: u8,
}

impl Events {
    /// Events that the host wants.
    pub fn wanted(&self) -> AsyncEvents {
        self.wanted
    }

    /// Sets the events that the host wants.
    pub fn want(&mut self, wanted: AsyncEvents) {
        self.wanted = wanted;
    }

    /// Raises the event of each critical warning in `warnings` that the host wants.
    pub fn raise_warnings(&mut self, warnings: u8) {
        let wanted = warnings & self.wanted.smart();
        self.warned = warnings;
        for (bit, event) in [
            (WARN_SPARE, Event::SPARE),
            (WARN_TEMPERATURE, Event::TEMPERATURE),
            (WARN_RELIABILITY, Event::RELIABILITY),
            (WARN_READ_ONLY, Event::RELIABILITY),
        ] {
            if wanted & bit != 0 {
                self.raise(event);
            }
        }
    }

    /// As [`Self::raise_warnings`], if one of `warnings` was not there at the last check.
    pub fn raise_new_warnings(&mut self, warnings: u8) {
        if warnings & !self.warned != 0 {
            self.raise_warnings(warnings);
        }
        self.warned = warnings;
    }

    /// Whether any request waits.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Accepts one more request, if there is room.
    pub fn request(&self) -> Result<Outcome, CommandError> {
        if self.requests.len() < MAX_REQUESTS {
            return Ok(Outcome::Later);
        }
        Err(CommandError::new(Status::EVENT_REQUEST_LIMIT_EXCEEDED, "too many event requests wait already"))
    }

    /// Keeps request `cid`.
    pub fn park(&mut self, cid: u16) {
        self.requests.push_back(cid);
    }

    /// Whether the request `cid` waits.
    pub fn waits(&self, cid: u16) -> bool {
        self.requests.contains(&cid)
    }

    /// Forgets the request `cid`, which was aborted.
    pub fn forget(&mut self, cid: u16) {
        self.requests.retain(|waiting| *waiting != cid);
    }

    /// Keeps an event until a request reports it.
    pub fn raise(&mut self, event: Event) {
        if !self.pending.contains(&event) {
            self.pending.push(event);
        }
    }

    /// The host read log page `log` without asking to retain events: those it clears may be reported again.
    pub fn clear(&mut self, log: LogPage) {
        self.pending.retain(|event| event.log() != log);
        let kind = match log {
            LogPage::ERROR => EventType::ERROR,
            LogPage::SMART => EventType::SMART,
            LogPage::CHANGED_NAMESPACES | LogPage::ANA => EventType::NOTICE,
            LogPage::RESERVATION => EventType::COMMAND_SET,
            _ => return,
        };
        self.masked &= !bit(kind);
    }

    /// Whether a request waits and an event that is not masked.
    pub fn can_report(&self) -> bool {
        !self.requests.is_empty() && self.pending.iter().any(|event| self.masked & bit(event.kind()) == 0)
    }

    /// The request that carries the next event.
    pub fn oldest(&self) -> Option<u16> {
        self.requests.front().copied()
    }

    /// Takes the oldest request and the next event it reports.
    pub fn report(&mut self) -> Option<Event> {
        let at = self.pending.iter().position(|event| self.masked & bit(event.kind()) == 0)?;
        self.requests.pop_front()?;
        let event = self.pending.remove(at);
        self.masked |= bit(event.kind());
        Some(event)
    }
}

fn bit(kind: EventType) -> u8 {
    1 << (kind.0 & 7)
}
