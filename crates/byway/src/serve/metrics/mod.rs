//! Metrics of a server: a snapshot of its counters, as text for Prometheus over HTTP.
//!
//! The threads that serve commands share nothing but their own counters. A snapshot takes a device's run lock for about as long as a
//! command, at most 10 times a second however many scrapers there are.

mod collector;
mod families;
mod http;
mod page;
mod process;
mod request;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use byway_local::DeviceSnapshot;
use byway_tcp_target::{TargetSnapshot, TargetWatch};
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

use crate::serve::ServeEvent;
use crate::serve::subsystem::{OpenSubsystem, SubsystemTable};

pub use http::MetricsServer;
pub use process::ProcessFigures;

/// What a server did for vfio-user clients.
#[derive(Debug, Default)]
pub(super) struct ClientCounters {
    connected: AtomicU64,
    disconnected: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
}

impl ClientCounters {
    /// Counts an event.
    pub fn note(&self, event: &ServeEvent) {
        let counter = match event {
            ServeEvent::ClientConnected => &self.connected,
            ServeEvent::ClientLeft => &self.disconnected,
            ServeEvent::ClientDropped(_) => &self.dropped,
            ServeEvent::ClientRefused => &self.refused,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// vfio-user clients so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// Clients that connected and were served.
    pub connected: u64,
    /// Of these, clients that disconnected by themselves.
    pub disconnected: u64,
    /// Of these, clients that the server disconnected.
    pub dropped: u64,
    /// Clients refused because another was served.
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

/// A handle to read a server's counters. It does not keep the server alive.
#[derive(Debug, Clone)]
pub struct Watch {
    pub(super) table: Weak<SubsystemTable>,
    pub(super) target: Option<TargetWatch>,
    pub(super) clients: Option<Arc<ClientCounters>>,
}

impl Watch {
    /// What the server has done so far; `None` once it is closed or a device has failed.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let clients = self.clients.as_ref().map(|clients| ClientFigures {
            connected: clients.connected.load(Relaxed),
            disconnected: clients.disconnected.load(Relaxed),
            dropped: clients.dropped.load(Relaxed),
            refused: clients.refused.load(Relaxed),
        });
        let table = self.table.upgrade()?;
        let look = |open: &OpenSubsystem| Some((open.nqn.clone(), open.device.handle().snapshot()?));
        let devices = table.list().iter().map(look).collect::<Option<Vec<_>>>()?;
        Some(Snapshot {
            devices,
            tcp: self.target.as_ref().and_then(TargetWatch::snapshot),
            clients,
            process: ProcessFigures::read(),
        })
    }
}
