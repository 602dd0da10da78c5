//! What the connections of a target share, whichever thread each is in.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use byway_controller::PortId;
use byway_fabrics::{DiscoveryLog, Entry, Nqn, SecureChannel, TcpSecurity};
use byway_spec::fabrics::SubsystemType;

use crate::association::Associations;
use crate::counters::RareEvents;
use crate::options::{Dhchap, TargetOptions, Tell, Tls, TlsPolicy};

/// Identifiers of discovery controllers, which no other controller has.
const DISCOVERY_IDS: std::ops::Range<u16> = 0x8000..0xfff0;

/// What connections share.
pub struct Premises {
    /// What the target was told.
    pub options: TargetOptions,
    /// The hosts that are here.
    pub associations: Associations,
    /// What seldom happens, counted.
    pub(crate) rare: RareEvents,
    /// Who is told.
    pub tell: Tell,
    /// Where the target listens, from port 1 on.
    pub ports: Vec<SocketAddr>,
    discovery_id: AtomicU16,
}

/// Where a connection is from and to.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The host's end.
    pub from: SocketAddr,
    /// The target's end.
    pub to: SocketAddr,
    /// The subsystem's port that it came to; none where discovery alone is.
    pub port: Option<PortId>,
}

impl std::fmt::Debug for Premises {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Premises").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Premises {
    /// Of a target that listens at `ports`.
    pub fn new(options: TargetOptions, ports: Vec<SocketAddr>, tell: Tell) -> Self {
        let (associations, discovery_id) = (Associations::default(), AtomicU16::new(0));
        let rare = RareEvents::default();
        Self { options, associations, rare, tell, ports, discovery_id }
    }

    /// Whether a host may connect. One that cannot show who it is may not where that is asked for.
    pub fn admits(&self, host: &Nqn) -> bool {
        let TargetOptions { hosts, dhchap, tls, .. } = &self.options;
        let has_secret = |dhchap: &Dhchap| dhchap.hosts.iter().any(|(name, _)| name == host);
        let may_come = |tls: &Tls| tls.policy == TlsPolicy::Allowed || tls.hosts.contains(host);
        (hosts.is_empty() || hosts.contains(host))
            && dhchap.as_ref().is_none_or(has_secret)
            && tls.as_ref().is_none_or(may_come)
    }

    /// Whether nothing but TLS is spoken at `place`. Where discovery alone is, hosts learn that it is elsewhere.
    pub fn requires_tls(&self, place: &Place) -> bool {
        let tls = self.options.tls.as_ref();
        place.port.is_some() && tls.is_some_and(|tls| tls.policy == TlsPolicy::Required)
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
            entries.extend((1..).zip(&self.ports).map(|(port_id, address)| {
                let at = reachable(address.ip(), place.to.ip());
                let entry = Entry::tcp(self.options.subsystem.clone(), at, address.port());
                self.secured(Entry { port_id, ..entry }, false)
            }));
        }
        let mut current = Entry::tcp(Nqn::discovery(), place.to.ip(), place.to.port());
        current.kind = SubsystemType::CURRENT_DISCOVERY;
        entries.push(self.secured(current, place.port.is_none()));
        let mut log = DiscoveryLog::default();
        log.set(entries);
        log
    }

    /// An entry that says whether TLS is spoken there (TREQ, SECTYPE).
    fn secured(&self, entry: Entry, is_discovery: bool) -> Entry {
        let Some(tls) = &self.options.tls else { return entry };
        let secure_channel = match tls.policy {
            TlsPolicy::Required if !is_discovery => SecureChannel::Required,
            _ => SecureChannel::NotRequired,
        };
        Entry { secure_channel, tcp_security: TcpSecurity::TLS_1_3, ..entry }
    }
}

fn reachable(listening: IpAddr, came_to: IpAddr) -> IpAddr {
    if listening.is_unspecified() { came_to } else { listening }
}
