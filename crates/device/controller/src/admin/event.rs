//! Asynchronous events (Base 2.1, section 5.1.2): requests that wait for news, and news that wait for a request.
//!
//! A request may wait for ever, so it gives its place in the completion queue back and takes one when it completes:
//! however many wait, other commands have room.

use std::collections::VecDeque;

use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::Status;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::event::{Event, EventType};
use byway_spec::base::feature::AsyncEvents;
use byway_spec::base::log::{ErrorEntry, LogPage};

use super::Noted;
use crate::controller::Controller;
use crate::counting::{QueueKind, Typed};
use crate::error::{CommandError, NO_LOCATION};
use crate::namespace::Outcome;
use crate::port::Port;
use crate::subsystem::Subsystem;

/// Requests that may wait at a time; Identify Controller AERL is this less one.
pub(super) const MAX_REQUESTS: usize = 8;

/// What a request is counted as, once it is answered.
pub(super) const REQUEST: Typed =
    Typed { queue: QueueKind::Admin, nsid: 0, opcode: AdminOpcode::ASYNC_EVENT_REQUEST.0 };

/// Requests, and events to report. An event stands in `pending` at most once, so the list is bounded by their kinds.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Which events the host wants (feature 0Bh).
    pub wanted: AsyncEvents,
    /// Critical warnings when they were last looked at.
    pub warned: u8,
    /// Identifiers of the requests that wait, oldest first.
    requests: VecDeque<u16>,
    pending: Vec<Event>,
    /// Bit for each event type that was reported and whose log page was not read since.
    masked: u8,
}

impl Events {
    /// Accepts one more request, if there is room.
    pub fn request(&self) -> Result<Outcome, CommandError> {
        if self.requests.len() < MAX_REQUESTS {
            return Ok(Outcome::Later);
        }
        Err(CommandError::new(Status::EVENT_REQUEST_LIMIT_EXCEEDED, "too many event requests wait already"))
    }

    /// Keeps the request `cid`.
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

    /// Something happened.
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

    fn can_report(&self) -> bool {
        !self.requests.is_empty() && self.pending.iter().any(|event| self.masked & bit(event.kind()) == 0)
    }

    /// The request that carries the next event.
    fn oldest(&self) -> Option<u16> {
        self.requests.front().copied()
    }

    /// Takes the oldest request and the next event it reports.
    fn report(&mut self) -> Option<Event> {
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

impl Controller {
    /// A doorbell of no queue, or a value outside its queue, was written: nothing follows but an event.
    #[cold]
    pub(crate) fn note_invalid_doorbell(&mut self, index: DoorbellIndex, value: u32) {
        let entry = ErrorEntry {
            sqid: 0xffff,
            cid: 0xffff,
            parameter: NO_LOCATION,
            specific: u64::from(index.queue()) | u64::from(value) << 32,
            ..ErrorEntry::default()
        };
        let words = "a doorbell of no queue, or a value outside its queue, was written";
        self.admin.errors.add(Noted { entry, words });
        let event =
            if self.has_doorbell(index) { Event::INVALID_DOORBELL_VALUE } else { Event::INVALID_DOORBELL };
        self.admin.events.raise(event);
    }

    pub(super) fn has_doorbell(&self, index: DoorbellIndex) -> bool {
        let qid = usize::from(index.queue());
        match index.is_completion() {
            true => self.completion.get(qid).is_some_and(Option::is_some),
            false => self.submission.get(qid).is_some_and(Option::is_some),
        }
    }

    /// Ends each run: completes Asynchronous Event Requests that events wait for, and minds the keep alive timer.
    #[inline]
    pub(crate) fn report_events(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        self.mind_keep_alive(now_ps);
        if !self.admin.events.requests.is_empty() {
            self.report_to_requests(subsystem, port, doorbells, now_ps);
        }
    }

    fn report_to_requests(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        if self.admin.events.wanted.namespace_changed() && subsystem.changes.take_news(self.id) {
            self.admin.events.raise(Event::NAMESPACE_CHANGED);
        }
        if self.admin.events.wanted.ana() && subsystem.paths.take_news(self.id) {
            self.admin.events.raise(Event::ANA_CHANGED);
        }
        if subsystem.notices.take_news(self.id) {
            self.admin.events.raise(Event::RESERVATION);
        }
        self.raise_new_warnings(subsystem);
        while self.admin.events.can_report() {
            let Some(ticket) = self.admin.events.oldest().and_then(|cid| self.resume(doorbells, cid)) else {
                return;
            };
            let Some(event) = self.admin.events.report() else { return };
            port.meter.begin(now_ps);
            subsystem.count_answered(REQUEST, Status::SUCCESS);
            self.complete(port, ticket, Status::SUCCESS, event.into_bits(), 0);
        }
    }
}
