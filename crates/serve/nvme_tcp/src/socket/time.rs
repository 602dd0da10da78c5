//! A connection's deadlines: what its host has time for, and what it is to be asked of now and then.

use super::Connection;
use crate::ended::Ended;
use crate::queue::Queue;
use crate::session::Session;
use crate::wire::Wire;

const NS_PER_S: u64 = 1_000_000_000;

/// How long a host has from its connection to its Connect. Its authentication has its own time.
const CONNECT_NS: u64 = 10 * NS_PER_S;

/// How long a host may take nothing of what is to be sent to it.
const STUCK_NS: u64 = 60 * NS_PER_S;

/// How long a host may send nothing while it was asked for data.
const STALLED_NS: u64 = 60 * NS_PER_S;

/// How long the host of a device that failed may ask at its admin queue how the controller is.
const FAILED_NS: u64 = 2 * NS_PER_S;

/// How long a connection stays once it is over, for its host to read why.
const LINGER_NS: u64 = 2 * NS_PER_S;

impl<W: Wire> Connection<W> {
    /// Minds the time; whether it is to be closed.
    pub fn mind(&mut self, now_ns: u64) -> bool {
        if let Some((_, since_ns)) = &self.over {
            return now_ns.saturating_sub(*since_ns) > LINGER_NS;
        }
        if let Some(why) = self.overdue(now_ns).or_else(|| self.displaced(now_ns)) {
            self.end(why, now_ns);
            self.send(now_ns);
        }
        if !self.has_more() {
            self.session.rest();
        }
        false
    }

    /// Whether its subsystem failed, or the port that it came by is there no more: an I/O queue may have come by another than its
    /// controller.
    fn displaced(&mut self, now_ns: u64) -> Option<Ended> {
        if let Some(site) = self.site.as_ref().filter(|site| site.device.check().is_err()) {
            let since_ns = *self.failed_ns.get_or_insert(now_ns);
            let may_ask = self.session.is_admin() && !site.is_closed();
            return (!may_ask || now_ns.saturating_sub(since_ns) > FAILED_NS).then_some(Ended::DeviceFailed);
        }
        let Session { premises, place, .. } = &self.session;
        let generation = premises.directory.generation();
        let site = self.site.as_ref();
        let is_found = |port| site.is_none_or(|site| site.is_at(port));
        let is_gone = |port| !premises.directory.listing().has_port(port) || !is_found(port);
        let has_changed = std::mem::replace(&mut self.generation, generation) != generation;
        (has_changed && place.port.is_some_and(is_gone)).then_some(Ended::Dismissed)
    }

    fn overdue(&self, now_ns: u64) -> Option<Ended> {
        if self.has_more() && now_ns.saturating_sub(self.sent_ns) > STUCK_NS {
            return Some(Ended::Stuck);
        }
        if self.session.is_owed() && now_ns.saturating_sub(self.came_ns) > STALLED_NS {
            return Some(Ended::Stalled);
        }
        let open = self.session.open();
        let lock = open.and_then(|open| open.lock.as_ref());
        if let Some(why) = lock.and_then(|lock| lock.overdue(now_ns)) {
            return Some(why);
        }
        if lock.is_some_and(|lock| !lock.is_proven()) {
            // What a host computes takes as long as it takes, and no sign of life could come meanwhile.
            return None;
        }
        let queue = open.map(|open| &open.queue);
        match queue {
            None | Some(Queue::Unconnected) => {
                let is_late = now_ns.saturating_sub(self.session.began_ns) > CONNECT_NS;
                is_late.then_some(Ended::Silent)
            }
            Some(Queue::Device(queue)) if queue.qid == 0 => {
                let deadline_ns = queue.association.deadline_ns()?;
                (deadline_ns < now_ns).then_some(Ended::KeepAlive)
            }
            Some(Queue::Device(_)) => None,
            Some(Queue::Discovery(discovery)) => {
                let timeout_ns = u64::from(discovery.controller.patience_ms()) * (NS_PER_S / 1000);
                let is_late = now_ns.saturating_sub(discovery.heard_ns) > timeout_ns;
                is_late.then_some(Ended::KeepAlive)
            }
        }
    }
}
