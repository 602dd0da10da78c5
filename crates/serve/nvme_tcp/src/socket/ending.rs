//! The end of a connection: pending responses are sent, and the host has time to read them.

use rustix::io::Errno;

use super::{Connection, Progress};
use crate::close_reason::CloseReason;
use crate::established::Established;
use crate::queue::Queue;
use crate::subsystem::Subsystem;
use crate::wire::Wire;

/// Bytes received and dropped after a connection ended, at most.
const DRAIN_BYTES_MAX: usize = 1 << 20;

impl<W: Wire> Connection<W> {
    /// Ends it: pending bytes are still sent, nothing more is executed.
    pub fn end(&mut self, why: CloseReason, now_ns: u64) {
        if self.over.is_some() {
            return;
        }
        match self.subsystem.take() {
            Some(subsystem) => self.leave(&subsystem, &why),
            None => self.session.close(),
        }
        if why == CloseReason::DeviceFailed {
            // The panic may have left a response half written.
            let unsent = self.session.out().pending().len();
            self.session.out_mut().sent(unsent);
        }
        (self.stash, self.stash_at) = (Vec::new(), 0);
        self.over = Some((why, now_ns));
    }

    fn leave(&mut self, subsystem: &Subsystem, why: &CloseReason) {
        self.fast = None;
        let session = &mut self.session;
        // A failed device has no state of it.
        let _ = subsystem.device().run(|device| {
            if *why == CloseReason::KeepAlive
                && let Some(Queue::Device(queue)) = session.established().map(Established::queue)
            {
                device.expire(queue.association.controller);
            }
            session.leave(subsystem, device, why);
        });
        session.close();
        subsystem.device().notify();
    }

    /// Drains the socket after the end. A close with unread bytes would reset the connection and lose the last response.
    pub(super) fn drain(&mut self, buffer: &mut [u8], now_ns: u64) -> Progress {
        self.send(now_ns);
        if !self.has_more() && !self.is_closed {
            self.is_closed = true;
            self.channel.close();
            self.send(now_ns);
        }
        if !self.has_more() {
            self.wire().end();
        }
        match self.wire().receive(buffer) {
            Ok(0) => self.at_end = true,
            Ok(bytes) => {
                self.drained_bytes += bytes;
                self.at_end |= self.drained_bytes > DRAIN_BYTES_MAX;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.at_end = true,
        }
        self.after(Progress::Idle)
    }

    /// `progress`, or `Closed` once an ended connection is drained.
    pub(super) fn after(&self, progress: Progress) -> Progress {
        let is_done =
            self.over.is_some() && (self.at_end || matches!(self.over, Some((CloseReason::Left, _))));
        if is_done && (self.at_end || !self.has_more()) { Progress::Closed } else { progress }
    }
}
