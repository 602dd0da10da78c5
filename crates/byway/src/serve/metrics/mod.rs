//! Figures of a served device for Prometheus: read at one moment, and exposed as text over HTTP.
//!
//! The thread that serves them shares nothing with those that serve commands but the counters that these keep. A snapshot holds
//! the device as long as a command does, at most ten times a second however many requests come.

mod collector;
mod families;
mod http;
mod process;
mod request;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use byway_local::DeviceSnapshot;
use byway_tcp_target::{TargetSnapshot, TargetWatch};
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

use crate::serve::Told;
use crate::serve::subsystem::{House, Housed};

pub use http::MetricsServer;
pub use process::ProcessFigures;

/// What a server did for vfio-user clients.
#[derive(Debug, Default)]
pub(super) struct ClientCounters {
    came: AtomicU64,
    left: AtomicU64,
    sent_away: AtomicU64,
    refused: AtomicU64,
}

impl ClientCounters {
    /// Counts what is told.
    pub fn note(&self, told: &Told) {
        let counter = match told {
            Told::ClientCame => &self.came,
            Told::ClientLeft => &self.left,
            Told::ClientSentAway(_) => &self.sent_away,
            Told::ClientRefused => &self.refused,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// vfio-user clients so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// Those that came and were served.
    pub came: u64,
    /// Of these, those that left.
    pub left: u64,
    /// Of these, those that were sent away.
    pub sent_away: u64,
    /// Those that found another served.
    pub refused: u64,
}

/// What a server has done so far.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The subsystems, each with its name and its device.
    pub devices: Vec<(String, DeviceSnapshot)>,
    /// NVMe/TCP, where it is served.
    pub tcp: Option<TargetSnapshot>,
    /// vfio-user clients, where they are served.
    pub clients: Option<ClientFigures>,
    /// This process.
    pub process: ProcessFigures,
}

impl Snapshot {
    /// As Prometheus reads it: the text exposition format, version 0.0.4.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        match prometheus_text::encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to memory does not fail.
            Err(fmt::Error) => String::new(),
        }
    }
}

/// A way to look at a server, which does not keep it.
#[derive(Debug, Clone)]
pub struct Watch {
    pub(super) house: Weak<House>,
    pub(super) target: Option<TargetWatch>,
    pub(super) clients: Option<Arc<ClientCounters>>,
}

impl Watch {
    /// What the server has done so far; `None` once it is closed or a device has failed.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let clients = self.clients.as_ref().map(|clients| ClientFigures {
            came: clients.came.load(Relaxed),
            left: clients.left.load(Relaxed),
            sent_away: clients.sent_away.load(Relaxed),
            refused: clients.refused.load(Relaxed),
        });
        let house = self.house.upgrade()?;
        let look = |housed: &Housed| Some((housed.nqn.clone(), housed.device.handle().snapshot()?));
        let devices = house.housed().iter().map(look).collect::<Option<Vec<_>>>()?;
        Some(Snapshot {
            devices,
            tcp: self.target.as_ref().and_then(TargetWatch::snapshot),
            clients,
            process: ProcessFigures::read(),
        })
    }
}
