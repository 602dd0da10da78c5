//! What is the same of every backend over a device that this process has open, whichever interface reaches it.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, BackendQueue, Buffer, Capabilities, Identity, Namespace, Outcome, QueueOptions,
    Result, Unprepared,
};

use crate::synchronous::Synchronous;

/// How commands reach an open device: what distinguishes one backend from another.
pub trait Interface<D>: Send + Sync {
    /// Its queues.
    type Queue: BackendQueue;

    /// Opens a queue of a device that can honour the options.
    ///
    /// # Errors
    /// When the interface cannot honour them, or the system has no queue left.
    fn queue(&self, device: &Arc<D>, options: QueueOptions) -> Result<Self::Queue>;

    /// A buffer of `len` zeroes.
    ///
    /// # Errors
    /// When there is no memory, or it cannot be prepared.
    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    /// Prepares memory that a program brought, where there is something to be prepared.
    ///
    /// # Errors
    /// When it cannot be.
    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        Ok(brought)
    }
}

/// A backend: an open device, and the kernel interface that its queues submit to. [`Psync`](crate::psync::Psync) is one.
#[derive(Debug)]
pub struct Over<D, I> {
    name: &'static str,
    device: Arc<D>,
    capabilities: Capabilities,
    interface: I,
}

impl<D: Synchronous, I: Interface<D>> Over<D, I> {
    /// An open device behind an interface of this name.
    #[must_use]
    pub fn with(name: &'static str, device: Arc<D>, capabilities: Capabilities, interface: I) -> Self {
        Self { name, device, capabilities, interface }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<D> {
        &self.device
    }
}

impl<D: Synchronous, I: Interface<D>> Backend for Over<D, I> {
    type Queue = I::Queue;

    fn name(&self) -> &'static str {
        self.name
    }

    fn identity(&self) -> &Identity {
        self.device.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.device.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        self.interface.buffer(len)
    }

    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        self.interface.prepare(brought)
    }

    fn queue(&self, options: QueueOptions) -> Result<I::Queue> {
        let options = options.capped(self.capabilities.limits.queue_depth);
        self.device.check_queue(&options)?;
        self.interface.queue(&self.device, options)
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.device.admin(command)
    }
}
