//! An open device of any kind.

use std::fmt;

#[cfg(feature = "kernel")]
use byway_backends::{IoUring, IoUringCmd, Libaio, NvmeIoctl, NvmeTarget, PosixAio, Psync, Threads};
use byway_backends::{Nil, Ram};
#[cfg(feature = "vfio")]
use byway_buses::{VfioBus, VfioUserBus};
use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Depth, Error, ErrorKind, Identity, Method, Namespace, Nsid,
    Outcome, QueueOptions, Result, Unprepared, check_owner,
};
#[cfg(feature = "vfio")]
use byway_driver::Driver;
use byway_sys::ProcessLocal;
#[cfg(feature = "tcp")]
use byway_tcp_initiator::{NvmeTcp, NvmeTcpPaths, PathStatus};

use crate::any::address::{Address, BlockOptions, BlockPlace};
use crate::any::choose::{self, Chosen};
#[cfg(feature = "vfio")]
use crate::any::pcie;
#[cfg(feature = "tcp")]
use crate::any::tcp;
use crate::any::{Nvm, Queue};
#[cfg(feature = "embedded")]
use crate::embedded;
use crate::kv::Kv;
use crate::pick;
use crate::uri::shown;

/// Opens the device that `uri` names: `embedded:PATH`, `ram:SIZE` or `null:SIZE` for one in this process, a path or
/// `file:PATH` for a file, a block device or an NVMe device node, `vfio-user:PATH` for a device that another process
/// serves, `pci:0000:04:00.0` for one that `vfio-pci` has, `tcp://HOST:4420/NQN` for one that is reached over the network, `blocks:SIZE` for blocks in memory, `nil:SIZE` for none.
///
/// # Errors
/// A text that is no device, an option that cannot be honoured, a device that cannot be opened: one sentence says which
/// and why, and what was tried.
pub fn open(uri: &str) -> Result<Device> {
    open_address(&uri.parse()?).map_err(|error| error.doing(format!("open {}", shown(uri))))
}

/// Opens the device at an address that is parsed already.
///
/// # Errors
/// As [`open`].
pub fn open_address(address: &Address) -> Result<Device> {
    match address {
        #[cfg(feature = "embedded")]
        Address::Embedded(uri) => Ok(Device::of_embedded(embedded::open_uri(uri)?)),
        #[cfg(not(feature = "embedded"))]
        Address::Embedded(_) => Err(crate::any::address::left_out("embedded")),
        #[cfg(feature = "vfio")]
        Address::Pcie(uri) => {
            let (reached, chosen) = pcie::reach(uri)?;
            Device { reached: reached.into(), chosen, queue: uri.queue_options(), ns: uri.options.ns }
                .with_its_namespace()
        }
        #[cfg(feature = "tcp")]
        Address::Tcp(uri) => {
            let (reached, chosen) = tcp::reach(uri)?;
            Device { reached: reached.into(), chosen, queue: uri.queue_options(), ns: uri.ns }
                .with_its_namespace()
        }
        Address::Blocks(uri) => {
            let (reached, chosen) = choose::reach(uri)?;
            let BlockOptions { depth, transfer, ns, .. } = uri.options;
            let queue = QueueOptions { depth: Depth::UpTo(depth), transfer, ..QueueOptions::default() };
            let device = Device { reached: reached.into(), chosen, queue, ns };
            if transfer != Method::Prp {
                // Whether the device has it is told now, not by the first queue.
                device.default_queue()?;
            }
            device.with_its_namespace()
        }
    }
}

/// Opens the device that `uri` names to read it: what may not be written is opened for reading alone.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(uri: &str) -> Result<Device> {
    match uri.parse()? {
        #[cfg(feature = "embedded")]
        Address::Embedded(_) => Ok(Device::of_embedded(embedded::open_to_read(uri)?)),
        Address::Blocks(address) if address.options.create_bytes.is_some() => {
            let said = format!("open {uri}: option create makes a file, and this only reads one");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        Address::Blocks(mut address) => {
            address.options.read_only |= matches!(address.place, BlockPlace::Path(_) | BlockPlace::File(_));
            let opened = open_address(&Address::Blocks(address));
            opened.map_err(|error| error.doing(format!("open {uri}")))
        }
        // What is not in this process opens alike for either.
        #[cfg(any(feature = "vfio", feature = "tcp", not(feature = "embedded")))]
        _ => open(uri),
    }
}

/// An open device of any kind. Queues outlive it.
///
/// It is of the process that opened it, with its queues and all else that was opened of it: in a forked child their calls
/// are refused with [`ErrorKind::Denied`], and dropping them changes nothing for the parent (decision 58).
pub struct Device {
    reached: ProcessLocal<Reached>,
    chosen: Chosen,
    queue: QueueOptions,
    ns: Option<Nsid>,
}

/// A device behind the backend that serves it.
pub(crate) enum Reached {
    #[cfg(feature = "embedded")]
    Embedded(Box<embedded::Device>),
    #[cfg(feature = "vfio")]
    VfioUser(Driver<VfioUserBus>),
    #[cfg(feature = "vfio")]
    Vfio(Driver<VfioBus>),
    #[cfg(feature = "kernel")]
    Libaio(Libaio),
    Nil(Nil),
    #[cfg(feature = "kernel")]
    PosixAio(PosixAio),
    #[cfg(feature = "kernel")]
    IoUring(IoUring),
    #[cfg(feature = "kernel")]
    IoUringCmd(IoUringCmd),
    #[cfg(feature = "kernel")]
    NvmeIoctl(NvmeIoctl),
    #[cfg(feature = "kernel")]
    NvmeThreads(Threads<NvmeTarget>),
    #[cfg(feature = "kernel")]
    Psync(Psync),
    Ram(Ram),
    #[cfg(feature = "tcp")]
    Tcp(NvmeTcp),
    #[cfg(feature = "tcp")]
    TcpPaths(NvmeTcpPaths),
    #[cfg(feature = "kernel")]
    Threads(Threads),
}

/// The same words for every kind of device.
macro_rules! each {
    ($reached:expr, $backend:ident => $what:expr) => {
        match $reached {
            #[cfg(feature = "embedded")]
            Reached::Embedded(device) => {
                let $backend = device.driver();
                $what
            }
            #[cfg(feature = "vfio")]
            Reached::VfioUser($backend) => $what,
            #[cfg(feature = "vfio")]
            Reached::Vfio($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::Libaio($backend) => $what,
            Reached::Nil($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::PosixAio($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::IoUring($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::IoUringCmd($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::NvmeIoctl($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::NvmeThreads($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::Psync($backend) => $what,
            Reached::Ram($backend) => $what,
            #[cfg(feature = "tcp")]
            Reached::Tcp($backend) => $what,
            #[cfg(feature = "tcp")]
            Reached::TcpPaths($backend) => $what,
            #[cfg(feature = "kernel")]
            Reached::Threads($backend) => $what,
        }
    };
}

impl Device {
    #[cfg(feature = "embedded")]
    fn of_embedded(device: embedded::Device) -> Self {
        let why = "the device is in this process".to_owned();
        let chosen = Chosen { backend: "embedded", why, passed_over: Vec::new() };
        let queue = device.queue_options();
        let ns = device.default_namespace();
        Self { reached: Reached::Embedded(Box::new(device)).into(), chosen, queue, ns }
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
    /// [`ErrorKind::Denied`].
    pub fn check_owner(&self) -> Result<()> {
        check_owner(self.reached.owner())
    }

    pub(crate) fn reached(&self) -> &Reached {
        &self.reached
    }

    /// The device in this process, if it is one: what it counts and what is inside it.
    #[cfg(feature = "embedded")]
    #[must_use]
    pub fn as_embedded(&self) -> Option<&embedded::Device> {
        match &*self.reached {
            Reached::Embedded(device) => Some(device),
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
        match &*self.reached {
            Reached::TcpPaths(device) => Some(device.paths()),
            _ => None,
        }
    }

    /// The namespace `nsid`.
    ///
    /// # Errors
    /// When there is none.
    pub fn namespace(&self, nsid: Nsid) -> Result<Namespace> {
        pick::namespace(&self.namespaces()?, nsid)
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
        pick::nvm(&self.namespaces()?, nsid.or(self.ns))
    }

    /// The key-value namespace that calls mean: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// As [`Device::nvm_namespace`].
    pub fn kv_namespace(&self, nsid: Option<Nsid>) -> Result<Namespace> {
        pick::kv(&self.namespaces()?, nsid.or(self.ns))
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
        if let Reached::Embedded(device) = &*self.reached {
            return device.kv(nsid);
        }
        let namespace = self.kv_namespace(nsid)?;
        let kv = Kv::new(self.default_queue()?, &namespace)?.with_capabilities(self.capabilities());
        Ok(match &*self.reached {
            #[cfg(feature = "vfio")]
            Reached::VfioUser(driver) => kv.with_memory_of(driver.clone()),
            #[cfg(feature = "vfio")]
            Reached::Vfio(driver) => kv.with_memory_of(driver.clone()),
            _ => kv,
        })
    }

    /// Synchronous calls to a namespace of blocks: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn nvm(&self, nsid: Option<Nsid>) -> Result<Nvm> {
        #[cfg(feature = "embedded")]
        if let Reached::Embedded(device) = &*self.reached {
            return device.nvm(nsid);
        }
        let namespace = self.nvm_namespace(nsid)?;
        Nvm::new(self.default_queue()?, &namespace)
    }

    /// Closes the device in order: what an image holds is synced and marked as closed.
    ///
    /// # Errors
    /// When the file system refuses; [`ErrorKind::Denied`] in a forked child, which leaves the device to its parent.
    pub fn close(self) -> Result<()> {
        match self.reached.into_inner().map_err(|owner| Error::other_process(&owner))? {
            #[cfg(feature = "embedded")]
            Reached::Embedded(device) => device.close(),
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
        each!(&*self.reached, backend => backend.identity())
    }

    fn capabilities(&self) -> &Capabilities {
        each!(&*self.reached, backend => backend.capabilities())
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.check_owner()?;
        each!(&*self.reached, backend => backend.namespaces())
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        self.check_owner()?;
        each!(&*self.reached, backend => backend.buffer(len))
    }

    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        if let Err(error) = self.check_owner() {
            return Err(Unprepared { buffer: brought, error });
        }
        each!(&*self.reached, backend => backend.prepare(brought))
    }

    fn queue(&self, options: QueueOptions) -> Result<Queue> {
        self.check_owner()?;
        each!(&*self.reached, backend => Backend::queue(backend, options).map(Queue::from))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.check_owner()?;
        each!(&*self.reached, backend => backend.admin(command))
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Device").field("chosen", &self.chosen).finish_non_exhaustive()
    }
}
