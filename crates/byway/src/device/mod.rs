//! A device of any kind, behind the backend that serves it: what [`crate::open`] gives.
//!
//! A [`Device`] knows which backend serves it and why that one was chosen; its [`Queue`]s hand every call on by one
//! match. A program that wants the least cost names a backend's own types (`byway::backends`, [`crate::embedded`]).

mod admin;
mod choose;
mod chosen;
mod controller;
mod image;
#[cfg(feature = "kernel")]
mod kernel;
mod kind;
#[cfg(feature = "tcp")]
mod nameless;
pub(crate) mod namespaces;
mod open;
#[cfg(feature = "vfio")]
mod pcie;
mod scan;
#[cfg(feature = "tcp")]
mod tcp;
mod wipe;

use std::fmt;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, Identity, Namespace, Nsid, Outcome, QueueOptions,
    Result, Unprepared, check_owner,
};
use byway_sys::ProcessLocal;
#[cfg(feature = "tcp")]
use byway_tcp_initiator::PathStatus;

use crate::calls::{Kv, KvQueue, Nvm, NvmQueue, Queue};
#[cfg(feature = "embedded")]
use crate::embedded;

pub use chosen::{Chosen, PassedOver};
pub use image::{is_image, uri_of};
#[cfg(feature = "serve")]
pub(crate) use open::resolved;
pub use open::{open, open_address, open_to_read};
pub use scan::{Found, FoundKind, scan};
#[cfg(feature = "tcp")]
pub use tcp::discover;
pub use wipe::Wipe;

use kind::{DeviceKind, each};

/// An open device of any kind. Queues outlive it.
///
/// It is of the process that opened it, with its queues and all else that was opened of it: in a forked child their calls
/// are refused with [`Denied`](byway_core::ErrorKind::Denied), and dropping them changes nothing for the parent (decision 58).
pub struct Device {
    kind: ProcessLocal<DeviceKind>,
    chosen: Chosen,
    queue: QueueOptions,
    ns: Option<Nsid>,
}

impl Device {
    #[cfg(feature = "embedded")]
    fn of_embedded(device: embedded::EmbeddedDevice) -> Self {
        let why = "the device is in this process".to_owned();
        let chosen = Chosen { backend: "embedded", why, passed_over: Vec::new() };
        let queue = device.queue_options();
        let ns = device.default_namespace();
        Self { kind: DeviceKind::Embedded(Box::new(device)).into(), chosen, queue, ns }
    }

    /// The device, if the namespace that its URI names is there.
    fn with_its_namespace(self) -> Result<Self> {
        if let Some(nsid) = self.ns {
            self.namespace(nsid)?;
        }
        Ok(self)
    }

    /// Refuses a call in a forked child.
    ///
    /// # Errors
    /// [`Denied`](byway_core::ErrorKind::Denied).
    pub fn check_owner(&self) -> Result<()> {
        check_owner(self.kind.owner())
    }

    fn kind(&self) -> &DeviceKind {
        &self.kind
    }

    /// The device in this process, if it is one: what it counts and what is inside it.
    #[cfg(feature = "embedded")]
    #[must_use]
    pub fn as_embedded(&self) -> Option<&embedded::EmbeddedDevice> {
        match &*self.kind {
            DeviceKind::Embedded(device) => Some(device),
            _ => None,
        }
    }

    /// The backend that serves it, and why that one.
    #[must_use]
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// The paths by which it is reached, where there may be several, and how each of them is.
    #[cfg(feature = "tcp")]
    #[must_use]
    pub fn paths(&self) -> Option<Vec<PathStatus>> {
        match &*self.kind {
            DeviceKind::TcpPaths(device) => Some(device.paths()),
            _ => None,
        }
    }

    /// The namespace `nsid`.
    ///
    /// # Errors
    /// When there is none.
    pub fn namespace(&self, nsid: Nsid) -> Result<Namespace> {
        namespaces::namespace(&self.namespaces()?, nsid)
    }

    /// The namespace that calls without one mean, where the URI names one.
    #[must_use]
    pub fn default_namespace(&self) -> Option<Nsid> {
        self.ns
    }

    /// The namespace of blocks that calls mean: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace, or it is of another kind.
    pub fn nvm_namespace(&self, nsid: Option<Nsid>) -> Result<Namespace> {
        namespaces::nvm(&self.namespaces()?, nsid.or(self.ns))
    }

    /// The key-value namespace that calls mean: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// As [`Device::nvm_namespace`].
    pub fn kv_namespace(&self, nsid: Option<Nsid>) -> Result<Namespace> {
        namespaces::kv(&self.namespaces()?, nsid.or(self.ns))
    }

    /// A queue as the URI asked for. One thread uses it; each thread takes its own.
    ///
    /// # Errors
    /// When the device has none left.
    pub fn default_queue(&self) -> Result<Queue> {
        Backend::queue(self, self.queue)
    }

    /// The options that queues have by the URI, with the depth that the device's queues can have.
    #[must_use]
    pub fn queue_options(&self) -> QueueOptions {
        self.queue.capped(self.capabilities().limits.queue_depth)
    }

    /// Synchronous calls to a key-value namespace: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn kv(&self, nsid: Option<Nsid>) -> Result<Kv> {
        #[cfg(feature = "embedded")]
        if let DeviceKind::Embedded(device) = &*self.kind {
            return device.kv(nsid);
        }
        let namespace = self.kv_namespace(nsid)?;
        let kv = Kv::new(self.default_queue()?, &namespace)?.with_capabilities(self.capabilities());
        Ok(match &*self.kind {
            #[cfg(feature = "vfio")]
            DeviceKind::VfioUser(driver) => kv.with_memory_of(driver.clone()),
            #[cfg(feature = "vfio")]
            DeviceKind::Vfio(driver) => kv.with_memory_of(driver.clone()),
            _ => kv,
        })
    }

    /// Synchronous calls to a namespace of blocks: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn nvm(&self, nsid: Option<Nsid>) -> Result<Nvm> {
        #[cfg(feature = "embedded")]
        if let DeviceKind::Embedded(device) = &*self.kind {
            return device.nvm(nsid);
        }
        let namespace = self.nvm_namespace(nsid)?;
        Nvm::new(self.default_queue()?, &namespace)
    }

    /// Commands to a key-value namespace, many at a time: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace, or the device has no queue left.
    pub fn kv_queue(&self, nsid: Option<Nsid>) -> Result<KvQueue> {
        let namespace = self.kv_namespace(nsid)?;
        KvQueue::new(self.default_queue()?, &namespace)
    }

    /// Commands to a namespace of blocks, many at a time: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace, or the device has no queue left.
    pub fn nvm_queue(&self, nsid: Option<Nsid>) -> Result<NvmQueue> {
        let namespace = self.nvm_namespace(nsid)?;
        NvmQueue::new(self.default_queue()?, &namespace)
    }

    /// Closes the device in order: what an image holds is synced and marked as closed.
    ///
    /// # Errors
    /// When the file system refuses; [`Denied`](byway_core::ErrorKind::Denied) in a forked child, which leaves the device to its parent.
    pub fn close(self) -> Result<()> {
        match self.kind.into_inner().map_err(|owner| Error::other_process(&owner))? {
            #[cfg(feature = "embedded")]
            DeviceKind::Embedded(device) => device.close(),
            _ => Ok(()),
        }
    }
}

impl Backend for Device {
    type Queue = Queue;

    fn name(&self) -> &'static str {
        self.chosen.backend
    }

    fn identity(&self) -> &Identity {
        each!(&*self.kind, backend => backend.identity())
    }

    fn capabilities(&self) -> &Capabilities {
        each!(&*self.kind, backend => backend.capabilities())
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.check_owner()?;
        each!(&*self.kind, backend => backend.namespaces())
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        self.check_owner()?;
        each!(&*self.kind, backend => backend.buffer(len))
    }

    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        if let Err(error) = self.check_owner() {
            return Err(Unprepared { buffer: brought, error });
        }
        each!(&*self.kind, backend => backend.prepare(brought))
    }

    fn queue(&self, options: QueueOptions) -> Result<Queue> {
        self.check_owner()?;
        each!(&*self.kind, backend => Backend::queue(backend, options).map(Queue::from))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.check_owner()?;
        each!(&*self.kind, backend => backend.admin(command))
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Device").field("chosen", &self.chosen).finish_non_exhaustive()
    }
}
