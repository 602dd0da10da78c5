//! The driver's handle on an attached device.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Identity, Namespace, Outcome, QueueOptions, Result,
    Unprepared, check_admin, check_owner,
};
use byway_sys::ProcessLocal;

use crate::admin_commands::AdminCommands;
use crate::attach::{AttachOptions, attach};
use crate::bus::Bus;
use crate::identify;
use crate::queue_pair::Queue;
use crate::shared::Shared;

/// A device on a [`Bus`]: the driver's handle, cheap to clone. The device is shut down when the last handle and the last
/// queue are gone.
pub struct Driver<B: Bus> {
    shared: ProcessLocal<Arc<Shared<B>>>,
}

impl<B: Bus> Clone for Driver<B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<B: Bus> Driver<B> {
    /// Resets the device behind `bus`, starts it, and asks what it can do.
    ///
    /// # Errors
    /// When the device does not start, does not answer, or has no memory pages of 4 KiB.
    pub fn attach(bus: Arc<B>, options: AttachOptions) -> Result<Self> {
        Ok(Self { shared: Arc::new(attach(bus, options)?).into() })
    }

    /// The bus.
    #[must_use]
    pub fn bus(&self) -> &Arc<B> {
        self.shared.bus()
    }

    /// Identity of the device.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.shared.identity()
    }

    /// What can be done with it.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.shared.capabilities()
    }

    /// The namespaces that are attached, asked anew.
    ///
    /// # Errors
    /// When the device does not answer.
    pub fn namespaces(&self) -> Result<Vec<Namespace>> {
        check_owner(Shared::owner(&self.shared))?;
        identify::namespaces(&self.shared)
    }

    /// A buffer in memory that is mapped already. What it holds is left from its last use, or zeroes.
    ///
    /// # Errors
    /// When there is no memory, or it cannot be mapped.
    pub fn buffer(&self, len: usize) -> Result<Buffer> {
        self.shared.pool().take(len)
    }

    /// Maps memory that a program brought, until the buffer and all that were cut from it are gone.
    ///
    /// # Errors
    /// For memory that is not whole pages, or that cannot be mapped.
    pub fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        if let Err(error) = check_owner(Shared::owner(&self.shared)) {
            return Err(Unprepared { buffer: brought, error });
        }
        self.shared.pool().prepare(brought)
    }

    /// Sends an admin command and waits for it. Several threads may have theirs on their way at once.
    ///
    /// # Errors
    /// The device's status, or its silence; a command that names memory by addresses, or moves more than its data has.
    pub fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        check_owner(Shared::owner(&self.shared))?;
        check_admin(&command)?;
        self.shared.announced().admin.require(&command)?;
        self.shared.admin(command)
    }

    /// Admin commands that go on by themselves, several at once.
    #[must_use]
    pub fn admin_commands(&self) -> AdminCommands<B> {
        AdminCommands::new(Arc::clone(&self.shared))
    }

    /// Opens a queue.
    ///
    /// # Errors
    /// When the device did not announce the transfer method, the depth does not fit the ring, or no queue is left.
    pub fn queue(&self, options: QueueOptions) -> Result<Queue<B>> {
        check_owner(Shared::owner(&self.shared))?;
        Queue::open(Arc::clone(&self.shared), options)
    }
}

impl<B: Bus> Backend for Driver<B> {
    type Queue = Queue<B>;

    fn name(&self) -> &'static str {
        self.bus().name()
    }

    fn identity(&self) -> &Identity {
        Driver::identity(self)
    }

    fn capabilities(&self) -> &Capabilities {
        Driver::capabilities(self)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        Driver::namespaces(self)
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Driver::buffer(self, len)
    }

    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        Driver::prepare(self, brought)
    }

    fn queue(&self, options: QueueOptions) -> Result<Queue<B>> {
        Driver::queue(self, options)
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        Driver::admin(self, command)
    }
}
