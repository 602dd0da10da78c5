//! What the connections of a target share, whichever thread each is in.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use byway_controller::PortId;
use byway_fabrics::{DiscoveryLog, Entry, Nqn, SecureChannel, TcpSecurity};
use byway_spec::fabrics::SubsystemType;

use crate::association::Associations;
use crate::counters::RareEvents;
use crate::keys::{KeyRing, Keys};
use crate::options::{TargetOptions, Tell, TlsPolicy};

/// Identifiers of discovery controllers, which no other controller has.
const DISCOVERY_IDS: std::ops::Range<u16> = 0x8000..0xfff0;

/// What connections share.
pub struct Premises {
    /// What the target was told, but for keys.
    pub options: TargetOptions,
    /// By what hosts show who they are.
    pub(crate) keys: KeyRing,
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
    pub fn new(mut options: TargetOptions, ports: Vec<SocketAddr>, tell: Tell) -> Self {
        let (associations, discovery_id) = (Associations::default(), AtomicU16::new(0));
        let rare = RareEvents::default();
        let keys = KeyRing::new(Keys { dhchap: options.dhchap.take(), tls: options.tls.take() });
        Self { options, keys, associations, rare, tell, ports, discovery_id }
    }

    /// Whether a host may connect. One that cannot show who it is may not where that is asked for.
    pub fn admits(&self, host: &Nqn, keys: &Keys) -> bool {
        let hosts = &self.options.hosts;
        (hosts.is_empty() || hosts.contains(host)) && keys.admit(host)
    }

    /// An identifier for a discovery controller.
    pub fn discovery_id(&self) -> u16 {
        DISCOVERY_IDS.start + self.discovery_id.fetch_add(1, Relaxed) % DISCOVERY_IDS.len() as u16
    }

    /// What there is, for `host`, who asks at `place`. Where the target listens at every address, the one that the host came
    /// to is the one that it can reach.
    pub fn discovery_log(&self, host: &Nqn, place: &Place) -> DiscoveryLog {
        let (mut entries, keys) = (Vec::new(), self.keys.now());
        if self.admits(host, &keys) {
            entries.extend((1..).zip(&self.ports).map(|(port_id, address)| {
                let at = reachable(address.ip(), place.to.ip());
                let entry = Entry::tcp(self.options.subsystem.clone(), at, address.port());
                secured(Entry { port_id, ..entry }, &keys, false)
            }));
        }
        let mut current = Entry::tcp(Nqn::discovery(), place.to.ip(), place.to.port());
        current.kind = SubsystemType::CURRENT_DISCOVERY;
        entries.push(secured(current, &keys, place.port.is_none()));
        let mut log = DiscoveryLog::default();
        log.set(entries);
        log
    }
}

/// An entry that says whether TLS is spoken there (TREQ, SECTYPE).
fn secured(entry: Entry, keys: &Keys, is_discovery: bool) -> Entry {
    let Some(tls) = &keys.tls else { return entry };
    let secure_channel = match tls.policy {
        TlsPolicy::Required if !is_discovery => SecureChannel::Required,
        _ => SecureChannel::NotRequired,
    };
    Entry { secure_channel, tcp_security: TcpSecurity::TLS_1_3, ..entry }
}

fn reachable(listening: IpAddr, came_to: IpAddr) -> IpAddr {
    if listening.is_unspecified() { came_to } else { listening }
}
