//! What the connections of a target share, whichever thread each is in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use byway_controller::PortId;

use crate::counters::RareEvents;
use crate::directory::Directory;
use crate::options::{TargetOptions, Tell};
use crate::share::Shared;

/// Identifiers of discovery controllers, which no other controller has.
const DISCOVERY_IDS: std::ops::Range<u16> = 0x8000..0xfff0;

/// Hosts at the discovery service at once, which asks nobody who it is: room is left for those of subsystems.
const ASKERS_MAX: usize = 1024;

/// What connections share.
pub struct Premises {
    /// What the target was told.
    pub options: TargetOptions,
    /// What there is.
    pub directory: Directory,
    /// What seldom happens, counted.
    pub(crate) rare: RareEvents,
    /// Who is told.
    pub tell: Tell,
    discovery_id: AtomicU16,
    /// Hosts that are connected to the discovery service.
    askers: AtomicUsize,
    /// Data that is held for hosts.
    pub(crate) data: Shared,
}

/// One of the places for hosts at the discovery service.
#[derive(Debug)]
pub struct Asker(Arc<Premises>);

/// Where a connection is from and to.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The host's end.
    pub from: SocketAddr,
    /// The target's end.
    pub to: SocketAddr,
    /// The port that it came to; none where discovery alone is.
    pub port: Option<PortId>,
}

impl std::fmt::Debug for Premises {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Premises").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Premises {
    /// Of a target that has to offer what `directory` says.
    pub fn new(options: TargetOptions, directory: Directory, tell: Tell) -> Self {
        let (rare, discovery_id) = (RareEvents::default(), AtomicU16::new(0));
        let data = Shared::new(options.data_bytes_max);
        Self { options, directory, rare, tell, discovery_id, askers: AtomicUsize::new(0), data }
    }

    /// A place for a host at the discovery service; none where there are too many.
    pub fn seat_asker(self: &Arc<Self>) -> Option<Asker> {
        let seated =
            self.askers.fetch_update(Relaxed, Relaxed, |askers| (askers < ASKERS_MAX).then_some(askers + 1));
        seated.is_ok().then(|| Asker(self.clone()))
    }

    /// An identifier for a discovery controller.
    pub fn discovery_id(&self) -> u16 {
        DISCOVERY_IDS.start + self.discovery_id.fetch_add(1, Relaxed) % DISCOVERY_IDS.len() as u16
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.0.askers.fetch_sub(1, Relaxed);
    }
}
