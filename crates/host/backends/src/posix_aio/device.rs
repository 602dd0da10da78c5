//! A file or block device behind POSIX asynchronous I/O.

use std::sync::Arc;

use byway_core::{Capabilities, QueueOptions, Result};

use crate::over::{Interface, Over};
use crate::posix_aio::PosixAioQueue;
use crate::target::Target;

/// POSIX asynchronous I/O of the C library.
#[derive(Debug, Clone, Copy)]
pub struct CLibraryAio;

/// A file or block device behind POSIX asynchronous I/O.
pub type PosixAio = Over<Target, CLibraryAio>;

impl PosixAio {
    /// The interface's name.
    pub const NAME: &str = "posix_aio";

    /// Commands go to `target`.
    #[must_use]
    pub fn new(target: Arc<Target>) -> Self {
        let capabilities = Capabilities { event: false, ..target.capabilities(true, true) };
        Self::with(Self::NAME, target, capabilities, CLibraryAio)
    }
}

impl Interface<Target> for CLibraryAio {
    type Queue = PosixAioQueue;

    fn queue(&self, target: &Arc<Target>, options: QueueOptions) -> Result<PosixAioQueue> {
        Ok(PosixAioQueue::new(Arc::clone(target), options.depth.commands()))
    }
}
