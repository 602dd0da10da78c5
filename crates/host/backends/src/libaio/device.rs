//! A file or block device behind the kernel's native asynchronous I/O.

use std::sync::Arc;

use byway_core::{Error, ErrorKind, QueueOptions, Result};

use crate::libaio::LibaioQueue;
use crate::over::{Interface, Over};
use crate::target::Target;

/// The kernel's native asynchronous I/O.
#[derive(Debug, Clone, Copy)]
pub struct NativeAio;

/// A file or block device behind the kernel's native asynchronous I/O.
pub type Libaio = Over<Target, NativeAio>;

impl Libaio {
    /// The interface's name.
    pub const NAME: &str = "libaio";

    /// Commands go to `target`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a kernel that was built without it.
    pub fn new(target: Arc<Target>) -> Result<Self> {
        if !byway_sys::aio::is_there() {
            let said = "this kernel was built without native asynchronous I/O";
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        let capabilities = target.capabilities(true, false);
        Ok(Self::with(Self::NAME, target, capabilities, NativeAio))
    }
}

impl Interface<Target> for NativeAio {
    type Queue = LibaioQueue;

    fn queue(&self, target: &Arc<Target>, options: QueueOptions) -> Result<LibaioQueue> {
        LibaioQueue::new(Arc::clone(target), options.depth.commands())
    }
}
