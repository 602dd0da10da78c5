//! Hosts and their controllers: what the connections of one host have in common, in whichever thread each is.
//!
//! Ordering: an association that is over stays so; whoever sees it too late finds the queue gone from the device.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_controller::{ControllerId, MAX_CONTROLLERS, PortId};
use byway_fabrics::{HostId, Nqn};
use byway_spec::base::register::Csts;

/// Nanoseconds of a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// Hosts of a subsystem at once that have a controller and have still to show who they are: half of the controllers.
const CLAIMS_MAX: usize = MAX_CONTROLLERS as usize / 2;

/// Controllers of one host of a subsystem: an eighth of them. Whoever asks nobody who he is has this many taken by a name, whatever
/// identifiers come with it.
const HOST_SHARE: usize = MAX_CONTROLLERS as usize / 8;

/// A host and its controller, from the Connect of the admin queue until that ends.
#[derive(Debug)]
pub struct Association {
    /// The controller.
    pub controller: ControllerId,
    /// The subsystem's name.
    pub subsystem: Nqn,
    /// The port that it came by.
    pub port: PortId,
    /// The host's name.
    pub host: Nqn,
    /// The host's identifier.
    pub host_id: HostId,
    over: AtomicBool,
    /// Its host has still to show who it is.
    claimed: AtomicBool,
    /// It is to end: the host is not let in any more.
    dismissed: AtomicBool,
    /// Controller resets: each ends the I/O queues that were there.
    resets: AtomicU32,
    /// When anything came from the host last, over any of its connections.
    heard_ns: AtomicU64,
    /// 0 is off.
    keep_alive_ms: AtomicU32,
    /// CSTS when its host changed something last.
    status: AtomicU32,
}

impl Association {
    /// One that begins now.
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
            claimed: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            resets: AtomicU32::new(0),
            heard_ns: AtomicU64::new(now_ns),
            keep_alive_ms: AtomicU32::new(0),
            status: AtomicU32::new(0),
        }
    }

    /// A command came.
    pub fn heard(&self, now_ns: u64) {
        self.heard_ns.store(now_ns, Relaxed);
    }

    /// The keep alive timeout, as the controller has it; 0 is off.
    pub fn set_keep_alive_ms(&self, timeout_ms: u32) {
        self.keep_alive_ms.store(timeout_ms, Relaxed);
    }

    /// The controller's status (CSTS) from here on.
    pub fn set_status(&self, status: Csts) {
        self.status.store(status.into_bits(), Relaxed);
    }

    /// The same as its device failed, which cannot be asked any more.
    pub fn failed_status(&self) -> Csts {
        Csts::from_bits(self.status.load(Relaxed)).with_cfs(true)
    }

    /// When the host must have been heard of.
    pub fn deadline_ns(&self) -> Option<u64> {
        let timeout_ms = self.keep_alive_ms.load(Relaxed);
        let timeout_ns = u64::from(timeout_ms) * NS_PER_MS;
        (timeout_ms > 0).then(|| self.heard_ns.load(Relaxed).saturating_add(timeout_ns))
    }

    /// Ends it: the admin queue has gone.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Its host has still to show who it is, or has.
    pub fn set_claimed(&self, claimed: bool) {
        self.claimed.store(claimed, Relaxed);
    }

    /// Has its connections end: each finds out before it executes anything more.
    pub fn dismiss(&self) {
        self.dismissed.store(true, Relaxed);
    }

    /// Whether its connections are to end.
    #[inline]
    pub fn is_dismissed(&self) -> bool {
        self.dismissed.load(Relaxed)
    }

    /// The controller was reset.
    pub fn reset(&self) {
        self.resets.fetch_add(1, Relaxed);
    }

    /// Resets so far.
    pub fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }
}

/// Every association of a subsystem.
#[derive(Debug, Default)]
pub struct Associations(Mutex<Vec<Arc<Association>>>);

impl Associations {
    /// Adds one.
    pub fn add(&self, association: Arc<Association>) {
        self.lock().push(association);
    }

    /// Ends one.
    pub fn remove(&self, association: &Arc<Association>) {
        association.end();
        self.lock().retain(|other| !Arc::ptr_eq(other, association));
    }

    /// Dismisses those that `are_out`.
    pub fn dismiss(&self, are_out: impl Fn(&Association) -> bool) {
        self.lock().iter().filter(|association| are_out(association)).for_each(|out| out.dismiss());
    }

    /// Dismisses the oldest whose host has still to show who it is, where they are too many for another: those who never do are not to
    /// have every controller.
    pub fn make_room_for_claim(&self) {
        let list = self.lock();
        let is_claim = |other: &&Arc<Association>| other.claimed.load(Relaxed) && !other.is_dismissed();
        let mut claims = list.iter().filter(is_claim);
        if claims.clone().count() >= CLAIMS_MAX {
            claims.next().into_iter().for_each(|oldest| oldest.dismiss());
        }
    }

    /// Whether a host of this name has all the controllers that one may have. Those who have still to show that they are that host take
    /// nothing from it.
    pub fn is_share_taken(&self, host: &Nqn) -> bool {
        let is_its = |other: &&Arc<Association>| other.host == *host && !other.claimed.load(Relaxed);
        self.lock().iter().filter(is_its).count() >= HOST_SHARE
    }

    /// That of a controller.
    pub fn find(&self, controller: ControllerId) -> Option<Arc<Association>> {
        let is_here = |other: &Association| !other.is_over() && !other.is_dismissed();
        self.lock().iter().find(|other| other.controller == controller && is_here(other)).cloned()
    }

    /// Counts the controllers of each host by its name.
    pub fn count_hosts(&self, hosts: &mut BTreeMap<String, usize>) {
        for association in self.lock().iter() {
            *hosts.entry(association.host.to_string()).or_default() += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Association>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
