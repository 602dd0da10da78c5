//! What the connections of a target share, whichever thread each is in.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use byway_fabrics::{DiscoveryLog, Entry, Nqn};
use byway_spec::fabrics::SubsystemType;

use crate::association::Associations;
use crate::options::{Dhchap, TargetOptions, Tell};

/// Identifiers of discovery controllers, which no other controller has.
const DISCOVERY_IDS: std::ops::Range<u16> = 0x8000..0xfff0;

/// What connections share.
pub struct Premises {
    /// What the target was told.
    pub options: TargetOptions,
    /// The hosts that are here.
    pub associations: Associations,
    /// Who is told.
    pub tell: Tell,
    /// Where the target listens: the port, where one was to be found.
    pub address: SocketAddr,
    discovery_id: AtomicU16,
}

/// Where a connection is from and to.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The host's end.
    pub from: SocketAddr,
    /// The target's end.
    pub to: SocketAddr,
    /// It came to where discovery alone is.
    pub is_discovery: bool,
}

impl std::fmt::Debug for Premises {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Premises").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Premises {
    /// Of a target that listens at `address`.
    pub fn new(options: TargetOptions, address: SocketAddr, tell: Tell) -> Self {
        let (associations, discovery_id) = (Associations::default(), AtomicU16::new(0));
        Self { options, associations, tell, address, discovery_id }
    }

    /// Whether a host may connect. One that cannot show who it is may not where that is asked for.
    pub fn admits(&self, host: &Nqn) -> bool {
        let TargetOptions { hosts, dhchap, .. } = &self.options;
        let has_secret = |dhchap: &Dhchap| dhchap.hosts.iter().any(|(name, _)| name == host);
        (hosts.is_empty() || hosts.contains(host)) && dhchap.as_ref().is_none_or(has_secret)
    }

    /// An identifier for a discovery controller.
    pub fn discovery_id(&self) -> u16 {
        DISCOVERY_IDS.start + self.discovery_id.fetch_add(1, Relaxed) % DISCOVERY_IDS.len() as u16
    }

    /// What there is, for `host`, who asks at `place`. Where the target listens at every address, the one that the host came
    /// to is the one that it can reach.
    pub fn discovery_log(&self, host: &Nqn, place: &Place) -> DiscoveryLog {
        let mut entries = Vec::new();
        if self.admits(host) {
            let at = reachable(self.address.ip(), place.to.ip());
            entries.push(Entry::tcp(self.options.subsystem.clone(), at, self.address.port()));
        }
        let mut current = Entry::tcp(Nqn::discovery(), place.to.ip(), place.to.port());
        current.kind = SubsystemType::CURRENT_DISCOVERY;
        entries.push(current);
        let mut log = DiscoveryLog::default();
        log.set(entries);
        log
    }
}

fn reachable(listening: IpAddr, came_to: IpAddr) -> IpAddr {
    if listening.is_unspecified() { came_to } else { listening }
}
