//! State that the connections of all threads of a target share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use crate::counters::EventCounters;
use crate::directory::Directory;
use crate::options::{EventHandler, TargetOptions};
use crate::share::Budget;

/// Controller identifiers reserved for discovery controllers.
const DISCOVERY_IDS: std::ops::Range<u16> = 0x8000..0xfff0;

/// Discovery clients at once. They do not authenticate, so the limit leaves connections for hosts of subsystems.
const DISCOVERY_CLIENTS_MAX: usize = 1024;

/// State that all connections share.
pub struct TargetState {
    /// The options that the target was started with.
    pub options: TargetOptions,
    /// Ports and subsystems.
    pub directory: Directory,
    /// Counters of accepts, refusals and disconnects.
    pub(crate) counters: EventCounters,
    /// The caller's event handler.
    pub report: EventHandler,
    discovery_id: AtomicU16,
    discovery_clients: AtomicUsize,
    /// Budget of data buffers of all connections.
    pub(crate) data: Budget,
}

/// One of [`DISCOVERY_CLIENTS_MAX`] slots for discovery clients; dropping it frees the slot.
#[derive(Debug)]
pub struct DiscoverySlot(Arc<TargetState>);

impl std::fmt::Debug for TargetState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetState").field("options", &self.options).finish_non_exhaustive()
    }
}

impl TargetState {
    /// The state of a target that serves the subsystems of `directory`.
    pub fn new(options: TargetOptions, directory: Directory, report: EventHandler) -> Self {
        Self {
            data: Budget::new(options.data_bytes_max),
            options,
            directory,
            counters: EventCounters::default(),
            report,
            discovery_id: AtomicU16::new(0),
            discovery_clients: AtomicUsize::new(0),
        }
    }

    /// Takes a slot for a discovery client; `None` when all are taken.
    pub fn take_discovery_slot(self: &Arc<Self>) -> Option<DiscoverySlot> {
        let one_more = |clients| (clients < DISCOVERY_CLIENTS_MAX).then_some(clients + 1);
        let taken = self.discovery_clients.fetch_update(Relaxed, Relaxed, one_more);
        taken.is_ok().then(|| DiscoverySlot(self.clone()))
    }

    /// The next identifier for a discovery controller.
    pub fn discovery_id(&self) -> u16 {
        DISCOVERY_IDS.start + self.discovery_id.fetch_add(1, Relaxed) % DISCOVERY_IDS.len() as u16
    }
}

impl Drop for DiscoverySlot {
    fn drop(&mut self) {
        self.0.discovery_clients.fetch_sub(1, Relaxed);
    }
}
