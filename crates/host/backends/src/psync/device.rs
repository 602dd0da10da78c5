//! A file or block device behind synchronous system calls.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Identity, Namespace, Outcome, QueueOptions, Result,
};

use crate::psync::PsyncQueue;
use crate::target::Target;

/// A file or block device behind synchronous system calls.
#[derive(Debug, Clone)]
pub struct Psync {
    target: Arc<Target>,
    capabilities: Capabilities,
}

impl Psync {
    /// The interface's name.
    pub const NAME: &str = "psync";

    /// Commands go to `target`.
    #[must_use]
    pub fn new(target: Arc<Target>) -> Self {
        let capabilities = target.capabilities(false, false);
        Self { target, capabilities }
    }
}

impl Backend for Psync {
    type Queue = PsyncQueue;

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

    fn queue(&self, options: QueueOptions) -> Result<PsyncQueue> {
        self.target.check_queue(&options)?;
        Ok(PsyncQueue::new(Arc::clone(&self.target), options.depth))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.target.admin(&command)
    }
}
