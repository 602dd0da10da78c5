//! An open device, held by everything that uses it, and closed once.
//!
//! Closing ends the parts first (queues, calls to namespaces), so that no part uses an image that is marked as
//! closed. A part that outlives the closing raises an error at its next call.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use byway::{Device, OwnerProcess};
use pyo3::prelude::*;

use crate::errors::Fault;

/// What uses an open device, and ends before it.
pub trait Part: Send + Sync {
    /// Ends it: waits for what is under way. Twice is once. Called without the GIL.
    fn close(&self);
}

/// An open device.
pub struct Held {
    /// The process that opened it: in a forked child nothing is asked of the device, and no lock is taken that another
    /// thread may have held at the fork.
    owner: OwnerProcess,
    device: RwLock<Option<Device>>,
    parts: Mutex<Vec<Weak<dyn Part>>>,
}

impl Held {
    /// A device that was just opened.
    pub fn new(device: Device) -> Arc<Self> {
        Arc::new(Self {
            owner: OwnerProcess::current(),
            device: RwLock::new(Some(device)),
            parts: Mutex::new(Vec::new()),
        })
    }

    /// Looks at the device, or asks it something, with the GIL released.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&Device) -> byway::Result<R> + Send,
    ) -> PyResult<R> {
        Ok(py.detach(|| self.look(look))?)
    }

    /// As [`Held::with`], for a caller that has released the GIL.
    pub fn look<R>(&self, look: impl FnOnce(&Device) -> byway::Result<R>) -> Result<R, Fault> {
        self.check_owner()?;
        let device = self.device.read().unwrap_or_else(PoisonError::into_inner);
        Ok(look(device.as_ref().ok_or(Fault::Closed("device"))?)?)
    }

    /// Has `part` closed before the device is.
    pub fn adopt<P: Part + 'static>(&self, part: &Arc<P>) {
        let part: Weak<dyn Part> = Arc::downgrade(part) as Weak<dyn Part>;
        let mut parts = self.parts();
        parts.retain(|part| part.strong_count() > 0);
        parts.push(part);
    }

    /// Whether the calling process opened it.
    pub fn is_here(&self) -> bool {
        self.owner.is_current()
    }

    /// Refuses a call in a forked child.
    pub fn check_owner(&self) -> Result<(), Fault> {
        Ok(byway::check_owner(&self.owner)?)
    }

    /// Closes the parts, then the device. Called without the GIL.
    pub fn close(&self) -> Result<(), Fault> {
        self.check_owner()?;
        let parts = std::mem::take(&mut *self.parts());
        parts.iter().filter_map(Weak::upgrade).for_each(|part| part.close());
        let device = self.device.write().unwrap_or_else(PoisonError::into_inner).take();
        Ok(device.map_or(Ok(()), Device::close)?)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.is_here() && self.device.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn Part>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    /// A device that the program dropped is closed as well; an error of that has no caller to go to.
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        without_gil(|| drop(self.close()));
    }
}

/// Does something that waits, with the GIL released if this thread has it. For `Drop`, which is called with or without.
pub fn without_gil<R: Send>(what: impl FnOnce() -> R + Send) -> R {
    let mut what = Some(what);
    let done = Python::try_attach(|py| what.take().map(|what| py.detach(what)));
    match (done.flatten(), what) {
        (Some(done), _) => done,
        (None, Some(what)) => what(),
        (None, None) => unreachable!("it was done or it is left"),
    }
}
