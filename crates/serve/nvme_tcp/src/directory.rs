//! The directory of a target: its ports and subsystems, with a generation that every change increments.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byway_controller::PortId;
use byway_fabrics::tls::TlsPsk;
use byway_fabrics::{Entry, Nqn, SecureChannel, TcpSecurity};
use byway_spec::fabrics::SubsystemType;
use byway_tls::{TlsSubsystem, TlsUnavailable};
use parking_lot::RwLock;

use crate::endpoints::Endpoints;
use crate::options::TlsPolicy;
use crate::subsystem::Subsystem;

/// The current listing of ports and subsystems.
///
/// Ordering: the listing is stored before its generation, so a reader of a generation finds that listing or a newer one.
#[derive(Debug)]
pub struct Directory {
    listing: RwLock<Arc<Listing>>,
    generation: AtomicU64,
}

/// An address at which hosts connect to subsystems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetPort {
    /// The port identifier.
    pub id: PortId,
    /// The address.
    pub address: SocketAddr,
}

/// Ports and subsystems at one generation.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    generation: u64,
    /// Ports, sorted by identifier.
    pub ports: Vec<TargetPort>,
    /// Subsystems.
    pub subsystems: Vec<Arc<Subsystem>>,
    /// Answers TLS handshakes for all subsystems; `None` where no subsystem has keys.
    pub tls: Option<TlsSubsystem>,
}

impl Directory {
    /// A directory at generation 1.
    ///
    /// # Errors
    /// A subsystem has keys and OpenSSL is missing.
    pub fn new(ports: Vec<TargetPort>, subsystems: Vec<Arc<Subsystem>>) -> Result<Self, TlsUnavailable> {
        let mut listing = Listing { generation: 1, ports, subsystems, tls: None };
        listing.gather_keys()?;
        Ok(Self { listing: RwLock::new(Arc::new(listing)), generation: AtomicU64::new(1) })
    }

    /// The generation: 1 and the number of changes since.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The current listing.
    pub fn listing(&self) -> Arc<Listing> {
        self.listing.read().clone()
    }

    /// Adds a key that an authentication generated. The generation stays: discovery clients see no change.
    pub fn add_key(&self, psk: TlsPsk) {
        let mut listing = self.listing.write();
        let mut next = Listing::clone(&listing);
        let Some(subsystem) = next.subsystem(&psk.parties().subsystem) else { return };
        subsystem.add_generated(psk);
        next.tls = next.tls.as_ref().map(|tls| tls.with(next.psks()));
        *listing = Arc::new(next);
    }

    /// Publishes a changed listing with the next generation, unless `change` fails.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change<R, E>(&self, change: impl FnOnce(&mut Listing) -> Result<R, E>) -> Result<R, E> {
        let mut listing = self.listing.write();
        let mut next = Listing::clone(&listing);
        next.generation += 1;
        let changed = change(&mut next)?;
        let generation = next.generation;
        *listing = Arc::new(next);
        self.generation.store(generation, Ordering::Release);
        Ok(changed)
    }
}

impl Listing {
    /// The generation of this listing.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The subsystem with this name, if it is exported at `port`.
    pub fn subsystem_at(&self, nqn: &Nqn, port: Option<PortId>) -> Option<(&Arc<Subsystem>, PortId)> {
        let port = port.filter(|port| self.has_port(*port))?;
        self.subsystem(nqn).filter(|subsystem| subsystem.is_at(port)).map(|subsystem| (subsystem, port))
    }

    /// The subsystem with this name.
    pub fn subsystem(&self, nqn: &Nqn) -> Option<&Arc<Subsystem>> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn() == nqn)
    }

    /// Whether the port exists.
    pub fn has_port(&self, id: PortId) -> bool {
        self.ports.iter().any(|port| port.id == id)
    }

    /// Collects the TLS keys of all subsystems. If two have a key of one host for discovery, the first subsystem's is used.
    ///
    /// # Errors
    /// OpenSSL is missing.
    pub fn gather_keys(&mut self) -> Result<(), TlsUnavailable> {
        let has_keys = self.subsystems.iter().any(|subsystem| subsystem.keys().tls.is_some());
        self.tls = if has_keys { Some(TlsSubsystem::new(self.psks())?) } else { None };
        Ok(())
    }

    /// All keys: configured ones, then those that authentications generated.
    fn psks(&self) -> Vec<TlsPsk> {
        let keys: Vec<_> =
            self.subsystems.iter().filter_map(|subsystem| subsystem.keys().tls.clone()).collect();
        let given = keys.iter().flat_map(|tls| tls.psks.iter().cloned());
        given.chain(self.subsystems.iter().flat_map(|subsystem| subsystem.generated())).collect()
    }

    /// Whether `endpoints` requires TLS: every subsystem exported there does. The discovery-only address never does, so that hosts
    /// can learn which ports need TLS.
    pub fn requires_tls(&self, endpoints: &Endpoints) -> bool {
        let Some(port) = endpoints.port else { return false };
        let mut exported = self.subsystems.iter().filter(|subsystem| subsystem.is_at(port)).peekable();
        exported.peek().is_some() && exported.all(|subsystem| subsystem.keys().require_tls())
    }

    /// Discovery log entries for `host`, which asks at `endpoints`. For a wildcard listener, the entry has the address that the
    /// host connected to.
    pub fn entries(&self, host: &Nqn, endpoints: &Endpoints) -> Vec<Entry> {
        let mut entries = Vec::new();
        for subsystem in self.subsystems.iter().filter(|subsystem| subsystem.admits(host)) {
            entries.extend(self.ports.iter().filter(|port| subsystem.is_at(port.id)).map(|port| {
                let at = reachable(port.address.ip(), endpoints.to.ip());
                let entry = Entry::tcp(subsystem.nqn().clone(), at, port.address.port());
                secured(Entry { port_id: port.id.0, ..entry }, subsystem.keys().tls_policy())
            }));
        }
        let mut current = Entry::tcp(Nqn::discovery(), endpoints.to.ip(), endpoints.to.port());
        current.kind = SubsystemType::CURRENT_DISCOVERY;
        let policy = if self.requires_tls(endpoints) { TlsPolicy::Required } else { TlsPolicy::Allowed };
        entries.push(secured(current, self.tls.as_ref().map(|_| policy)));
        entries
    }
}

/// Sets TREQ and SECTYPE of an entry.
fn secured(entry: Entry, policy: Option<TlsPolicy>) -> Entry {
    let secure_channel = match policy {
        None => return entry,
        Some(TlsPolicy::Required | TlsPolicy::Concatenated) => SecureChannel::Required,
        Some(TlsPolicy::Allowed) => SecureChannel::NotRequired,
    };
    Entry { secure_channel, tcp_security: TcpSecurity::TLS_1_3, ..entry }
}

fn reachable(listening: IpAddr, came_to: IpAddr) -> IpAddr {
    if listening.is_unspecified() { came_to } else { listening }
}
