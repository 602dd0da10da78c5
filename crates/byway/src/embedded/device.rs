//! An open device in this process: identity, queues and counters.

use std::time::Instant;

use byway_controller::{Subsystem, UpkeepTimes};
use byway_core::{
    Backend, Capabilities, Depth, Error, ErrorKind, Identity, Namespace, Nsid, QueueOptions, Result,
    check_owner,
};
use byway_driver::Driver;
use byway_flash::{FlashCounters, FlashHealth, Geometry};
use byway_kv::KvStats;
use byway_link::{ClockMode, Ledger, Profile};
use byway_local::{Embedded, Failed, Handle, InProcessBus, RunBy};
use byway_sys::OwnerProcess;

use crate::calls::{EmbeddedQueue, Kv, Nvm};
use crate::device::namespaces;
use crate::embedded::control_folder::ControlSocket;
use crate::embedded::errors::from_flash;
use crate::uri::{FlushMode, Options};

/// An open device. Queues outlive it: the device closes when the last of both is dropped, and takes requests of other
/// processes until then.
///
/// It is of the process that opened it. In a forked child every call that gives a [`Result`] is refused with
/// [`ErrorKind::Denied`], those that look inside without one panic, and dropping it changes nothing (decision 58).
pub struct EmbeddedDevice {
    owner: OwnerProcess,
    // Declared before the device it speaks to, so that it shuts the device down first.
    driver: Driver<InProcessBus>,
    embedded: Embedded,
    queue: QueueOptions,
    ns: Option<Nsid>,
    flush: FlushMode,
    never_waits: bool,
    control: ControlSocket,
    /// Time that the opening took.
    pub(crate) opened_in_ns: u64,
}

/// What the flash of a device has been through.
#[derive(Debug, Clone)]
pub struct FlashReport {
    /// Operations by cause.
    pub counters: FlashCounters,
    /// Bytes that namespaces may hold.
    pub total_bytes: u64,
    /// Bytes that hold data now.
    pub used_bytes: u64,
    /// Bytes of one flash page.
    pub page_bytes: u32,
    /// The shape of its array.
    pub geometry: Geometry,
    /// Bad blocks, spares, wear.
    pub health: FlashHealth,
}

impl EmbeddedDevice {
    /// A device that began to be opened at `begun`, with its control socket.
    pub(crate) fn new(
        embedded: Embedded,
        driver: Driver<InProcessBus>,
        options: &Options,
        (begun, control): (Instant, ControlSocket),
    ) -> Result<Self> {
        let queue = QueueOptions::default()
            .depth(Depth::UpTo(options.depth))
            .ring_entries(options.ring_entries)
            .transfer(options.transfer)
            .policy(options.policy)
            .inline_reads(options.inline_reads);
        let (ns, flush) = (options.ns, options.flush);
        let never_waits = options.run_by == RunBy::Caller && options.clock != ClockMode::Paced;
        let opened_in_ns = begun.elapsed().as_nanos() as u64;
        let owner = OwnerProcess::current();
        let device = Self { owner, driver, embedded, queue, ns, flush, never_waits, control, opened_in_ns };
        if let Some(nsid) = options.ns {
            device.namespace(nsid)?;
        }
        Ok(device)
    }

    pub(crate) fn with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> R {
        self.embedded.with_subsystem(look)
    }

    /// A way to the device that does not keep it open.
    pub(crate) fn handle(&self) -> Handle {
        self.embedded.handle()
    }

    /// Where other processes of this user, and root, ask this one for snapshots of the image, or why nowhere.
    pub fn control_socket(&self) -> &ControlSocket {
        &self.control
    }

    /// Refuses a call in a forked child.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub(crate) fn check_owner(&self) -> Result<()> {
        check_owner(&self.owner)
    }

    /// Serial number, model and NQN.
    pub fn identity(&self) -> &Identity {
        self.driver.identity()
    }

    /// What can be done with it.
    pub fn capabilities(&self) -> &Capabilities {
        self.driver.capabilities()
    }

    /// The parameters it is modelled by.
    pub fn profile(&self) -> &Profile {
        self.embedded.profile()
    }

    /// What an acknowledgement survives.
    pub fn flush_mode(&self) -> FlushMode {
        self.flush
    }

    /// Whether the submitting or polling thread runs the device at once: a call returns when its command is done, so there is
    /// no wait that could be cancelled.
    pub fn never_waits(&self) -> bool {
        self.never_waits
    }

    /// The driver, for admin commands and buffers.
    pub fn driver(&self) -> &Driver<InProcessBus> {
        &self.driver
    }

    /// The namespaces that are attached.
    ///
    /// # Errors
    /// When the device does not answer.
    pub fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.driver.namespaces()
    }

    /// The namespace `nsid`.
    ///
    /// # Errors
    /// When there is none.
    pub fn namespace(&self, nsid: Nsid) -> Result<Namespace> {
        namespaces::namespace(&self.namespaces()?, nsid)
    }

    /// A queue as the URI asked for. One thread uses it; each thread takes its own.
    ///
    /// # Errors
    /// When the device has none left, or does not have the transfer method.
    pub fn queue(&self) -> Result<EmbeddedQueue> {
        self.queue_with(self.queue)
    }

    /// A queue with options of its own.
    ///
    /// # Errors
    /// As [`EmbeddedDevice::queue`].
    pub fn queue_with(&self, options: QueueOptions) -> Result<EmbeddedQueue> {
        Backend::queue(&self.driver, options)
    }

    /// The options that queues have by the URI, with the depth that the device's queues can have.
    pub fn queue_options(&self) -> QueueOptions {
        self.queue.capped(self.capabilities().limits.queue_depth)
    }

    /// The namespace that calls without one mean, where the URI names one.
    pub(crate) fn default_namespace(&self) -> Option<Nsid> {
        self.ns
    }

    /// Synchronous calls to a key-value namespace: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace, or as [`EmbeddedDevice::queue`].
    pub fn kv(&self, nsid: Option<Nsid>) -> Result<Kv> {
        let namespace = namespaces::kv(&self.namespaces()?, nsid.or(self.ns))?;
        Ok(Kv::new(self.queue()?, &namespace)?.with_memory_of(self.driver.clone()))
    }

    /// Synchronous calls to a namespace of blocks: the given one, the URI's, or the device's first.
    ///
    /// # Errors
    /// When there is no such namespace, or as [`EmbeddedDevice::queue`].
    pub fn nvm(&self, nsid: Option<Nsid>) -> Result<Nvm> {
        let namespace = namespaces::nvm(&self.namespaces()?, nsid.or(self.ns))?;
        Nvm::new(self.queue()?, &namespace)
    }

    /// Everything that crossed the link so far.
    pub fn ledger(&self) -> Ledger {
        self.embedded.ledger()
    }

    /// Turns counting on or off.
    pub fn set_ledger(&self, on: bool) {
        self.embedded.set_ledger(on);
    }

    /// Nanoseconds: modelled under a virtual or paced clock, else the machine's.
    pub fn now_ns(&self) -> u64 {
        self.embedded.now_ns()
    }

    /// What the flash has been through.
    pub fn flash(&self) -> FlashReport {
        self.embedded.with_subsystem(|subsystem| FlashReport {
            counters: *subsystem.flash().counters(),
            total_bytes: subsystem.flash().total_bytes(),
            used_bytes: subsystem.flash().used_bytes(),
            page_bytes: subsystem.flash().geometry().page_bytes,
            geometry: *subsystem.flash().geometry(),
            health: subsystem.flash().health(),
        })
    }

    /// Counters of a key-value namespace's engine.
    pub fn kv_stats(&self, nsid: Nsid) -> Option<KvStats> {
        self.embedded.with_subsystem(|subsystem| {
            subsystem.namespace_mut(nsid.get()).and_then(|(namespace, _)| Some(namespace.kv().ok()?.stats()))
        })
    }

    /// Upkeep that threads with nothing to execute have done ahead of commands (`upkeep=`).
    pub fn upkeep(&self) -> UpkeepTimes {
        self.embedded.with_subsystem(|subsystem| subsystem.stall_snapshot().upkeep)
    }

    /// Whether upkeep is due: a flush, merge, compaction or garbage collection that a thread with nothing to execute would do.
    pub fn owes_upkeep(&self) -> bool {
        self.embedded.with_subsystem(|subsystem| subsystem.owes_upkeep())
    }

    /// Syncs the image and marks it as closed in order. Queues that are still open go on, and unmark it.
    ///
    /// # Errors
    /// When the file system refuses; [`ErrorKind::DeviceLost`] where the device has failed; [`ErrorKind::Denied`] in a forked
    /// child, which leaves the image to its parent.
    pub fn close(self) -> Result<()> {
        self.check_owner()?;
        let closed = self.embedded.try_with_subsystem(|subsystem| subsystem.close());
        let failed = |failed: Failed| Error::device(ErrorKind::DeviceLost, failed.to_string());
        closed.map_err(failed)?.map_err(from_flash)
    }
}
