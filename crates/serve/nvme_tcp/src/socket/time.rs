//! Timeouts of a connection.

use super::Connection;
use crate::close_reason::CloseReason;
use crate::established::Established;
use crate::queue::Queue;
use crate::wire::Wire;

const NS_PER_S: u64 = 1_000_000_000;

/// From accept to Connect. Authentication has its own limit.
const CONNECT_NS: u64 = 10 * NS_PER_S;

/// A host that reads none of its pending bytes for this long is disconnected.
const STUCK_NS: u64 = 60 * NS_PER_S;

/// A host that sends nothing for this long while data is solicited is disconnected.
const STALLED_NS: u64 = 60 * NS_PER_S;

/// How long the admin queue of a failed device still answers Property Get of CSTS.
const FAILED_NS: u64 = 2 * NS_PER_S;

/// How long an ended connection is drained.
const DRAIN_NS: u64 = 2 * NS_PER_S;

impl<W: Wire> Connection<W> {
    /// Ends the connection at a timeout. Returns whether the caller must close it.
    pub fn check_time(&mut self, now_ns: u64) -> bool {
        if let Some((_, since_ns)) = &self.over {
            return now_ns.saturating_sub(*since_ns) > DRAIN_NS;
        }
        if let Some(why) = self.overdue(now_ns).or_else(|| self.displaced(now_ns)) {
            self.end(why, now_ns);
            self.send(now_ns);
        }
        if !self.has_more() {
            self.session.release_buffers();
        }
        false
    }

    /// Whether its subsystem failed or its port was closed. An I/O queue's port may differ from its admin queue's.
    fn displaced(&mut self, now_ns: u64) -> Option<CloseReason> {
        if let Some(subsystem) = self.subsystem.as_ref().filter(|subsystem| subsystem.has_failed()) {
            let since_ns = *self.failed_ns.get_or_insert(now_ns);
            let may_ask = self.session.is_admin() && !subsystem.is_closed();
            return (!may_ask || now_ns.saturating_sub(since_ns) > FAILED_NS)
                .then_some(CloseReason::DeviceFailed);
        }
        let (directory, endpoints) = (&self.session.target().directory, self.session.endpoints());
        let generation = directory.generation();
        let subsystem = self.subsystem.as_ref();
        let is_found = |port| subsystem.is_none_or(|subsystem| subsystem.is_at(port));
        let is_gone = |port| !directory.listing().has_port(port) || !is_found(port);
        let has_changed = std::mem::replace(&mut self.generation, generation) != generation;
        (has_changed && endpoints.port.is_some_and(is_gone)).then_some(CloseReason::Dismissed)
    }

    fn overdue(&self, now_ns: u64) -> Option<CloseReason> {
        if self.has_more() && now_ns.saturating_sub(self.sent_ns) > STUCK_NS {
            return Some(CloseReason::Stuck);
        }
        if self.session.is_owed() && now_ns.saturating_sub(self.came_ns) > STALLED_NS {
            return Some(CloseReason::Stalled);
        }
        let established = self.session.established();
        let lock = established.and_then(Established::lock);
        if let Some(why) = lock.and_then(|lock| lock.overdue(now_ns)) {
            return Some(why);
        }
        if lock.is_some_and(|lock| !lock.is_authenticated()) {
            // The host may compute for seconds and cannot send Keep Alive meanwhile.
            return None;
        }
        match established.map(Established::queue) {
            None | Some(Queue::Unconnected) => {
                let is_late = now_ns.saturating_sub(self.session.began_ns()) > CONNECT_NS;
                is_late.then_some(CloseReason::Silent)
            }
            Some(Queue::Device(queue)) if queue.qid == 0 => {
                let deadline_ns = queue.association.deadline_ns()?;
                (deadline_ns < now_ns).then_some(CloseReason::KeepAlive)
            }
            Some(Queue::Device(_)) => None,
            Some(Queue::Discovery(discovery)) => {
                let timeout_ns = u64::from(discovery.controller.silence_max_ms()) * (NS_PER_S / 1000);
                let is_late = now_ns.saturating_sub(discovery.heard_ns()) > timeout_ns;
                is_late.then_some(CloseReason::KeepAlive)
            }
        }
    }
}
