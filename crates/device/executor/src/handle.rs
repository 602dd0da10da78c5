//! A handle that does not keep a device open.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use byway_controller::{BlockEngine, CommandError, Subsystem};

use crate::executor::Executor;
use crate::snapshot::DeviceSnapshot;

/// A handle that does not keep a device open.
#[derive(Debug, Clone)]
pub struct Handle {
    executor: Weak<Executor>,
}

/// Why a namespace could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The device is closed or has failed, or was started without external engines.
    #[error("the device is not served any more, or never had a namespace of another engine")]
    Closed,
    /// The engine contradicts what hosts have read, or no identifier is free.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The system's error.
    #[error("what is exported cannot be waited for: {0}")]
    System(#[from] io::Error),
}

impl Handle {
    pub(crate) fn new(executor: &Arc<Executor>) -> Self {
        Self { executor: Arc::downgrade(executor) }
    }

    /// Runs `look` on the subsystem, under the run lock with every queue in the controller; `None` once the device is closed or has
    /// failed.
    pub fn with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> Option<R> {
        let executor = self.executor.upgrade()?;
        executor.with_core(|core| look(&mut core.subsystem)).ok()
    }

    /// The device's counters; `None` once it is closed or has failed.
    #[must_use]
    pub fn snapshot(&self) -> Option<DeviceSnapshot> {
        self.executor.upgrade()?.snapshot()
    }

    /// Exports a namespace of `engine` to connected hosts, which get an event; returns its identifier. The engine signals `event`
    /// after completions; without one it is polled.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn export(
        &self,
        engine: Box<dyn BlockEngine>,
        event: Option<BorrowedFd<'_>>,
    ) -> Result<u32, ExportError> {
        let executor = self.executor.upgrade().ok_or(ExportError::Closed)?;
        let events = executor.engine_events().ok_or(ExportError::Closed)?;
        let nsid = executor.export(engine).map_err(|_| ExportError::Closed)??;
        if let Err(error) = events.add(nsid, event) {
            self.withdraw(nsid);
            return Err(error.into());
        }
        executor.notify_namespace_change();
        Ok(nsid)
    }

    /// Withdraws a namespace: its commands fail, and hosts get an event. Waits for the engine's outstanding commands. Whether the
    /// namespace existed.
    pub fn withdraw(&self, nsid: u32) -> bool {
        let Some(executor) = self.executor.upgrade() else { return false };
        // Dropped here, without the run lock.
        let gone = executor.withdraw(nsid);
        executor.engine_events().into_iter().for_each(|events| events.remove(nsid));
        executor.notify_namespace_change();
        gone.is_some()
    }
}
