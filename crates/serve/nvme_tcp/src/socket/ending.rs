//! The end of a connection: what is to be said is sent, and its host has time to read it.

use rustix::io::Errno;

use super::{Connection, Turn};
use crate::ended::Ended;
use crate::queue::Queue;
use crate::site::Site;
use crate::wire::Wire;

/// Most bytes that are received of a connection that is over.
const LINGER_BYTES: usize = 1 << 20;

impl<W: Wire> Connection<W> {
    /// Ends it: what is to be said is sent, nothing more is read.
    pub fn end(&mut self, why: Ended, now_ns: u64) {
        if self.over.is_some() {
            return;
        }
        match self.site.take() {
            Some(site) => self.leave(&site, &why),
            None => self.session.close(),
        }
        if why == Ended::DeviceFailed {
            // An answer may be half made.
            let unsent = self.session.out.pending().len();
            self.session.out.sent(unsent);
        }
        (self.stash, self.stash_at) = (Vec::new(), 0);
        self.over = Some((why, now_ns));
    }

    fn leave(&mut self, site: &Site, why: &Ended) {
        let session = &mut self.session;
        // A device that failed has nothing of it any more.
        let _ = site.device.run(|device| {
            if *why == Ended::KeepAlive
                && let Some(Queue::Device(queue)) = session.open().map(|open| &open.queue)
            {
                device.expire(queue.association.controller);
            }
            session.leave(site, device, why);
        });
        session.close();
        site.device.ring();
    }

    /// Lets a host read why its connection is over: closed with unread bytes, it would lose that.
    pub(super) fn linger(&mut self, buffer: &mut [u8], now_ns: u64) -> Turn {
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
                self.lingered_bytes += bytes;
                self.at_end |= self.lingered_bytes > LINGER_BYTES;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.at_end = true,
        }
        self.after(Turn::Idle)
    }

    /// What a turn came to, where the connection may be over.
    pub(super) fn after(&self, turn: Turn) -> Turn {
        let is_done = self.over.is_some() && (self.at_end || matches!(self.over, Some((Ended::Left, _))));
        if is_done && (self.at_end || !self.has_more()) { Turn::Closed } else { turn }
    }
}
