//! Associations: a host, its controller, and the state shared by its connections on all threads.
//!
//! Ordering: relaxed. The end of an association is final; a thread that misses it finds its queue gone under the run lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use byway_controller::{ControllerId, MAX_CONTROLLERS, PortId};
use byway_fabrics::{HostId, Nqn};
use byway_spec::base::register::Csts;
use parking_lot::Mutex;

const NS_PER_MS: u64 = 1_000_000;

/// Precision of the time of a host's last command: 1 ms. A keep alive timeout is at least 100 times as long.
const HEARD_NS: u64 = NS_PER_MS;

/// Unauthenticated associations of a subsystem, at most: half of the controllers.
const UNAUTHENTICATED_MAX: usize = MAX_CONTROLLERS as usize / 2;

/// Controllers of one host NQN, at most: an eighth. Without authentication a client can take this many by one name.
const PER_HOST_MAX: usize = MAX_CONTROLLERS as usize / 8;

/// A host and its controller, from the Connect of the admin queue to its end.
#[derive(Debug)]
pub struct Association {
    /// The controller identifier.
    pub controller: ControllerId,
    /// The subsystem NQN.
    pub subsystem: Nqn,
    /// The port of the admin queue.
    pub port: PortId,
    /// The host NQN.
    pub host: Nqn,
    /// The host's identifier.
    pub host_id: HostId,
    over: AtomicBool,
    /// The host must still authenticate.
    unauthenticated: AtomicBool,
    /// Its connections must end: the host is not allowed any more.
    dismissed: AtomicBool,
    /// Controller resets; each ends the I/O queues.
    resets: AtomicU32,
    /// Time of the host's last command on any connection.
    heard_ns: AtomicU64,
    /// Keep alive timeout; 0 is off.
    keep_alive_ms: AtomicU32,
    /// CSTS after the host's last register write.
    status: AtomicU32,
}

impl Association {
    /// A new association.
    pub fn new(
        controller: ControllerId,
        (subsystem, port): (Nqn, PortId),
        (host, host_id): (Nqn, HostId),
        now_ns: u64,
    ) -> Self {
        Self {
            controller,
            subsystem,
            port,
            host,
            host_id,
            over: AtomicBool::new(false),
            unauthenticated: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            resets: AtomicU32::new(0),
            heard_ns: AtomicU64::new(now_ns),
            keep_alive_ms: AtomicU32::new(0),
            status: AtomicU32::new(0),
        }
    }

    /// Notes the time of a command, if [`HEARD_NS`] have passed since the last one: connections on other threads read the same line for
    /// each of their commands.
    #[inline]
    pub fn heard(&self, now_ns: u64) {
        if now_ns.saturating_sub(self.heard_ns.load(Relaxed)) >= HEARD_NS {
            self.heard_ns.store(now_ns, Relaxed);
        }
    }

    /// Sets the keep alive timeout; 0 is off.
    pub fn set_keep_alive_ms(&self, timeout_ms: u32) {
        self.keep_alive_ms.store(timeout_ms, Relaxed);
    }

    /// Sets the last known CSTS.
    pub fn set_status(&self, status: Csts) {
        self.status.store(status.into_bits(), Relaxed);
    }

    /// The last known CSTS with CFS, for a failed device.
    pub fn failed_status(&self) -> Csts {
        Csts::from_bits(self.status.load(Relaxed)).with_cfs(true)
    }

    /// Deadline of the next command; `None` without keep alive.
    pub fn deadline_ns(&self) -> Option<u64> {
        let timeout_ms = self.keep_alive_ms.load(Relaxed);
        let timeout_ns = u64::from(timeout_ms) * NS_PER_MS;
        let heard_ns = self.heard_ns.load(Relaxed).saturating_add(HEARD_NS);
        (timeout_ms > 0).then(|| heard_ns.saturating_add(timeout_ns))
    }

    /// Ends it: the admin queue is gone.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Sets whether the host must still authenticate.
    pub fn set_unauthenticated(&self, is_unauthenticated: bool) {
        self.unauthenticated.store(is_unauthenticated, Relaxed);
    }

    /// Makes its connections end; each checks before it executes the next command.
    pub fn dismiss(&self) {
        self.dismissed.store(true, Relaxed);
    }

    /// Whether its connections must end.
    #[inline]
    pub fn is_dismissed(&self) -> bool {
        self.dismissed.load(Relaxed)
    }

    /// Counts a controller reset.
    pub fn reset(&self) {
        self.resets.fetch_add(1, Relaxed);
    }

    /// Controller resets so far.
    pub fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }
}

/// The associations of a subsystem, oldest first.
#[derive(Debug, Default)]
pub struct Associations(Mutex<Vec<Arc<Association>>>);

impl Associations {
    /// Adds one.
    pub fn add(&self, association: Arc<Association>) {
        self.0.lock().push(association);
    }

    /// Ends and removes one.
    pub fn remove(&self, association: &Arc<Association>) {
        association.end();
        self.0.lock().retain(|other| !Arc::ptr_eq(other, association));
    }

    /// Dismisses those that `are_out`.
    pub fn dismiss(&self, are_out: impl Fn(&Association) -> bool) {
        self.0.lock().iter().filter(|association| are_out(association)).for_each(|out| out.dismiss());
    }

    /// Dismisses the oldest unauthenticated association if there are [`UNAUTHENTICATED_MAX`], so that clients that never
    /// authenticate cannot take every controller.
    pub fn make_room_for_unauthenticated(&self) {
        let list = self.0.lock();
        let is_unauthenticated =
            |other: &&Arc<Association>| other.unauthenticated.load(Relaxed) && !other.is_dismissed();
        let mut matching = list.iter().filter(is_unauthenticated);
        if matching.clone().count() >= UNAUTHENTICATED_MAX {
            matching.next().into_iter().for_each(|oldest| oldest.dismiss());
        }
    }

    /// Whether a host has [`PER_HOST_MAX`] controllers. Unauthenticated associations in its name do not count.
    pub fn has_all_of_host(&self, host: &Nqn) -> bool {
        let is_its = |other: &&Arc<Association>| other.host == *host && !other.unauthenticated.load(Relaxed);
        self.0.lock().iter().filter(is_its).count() >= PER_HOST_MAX
    }

    /// The association of a controller.
    pub fn find(&self, controller: ControllerId) -> Option<Arc<Association>> {
        let is_here = |other: &Association| !other.is_over() && !other.is_dismissed();
        self.0.lock().iter().find(|other| other.controller == controller && is_here(other)).cloned()
    }

    /// Adds up controllers by host NQN.
    pub fn count_hosts(&self, hosts: &mut BTreeMap<String, usize>) {
        for association in self.0.lock().iter() {
            *hosts.entry(association.host.to_string()).or_default() += 1;
        }
    }
}
