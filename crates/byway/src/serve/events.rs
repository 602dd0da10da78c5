//! Events of a server: a queue from its threads to the one that reports them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use byway_core::{Error, ErrorKind, Result};
use byway_sys::Wakeup;
use parking_lot::Mutex;

/// An event of a server, for its log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeEvent {
    /// A vfio-user client has connected: its first message was received, and it is served from here on.
    ClientConnected,
    /// The vfio-user client has disconnected.
    ClientLeft,
    /// The server has disconnected the vfio-user client, for this reason.
    ClientDropped(String),
    /// A second vfio-user client connected while one was served, and was refused.
    ClientRefused,
    /// An NVMe/TCP host has connected, and has a controller.
    HostConnected {
        /// NQN of the host.
        host: String,
        /// NQN of the subsystem.
        subsystem: String,
        /// Controller identifier.
        controller: u16,
        /// Address of the host.
        from: SocketAddr,
    },
    /// An NVMe/TCP host was refused: it is not allowed, lacks TLS or authentication that it must use, or its Connect has a wrong
    /// field.
    HostRefused {
        /// NQN that the host sent; empty where it sent none.
        host: String,
        /// NQN of the subsystem that the host asked for.
        subsystem: String,
        /// Address of the host.
        from: SocketAddr,
        /// Reason.
        why: &'static str,
    },
    /// An I/O queue was connected with another host identifier (HOSTID) than its admin queue, by a host of the same name. It is
    /// served: other targets do not compare them.
    HostIdDiffers {
        /// NQN of the host.
        host: String,
        /// NQN of the subsystem.
        subsystem: String,
        /// Controller identifier.
        controller: u16,
        /// Address of the host.
        from: SocketAddr,
    },
    /// The controller of an NVMe/TCP host is gone.
    HostLeft {
        /// NQN of the host.
        host: String,
        /// NQN of the subsystem.
        subsystem: String,
        /// Controller identifier.
        controller: u16,
        /// Why, unless the host disconnected.
        why: Option<String>,
    },
    /// The server ended a connection: it broke the protocol, or timed out.
    ConnectionEnded {
        /// Address of the host.
        from: SocketAddr,
        /// Reason.
        why: String,
    },
    /// New keys and secrets hold for NVMe/TCP hosts that connect from now on ([`ServedKeys::renew`](super::ServedKeys::renew)), or a new
    /// configuration was applied ([`ServedKeys::change`](super::ServedKeys::change)).
    KeysRenewed,
    /// Reading new keys or applying a new configuration failed, for this reason: the old ones stay.
    KeysKept(String),
    /// A subsystem failed: its code panicked. Its hosts are disconnected, those of others stay.
    SubsystemFailed {
        /// NQN of the subsystem.
        subsystem: String,
    },
    /// Another program has cut short or overwritten the image of a subsystem. Its hosts are disconnected, those of others stay; the
    /// server of a single subsystem ends.
    ImageDamaged {
        /// NQN of the subsystem.
        subsystem: String,
        /// Path of the image, as it was opened.
        image: PathBuf,
    },
    /// The control socket for the image of an added subsystem could not be opened: commands that name the image do not reach the server.
    NoControlSocket {
        /// NQN of the subsystem.
        subsystem: String,
        /// Reason.
        why: String,
    },
    /// Every device failed.
    DeviceFailed,
}

impl ServeEvent {
    /// The former name of [`ServeEvent::ClientConnected`].
    #[deprecated(note = "it is `ClientConnected`")]
    #[allow(non_upper_case_globals)]
    pub const ClientCame: Self = Self::ClientConnected;

    /// Whether it ends the service of a subsystem: such an event is never dropped.
    const fn is_final(&self) -> bool {
        matches!(self, Self::DeviceFailed | Self::ImageDamaged { .. })
    }

    /// What happened to a vfio-user client, if it is known here.
    pub(super) fn of_client(event: &byway_vfio_user::ClientEvent<'_>) -> Option<Self> {
        Some(match event {
            byway_vfio_user::ClientEvent::Connected => Self::ClientConnected,
            byway_vfio_user::ClientEvent::Disconnected => Self::ClientLeft,
            byway_vfio_user::ClientEvent::Dropped(why) => Self::ClientDropped(why.to_string()),
            byway_vfio_user::ClientEvent::Refused => Self::ClientRefused,
            _ => return None,
        })
    }
}

impl From<byway_tcp_target::TargetEvent> for ServeEvent {
    fn from(event: byway_tcp_target::TargetEvent) -> Self {
        use byway_tcp_target::TargetEvent as Tcp;
        match event {
            Tcp::HostConnected { host, subsystem, controller, from } => {
                let (host, subsystem) = (host.to_string(), subsystem.to_string());
                Self::HostConnected { host, subsystem, controller, from }
            }
            Tcp::HostRefused { host, subsystem, from, why } => {
                Self::HostRefused { host, subsystem, from, why }
            }
            Tcp::HostIdDiffers { host, subsystem, controller, from } => {
                let (host, subsystem) = (host.to_string(), subsystem.to_string());
                Self::HostIdDiffers { host, subsystem, controller, from }
            }
            Tcp::HostLeft { host, subsystem, controller, why } => {
                let (host, subsystem) = (host.to_string(), subsystem.to_string());
                Self::HostLeft { host, subsystem, controller, why }
            }
            Tcp::ConnectionEnded { from, why } => Self::ConnectionEnded { from, why },
            Tcp::SubsystemFailed { subsystem } => Self::SubsystemFailed { subsystem: subsystem.to_string() },
            _ => Self::DeviceFailed,
        }
    }
}

/// How often images are inspected while no event arrives.
const INSPECT_INTERVAL: Duration = Duration::from_secs(1);

/// Most events that wait to be reported: a flood of connections must not fill the memory.
const KEPT: usize = 4096;

/// Events that were not reported yet, and the request to stop.
#[derive(Debug)]
pub(super) struct EventQueue {
    list: Mutex<Vec<ServeEvent>>,
    wakeup: Wakeup,
    stop: AtomicBool,
}

impl EventQueue {
    /// None yet.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { list: Mutex::default(), wakeup: Wakeup::new()?, stop: AtomicBool::new(false) })
    }

    /// Adds one.
    pub fn put(&self, event: ServeEvent) {
        let mut list = self.list.lock();
        if list.len() < KEPT || event.is_final() {
            list.push(event);
        }
        drop(list);
        self.wakeup.raise();
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.wakeup.raise();
    }

    /// Passes events to `report` until the server is stopped, and calls `inspect` at each event, at least once a second.
    ///
    /// # Errors
    /// The device failed; that of `inspect`; the system's answer.
    pub fn wait(&self, report: &mut impl FnMut(ServeEvent), inspect: impl Fn() -> Result<()>) -> Result<()> {
        while !self.stop.load(Relaxed) {
            self.wakeup.wait(INSPECT_INTERVAL).map_err(|error| Error::kernel("serve", error))?;
            self.wakeup.lower();
            let inspected = inspect();
            if self.drain(report) {
                return Err(Error::host(ErrorKind::Device, "the device failed: its code panicked"));
            }
            inspected?;
        }
        Ok(())
    }

    /// Passes the queued events to `report`; returns whether the device failed.
    pub fn drain(&self, report: &mut impl FnMut(ServeEvent)) -> bool {
        let list = std::mem::take(&mut *self.list.lock());
        let has_failed = list.contains(&ServeEvent::DeviceFailed);
        list.into_iter().for_each(report);
        has_failed
    }
}

/// Ends a [`Served`](super::Served) device's service, from any thread.
#[derive(Debug, Clone)]
pub struct StopServing {
    events: Arc<EventQueue>,
    clients: Option<Arc<Wakeup>>,
}

impl StopServing {
    pub(super) fn new(events: Arc<EventQueue>, clients: Option<Arc<Wakeup>>) -> Self {
        Self { events, clients }
    }

    /// [`Served::run`](super::Served::run) returns once what clients have asked for so far is done.
    pub fn stop(&self) {
        self.events.stop();
        self.clients.iter().for_each(|clients| clients.raise());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn failed_device_is_reported_when_the_queue_is_full() {
        let events = EventQueue::new().unwrap();
        (0..2 * KEPT).for_each(|_| events.put(ServeEvent::ClientRefused));
        events.put(ServeEvent::DeviceFailed);
        let mut reported = 0;
        assert!(events.drain(&mut |_| reported += 1));
        assert_eq!(reported, KEPT + 1);
    }
}
