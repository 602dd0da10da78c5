//! What happens to a served device, from the threads that it happens in to the one that tells it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byway_core::{Error, ErrorKind, Result};
use byway_sys::Wakeup;

/// What a served device tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// A vfio-user client has said its first word, and is served from here on.
    ClientCame,
    /// It has gone.
    ClientLeft,
    /// It was sent away, for this reason.
    ClientSentAway(String),
    /// Another came while one was served, and was refused.
    ClientRefused,
    /// An NVMe/TCP host has connected, and has a controller.
    HostCame {
        /// Its name.
        host: String,
        /// The subsystem's name.
        subsystem: String,
        /// The controller.
        controller: u16,
        /// Where it is.
        from: SocketAddr,
    },
    /// An NVMe/TCP host was not connected: it may not be, came in another way than it must, or its Connect has a field that is
    /// wrong.
    HostRefused {
        /// Its name, as it says: empty where it says none.
        host: String,
        /// The subsystem's name, as it says.
        subsystem: String,
        /// Where it is.
        from: SocketAddr,
        /// Why.
        why: &'static str,
    },
    /// An I/O queue was connected with another host identifier (HOSTID) than its admin queue, by a host of the same name. It is
    /// served: other targets do not compare them.
    HostIdDiffers {
        /// Its name.
        host: String,
        /// The subsystem's name.
        subsystem: String,
        /// The controller.
        controller: u16,
        /// Where it is.
        from: SocketAddr,
    },
    /// Its controller is gone.
    HostLeft {
        /// Its name.
        host: String,
        /// The subsystem's name.
        subsystem: String,
        /// The controller.
        controller: u16,
        /// Why, unless it left by itself.
        why: Option<String>,
    },
    /// A connection was ended for what came over it, or for what did not.
    ConnectionEnded {
        /// Where it was from.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// Other keys and secrets hold for NVMe/TCP hosts that come ([`ServedKeys::renew`](super::ServedKeys::renew)), or all that is served is as
    /// was said anew ([`ServedKeys::change`](super::ServedKeys::change)).
    KeysRenewed,
    /// There were none to be had, for this reason: those that there are stay.
    KeysKept(String),
    /// A subsystem failed: its code panicked. Its hosts are sent away, those of others stay.
    SubsystemFailed {
        /// Its name.
        subsystem: String,
    },
    /// Every device failed.
    DeviceFailed,
}

impl Told {
    /// What happened to a vfio-user client, if it is known here.
    pub(super) fn of_client(told: &byway_vfio_user::ClientEvent<'_>) -> Option<Self> {
        Some(match told {
            byway_vfio_user::ClientEvent::Connected => Self::ClientCame,
            byway_vfio_user::ClientEvent::Disconnected => Self::ClientLeft,
            byway_vfio_user::ClientEvent::Dropped(why) => Self::ClientSentAway(why.to_string()),
            byway_vfio_user::ClientEvent::Refused => Self::ClientRefused,
            _ => return None,
        })
    }
}

impl From<byway_tcp_target::TargetEvent> for Told {
    fn from(told: byway_tcp_target::TargetEvent) -> Self {
        use byway_tcp_target::TargetEvent as Tcp;
        match told {
            Tcp::HostCame { host, subsystem, controller, from } => {
                let (host, subsystem) = (host.to_string(), subsystem.to_string());
                Self::HostCame { host, subsystem, controller, from }
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

/// Events that are kept for who tells them, at most: a flood of connections is not to fill the memory.
const KEPT: usize = 4096;

/// What happened and was not told yet, and the word to stop.
#[derive(Debug)]
pub(super) struct Events {
    list: Mutex<Vec<Told>>,
    bell: Wakeup,
    stop: AtomicBool,
}

impl Events {
    /// None yet.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { list: Mutex::default(), bell: Wakeup::new()?, stop: AtomicBool::new(false) })
    }

    /// Adds one.
    pub fn put(&self, told: Told) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one ends the server, and comes in any case.
        if list.len() < KEPT || told == Told::DeviceFailed {
            list.push(told);
        }
        drop(list);
        self.bell.raise();
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.bell.raise();
    }

    /// Tells what happens until it is stopped.
    ///
    /// # Errors
    /// The device failed; the system's answer.
    pub fn wait(&self, tell: &mut impl FnMut(Told)) -> Result<()> {
        while !self.stop.load(Relaxed) {
            self.bell.wait(Duration::from_secs(3600)).map_err(|error| Error::kernel("serve", error))?;
            self.bell.lower();
            if self.drain(tell) {
                return Err(Error::host(ErrorKind::Device, "the device failed: its code panicked"));
            }
        }
        Ok(())
    }

    /// Tells what has happened; whether the device failed.
    pub fn drain(&self, tell: &mut impl FnMut(Told)) -> bool {
        let list = std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner));
        let has_failed = list.contains(&Told::DeviceFailed);
        list.into_iter().for_each(tell);
        has_failed
    }
}

/// Ends a [`Served`](super::Served) device's service, from any thread.
#[derive(Debug, Clone)]
pub struct StopServing {
    events: Arc<Events>,
    clients: Option<Arc<Wakeup>>,
}

impl StopServing {
    pub(super) fn new(events: Arc<Events>, clients: Option<Arc<Wakeup>>) -> Self {
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
    fn that_the_device_failed_is_told_behind_however_much_else() {
        let events = Events::new().unwrap();
        (0..2 * KEPT).for_each(|_| events.put(Told::ClientRefused));
        events.put(Told::DeviceFailed);
        let mut told = 0;
        assert!(events.drain(&mut |_| told += 1));
        assert_eq!(told, KEPT + 1);
    }
}
