//! A device behind synchronous system calls.

use std::sync::Arc;

use byway_core::{QueueOptions, Result};

use crate::over::{Interface, Over};
use crate::psync::PsyncQueue;
use crate::synchronous::Synchronous;
use crate::target::Target;

/// The interface of [`Psync`]: the submitting thread does each command at once, by a synchronous system call.
#[derive(Debug, Clone, Copy)]
pub struct AtOnce;

/// A file or block device behind synchronous system calls.
pub type Psync = Over<Target, AtOnce>;

impl Psync {
    /// The interface's name.
    pub const NAME: &str = "psync";

    /// Commands go to `target`.
    #[must_use]
    pub fn new(target: Arc<Target>) -> Self {
        let capabilities = target.capabilities(false, false);
        Self::with(Self::NAME, target, capabilities, AtOnce)
    }
}

impl<S: Synchronous> Interface<S> for AtOnce {
    type Queue = PsyncQueue<S>;

    fn queue(&self, device: &Arc<S>, options: QueueOptions) -> Result<PsyncQueue<S>> {
        Ok(PsyncQueue::new(Arc::clone(device), options))
    }
}
