//! A file or block device behind the kernel's native asynchronous I/O.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, ErrorKind, Identity, Namespace, Outcome,
    QueueOptions, Result,
};

use crate::libaio::LibaioQueue;
use crate::target::Target;

/// A file or block device behind the kernel's native asynchronous I/O.
#[derive(Debug, Clone)]
pub struct Libaio {
    target: Arc<Target>,
    capabilities: Capabilities,
}

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
        Ok(Self { target, capabilities })
    }
}

impl Backend for Libaio {
    type Queue = LibaioQueue;

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn identity(&self) -> &Identity {
        self.target.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.target.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<LibaioQueue> {
        self.target.check_queue(&options)?;
        LibaioQueue::new(Arc::clone(&self.target), options.depth)
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.target.admin(&command)
    }
}
