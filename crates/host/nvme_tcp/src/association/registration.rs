//! An I/O queue as the association knows it: its identifier, its connection, and what the admin thread sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use byway_core::{Deadline, Error, ErrorKind, Result};
use byway_fabrics::{ControllerChoice, ControllerId};
use byway_sys::Wakeup;
use parking_lot::Mutex;
use tracing::debug;

use crate::attach::{connect_of, connect_queue};
use crate::backoff::Backoff;
use crate::facts::Facts;
use crate::line::Line;
use crate::peer::Peer;
use crate::stream::Stream;

/// How long a controller may have a queue whose connection has ended.
const QUEUE_LEAVES_WITHIN: Duration = Duration::from_secs(5);

/// An I/O queue that is registered in the association.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Queue identifier at the current controller; 0 if that controller grants too few queues.
    qid: AtomicU16,
    depth: u32,
    message: Mutex<Option<QueueMessage>>,
    wakeup: Wakeup,
    stream: Mutex<Option<Arc<Stream>>>,
}

/// A message of the admin thread to a queue.
#[derive(Debug)]
pub(crate) enum QueueMessage {
    /// A new connection, and its generation.
    Line(Box<Line>, u64),
    /// The controller was given up, or grants too few queues, for this reason: no connection follows.
    Gone(String),
}

impl Registration {
    /// Of a queue with this identifier and depth.
    pub fn new(qid: u16, depth: u32, wakeup: Wakeup) -> Self {
        let (message, stream) = (Mutex::new(None), Mutex::new(None));
        Self { qid: AtomicU16::new(qid), depth, message, wakeup, stream }
    }

    /// Queue identifier at the current controller; 0 if that controller grants too few queues.
    pub fn qid(&self) -> u16 {
        self.qid.load(Ordering::Acquire)
    }

    pub fn set_qid(&self, qid: u16) {
        self.qid.store(qid, Ordering::Release);
    }

    /// Raised for a message or the answer to an Abort, and by the queue itself.
    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Takes the message, if any.
    pub fn take_message(&self) -> Option<QueueMessage> {
        self.message.lock().take()
    }

    /// Sends a message to the queue and wakes it.
    pub fn send(&self, message: QueueMessage) {
        if let QueueMessage::Line(line, _) = &message {
            self.keep_stream(line);
        }
        *self.message.lock() = Some(message);
        self.wakeup.raise();
    }

    /// Ends the queue's connection.
    pub fn close(&self) {
        if let Some(stream) = &*self.stream.lock() {
            stream.close();
        }
    }

    fn keep_stream(&self, line: &Line) {
        *self.stream.lock() = Some(Arc::clone(line.channel.stream()));
    }

    /// Connects the queue to a controller with these `facts`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when it takes no such queue now; when it cannot be reached.
    pub fn connect(&self, peer: &Peer, controller: ControllerId, facts: &Facts) -> Result<Line> {
        // Once: the admin thread may renumber the queues now, and 0 would connect an admin queue.
        let qid = self.qid();
        if qid == 0 {
            let said = "the controller came back granting fewer I/O queues than are open";
            return Err(Error::host(ErrorKind::Busy, said));
        }
        let deadline = Deadline::after(peer.options.connect_timeout);
        // It may have come back with less than the queue was opened with.
        let depth = self.depth.min(facts.capabilities.limits.queue_depth).max(1);
        let connect = connect_of(qid, depth as u16);
        let controller = ControllerChoice::Id(controller);
        let connected = connect_queue(peer, connect, controller, depth, deadline);
        let (mut line, _) = connected.map_err(|refused| refused.error)?;
        line.connection.set_capsule_data_bytes(facts.capsule_bytes);
        debug!(portal = %peer.shown(), qid, depth, "queue connected");
        self.keep_stream(&line);
        Ok(line)
    }

    /// As [`connect`](Self::connect), for an identifier that may have been another queue's just now: controllers give a queue up
    /// some time after its connection has ended (Linux's target refuses it until then).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_when_free(&self, peer: &Peer, controller: ControllerId, facts: &Facts) -> Result<Line> {
        let deadline = Deadline::after(peer.options.connect_timeout.min(QUEUE_LEAVES_WITHIN));
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));
        loop {
            let connected = self.connect(peer, controller, facts);
            let is_busy = matches!(&connected, Err(error) if error.kind() == ErrorKind::Busy);
            if !is_busy || self.qid() == 0 || deadline.is_over() {
                return connected;
            }
            std::thread::sleep(backoff.pause());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::association::tests::unreachable;

    #[test]
    fn connect_of_a_queue_without_number_is_busy_and_sends_nothing() {
        let association = unreachable();
        let registration = association.registration();
        association.number_queues(0);
        let refused = registration.connect(&association.peer, ControllerId(1), &Facts::default());
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    }
}
