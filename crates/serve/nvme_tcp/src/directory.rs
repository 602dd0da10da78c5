//! What there is at a target: its ports and its subsystems. It changes while hosts are there, and counts how often.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use byway_controller::PortId;
use byway_fabrics::tls::TlsPsk;
use byway_fabrics::{Entry, Nqn, SecureChannel, TcpSecurity};
use byway_spec::fabrics::SubsystemType;
use byway_tls::{TlsSubsystem, TlsUnavailable};

use crate::options::TlsPolicy;
use crate::premises::Place;
use crate::site::Site;

/// What there is, now.
///
/// Ordering: the generation is published behind the listing that it is of, so that whoever sees it finds no older one.
#[derive(Debug)]
pub struct Directory {
    listing: RwLock<Arc<Listing>>,
    generation: AtomicU64,
}

/// A place where hosts connect to subsystems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub id: PortId,
    /// Where it is.
    pub address: SocketAddr,
}

/// What there was at one time.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    generation: u64,
    /// Ports, by their numbers.
    pub ports: Vec<Port>,
    /// Subsystems.
    pub sites: Vec<Arc<Site>>,
    /// What answers hosts that begin TLS, whichever subsystem they come to; none where no subsystem has keys.
    pub tls: Option<TlsSubsystem>,
}

impl Directory {
    /// Of these, from generation 1 on.
    ///
    /// # Errors
    /// Where there is no OpenSSL for those that have keys.
    pub fn new(ports: Vec<Port>, sites: Vec<Arc<Site>>) -> Result<Self, TlsUnavailable> {
        let mut listing = Listing { generation: 1, ports, sites, tls: None };
        listing.gather_keys()?;
        Ok(Self { listing: RwLock::new(Arc::new(listing)), generation: AtomicU64::new(1) })
    }

    /// How often it changed.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What there is.
    pub fn listing(&self) -> Arc<Listing> {
        self.listing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has a host come by a key that it has from its authentication. It is no change of what there is.
    pub fn add_key(&self, psk: TlsPsk) {
        let mut listing = self.listing.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Listing::clone(&listing);
        let Some(site) = next.site(&psk.parties().subsystem) else { return };
        site.add_generated(psk);
        next.tls = next.tls.as_ref().map(|tls| tls.with(next.psks()));
        *listing = Arc::new(next);
    }

    /// Changes what there is, or what is let in, unless it is refused.
    ///
    /// # Errors
    /// As `change` has them.
    pub fn change<R, E>(&self, change: impl FnOnce(&mut Listing) -> Result<R, E>) -> Result<R, E> {
        let mut listing = self.listing.write().unwrap_or_else(PoisonError::into_inner);
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
    /// Which of all listings it is.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The subsystem of a name, and the port, where it is found by that.
    pub fn site_at(&self, nqn: &Nqn, port: Option<PortId>) -> Option<(&Arc<Site>, PortId)> {
        let port = port.filter(|port| self.has_port(*port))?;
        self.site(nqn).filter(|site| site.is_at(port)).map(|site| (site, port))
    }

    /// The subsystem of a name.
    pub fn site(&self, nqn: &Nqn) -> Option<&Arc<Site>> {
        self.sites.iter().find(|site| site.nqn == *nqn)
    }

    /// Whether there is this port.
    pub fn has_port(&self, id: PortId) -> bool {
        self.ports.iter().any(|port| port.id == id)
    }

    /// Has hosts answered by the keys of all subsystems. Where two have keys of one host for the discovery service, the first
    /// one's is taken.
    ///
    /// # Errors
    /// Where there is no OpenSSL.
    pub fn gather_keys(&mut self) -> Result<(), TlsUnavailable> {
        let has_keys = self.sites.iter().any(|site| site.keys().tls.is_some());
        self.tls = if has_keys { Some(TlsSubsystem::new(self.psks())?) } else { None };
        Ok(())
    }

    /// The keys of all hosts: those that they were given, then those that they have from their authentications.
    fn psks(&self) -> Vec<TlsPsk> {
        let keys: Vec<_> = self.sites.iter().filter_map(|site| site.keys().tls.clone()).collect();
        let given = keys.iter().flat_map(|tls| tls.psks.iter().cloned());
        given.chain(self.sites.iter().flat_map(|site| site.generated())).collect()
    }

    /// Whether nothing but TLS is spoken at `place`: no subsystem there can be had without. Where discovery alone is, hosts learn
    /// that it is elsewhere.
    pub fn requires_tls(&self, place: &Place) -> bool {
        let Some(port) = place.port else { return false };
        let mut here = self.sites.iter().filter(|site| site.is_at(port)).peekable();
        here.peek().is_some() && here.all(|site| site.keys().require_tls())
    }

    /// What `host` may know, who asks at `place`. Where the target listens at every address, the one that the host came to is the
    /// one that it can reach.
    pub fn entries(&self, host: &Nqn, place: &Place) -> Vec<Entry> {
        let mut entries = Vec::new();
        for site in self.sites.iter().filter(|site| site.admits(host)) {
            entries.extend(self.ports.iter().filter(|port| site.is_at(port.id)).map(|port| {
                let at = reachable(port.address.ip(), place.to.ip());
                let entry = Entry::tcp(site.nqn.clone(), at, port.address.port());
                secured(Entry { port_id: port.id.0, ..entry }, site.keys().tls_policy())
            }));
        }
        let mut current = Entry::tcp(Nqn::discovery(), place.to.ip(), place.to.port());
        current.kind = SubsystemType::CURRENT_DISCOVERY;
        let policy = if self.requires_tls(place) { TlsPolicy::Required } else { TlsPolicy::Allowed };
        entries.push(secured(current, self.tls.as_ref().map(|_| policy)));
        entries
    }
}

/// An entry that says whether TLS is spoken there (TREQ, SECTYPE).
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
