//! A file or block device behind POSIX asynchronous I/O.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Identity, Namespace, Outcome, QueueOptions, Result,
};

use crate::posix_aio::PosixAioQueue;
use crate::target::Target;

/// A file or block device behind POSIX asynchronous I/O.
#[derive(Debug, Clone)]
pub struct PosixAio {
    target: Arc<Target>,
    capabilities: Capabilities,
}

impl PosixAio {
    /// The interface's name.
    pub const NAME: &str = "posix_aio";

    /// Commands go to `target`.
    #[must_use]
    pub fn new(target: Arc<Target>) -> Self {
        let capabilities = Capabilities { event: false, ..target.capabilities(true, true) };
        Self { target, capabilities }
    }
}

impl Backend for PosixAio {
    type Queue = PosixAioQueue;

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

    fn queue(&self, options: QueueOptions) -> Result<PosixAioQueue> {
        self.target.check_queue(&options)?;
        Ok(PosixAioQueue::new(Arc::clone(&self.target), options.depth))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.target.admin(&command)
    }
}
