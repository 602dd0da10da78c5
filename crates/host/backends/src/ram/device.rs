//! A namespace of blocks in memory.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Identity, Namespace, Outcome, QueueOptions, Result,
};

use crate::ram::{RamDisk, RamQueue};
use crate::synchronous::Synchronous;

/// A namespace of blocks in memory.
#[derive(Debug, Clone)]
pub struct Ram {
    disk: Arc<RamDisk>,
    capabilities: Capabilities,
}

impl Ram {
    /// The interface's name.
    pub const NAME: &str = "ram";

    /// Commands go to `disk`.
    #[must_use]
    pub fn new(disk: Arc<RamDisk>) -> Self {
        let capabilities = disk.capabilities(false, false);
        Self { disk, capabilities }
    }
}

impl Backend for Ram {
    type Queue = RamQueue;

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn identity(&self) -> &Identity {
        self.disk.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.disk.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<RamQueue> {
        self.disk.check_queue(&options)?;
        Ok(RamQueue::new(Arc::clone(&self.disk), options.depth))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.disk.admin(&command)
    }
}
