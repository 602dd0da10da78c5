//! Notification of completions by external engines.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use byway_sys::Watch;

/// Eventfds of external engines, as one descriptor.
#[derive(Debug)]
pub struct EngineEvents {
    watch: Watch,
    /// Engines without an eventfd, which must be polled.
    silent: AtomicUsize,
    watched_by: WatchedBy,
}

/// Which threads wait for external engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedBy {
    /// Threads with connections, beside their sockets.
    Connections,
    /// A thread of the device too, for hosts that only wait for interrupts.
    Device,
}

impl EngineEvents {
    /// No engines yet.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new(watched_by: WatchedBy) -> io::Result<Self> {
        Ok(Self { watch: Watch::new()?, silent: AtomicUsize::new(0), watched_by })
    }

    /// Which threads wait for them.
    pub(crate) fn watched_by(&self) -> WatchedBy {
        self.watched_by
    }

    /// Adds the engine of namespace `nsid`, which signals `event`; without one it is polled.
    ///
    /// # Errors
    /// The system's error.
    pub fn add(&self, nsid: u32, event: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match event {
            Some(event) => self.watch.add(nsid.into(), event),
            None => {
                self.silent.fetch_add(1, Relaxed);
                Ok(())
            }
        }
    }

    /// Removes the engine of namespace `nsid`.
    pub(crate) fn remove(&self, nsid: u32) {
        self.watch.remove(nsid.into());
    }

    /// Waits for an event, at most `timeout`; true also on an error, so that the engines are polled.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        self.watch.wait(timeout).unwrap_or(true)
    }

    /// Whether there are engines without an eventfd; those are polled while they have commands.
    #[must_use]
    pub fn any_silent(&self) -> bool {
        self.silent.load(Relaxed) > 0
    }
}

impl AsFd for EngineEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
