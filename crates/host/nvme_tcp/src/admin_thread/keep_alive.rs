//! When a Keep Alive is to be sent.

use std::time::{Duration, Instant};

use byway_core::Payload;
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;

use crate::association::{Reply, Request};
use crate::order::plain;

/// When a Keep Alive is to be sent: twice in each keep-alive timeout.
pub(super) struct KeepAlive {
    timeout: Duration,
    next: Option<Instant>,
}

impl KeepAlive {
    /// With a timeout of zero none is sent.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, next: None }
    }

    /// There is a controller; none is sent to one that does not support it (KAS).
    pub fn start(&mut self, is_supported: bool) {
        let is_due = is_supported && !self.timeout.is_zero();
        self.next = is_due.then(|| Instant::now() + self.timeout / 2);
    }

    /// The controller is lost.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The Keep Alive that is due. Its deadline is the Keep Alive Timeout, at least 1 s.
    pub fn next_request(&mut self) -> Option<Request> {
        let now = Instant::now();
        self.next.filter(|next| *next <= now)?;
        self.start(true);
        let until = Some(now + self.timeout.max(Duration::from_secs(1)));
        let order = plain(Entry::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
        Some(Request { order, payload: Payload::Empty, until, reply: Reply::KeepAlive })
    }
}
