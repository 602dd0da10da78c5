//! The boundary to a PCIe-like device: registers, doorbells, memory, interrupts.
//!
//! **What an implementer must do.** Carry register accesses and doorbell writes to the device in the order they are
//! made, after every earlier write to mapped memory is visible to it. Keep mapped memory alive until it is unmapped, and
//! map nothing at bus address 0: a pointer that a command does not need is 0, and a device that follows it must fault.
//! Let [`Bus::poll`] make progress whenever the device has anything to do, so that a host that only polls is never stuck.
//! Where there is a ledger, count what the host puts on the link by itself: doorbells, register accesses, byte stores, CXL
//! stores.
//!
//! **What it may rely on.** A doorbell is rung only after its ring entries are written, at most once for each batch.
//! Memory is mapped before a command names it, and unmapped after the command has completed or the queue is gone.
//! [`Bus::ring`] and [`Bus::poll`] may be called from several threads at once, each with queues of its own.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use byway_dma::{BusAddr, DmaMemory};
use byway_link::{HostStep, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::Key;

/// Empty polls of a waiting thread before it sleeps in [`Bus::wait`].
pub(crate) const POLLS_BEFORE_SLEEP: u32 = 256;

/// What a driver in user space needs of a PCIe-like device.
pub trait Bus: Send + Sync + 'static {
    /// Memory of the device that the host stores into.
    type Memory: DeviceMemory;

    /// Whether any memory of the process can be mapped. If not, what [`Bus::memory`] gives can, and a command's data that
    /// stands elsewhere travels in a copy.
    const MAPS_ANY_MEMORY: bool = true;

    /// Whether a doorbell reaches a device that another processor runs, so that it costs both a line of their caches, or a
    /// message: then the heads of completion queues are reported late, many entries by one. A device looks at heads only
    /// where it needs room.
    const REPORTS_HEADS_LATE: bool = false;

    /// The word for devices that are reached by it, in URIs and reports: `embedded`.
    fn name(&self) -> &'static str;

    /// Checks whether the device is still there, as far as that shows without a message: for a host whose polls have found
    /// no completion for a while.
    ///
    /// # Errors
    /// When the device is gone.
    fn check(&self) -> Result<(), BusError> {
        Ok(())
    }

    /// Interrupts there are: as many queues, the admin queue among them, can be waited for.
    fn vectors(&self) -> u16 {
        u16::MAX
    }

    /// Reads a register of 4 or 8 bytes at `offset` of BAR 0.
    ///
    /// # Errors
    /// When the device is gone, or has no register there.
    fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, BusError>;

    /// Writes a register of 4 or 8 bytes at `offset` of BAR 0.
    ///
    /// # Errors
    /// When the device is gone, or has no register there.
    fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), BusError>;

    /// Writes a doorbell: the tail of a submission queue or the head of a completion queue.
    /// A device that is gone takes no notice.
    fn ring(&self, doorbell: DoorbellIndex, value: u32);

    /// Zeroed memory that can be mapped, of at least `len_bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// When there is none.
    fn memory(&self, len_bytes: usize) -> Result<DmaMemory, BusError> {
        let memory = DmaMemory::new(len_bytes);
        memory.map_err(|cause| BusError::Mapping(format!("no memory of {len_bytes} bytes: {cause}")))
    }

    /// Makes memory known to the device, readable and writable.
    ///
    /// # Errors
    /// When no more can be mapped.
    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError>;

    /// Takes memory away from the device.
    ///
    /// # Errors
    /// When nothing is mapped at `at`.
    fn unmap(&self, at: BusAddr) -> Result<(), BusError>;

    /// Lets the device run, if it runs in the caller's thread; under a virtual clock, moves the time to the device's
    /// next deadline when nothing is due.
    fn poll(&self);

    /// The caller has found no completion on `queue` and has nothing else to do. A device that runs in its thread and
    /// gathers commands to execute them together, or holds completions back until it has synced its medium, does so now,
    /// which may take as long as a disk does.
    #[inline]
    fn idle(&self, queue: u16) {
        let _ = queue;
    }

    /// The caller has no command outstanding. A device that runs in its thread does a little of its upkeep now, if any is due.
    #[inline]
    fn keep_up(&self) {}

    /// Waits for interrupt `vector`, at most `timeout`; says whether it came. May return early.
    ///
    /// # Errors
    /// When the device is gone.
    fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError>;

    /// No thread sleeps on interrupt `vector` any more: what the bus keeps for it is given back.
    fn disarm(&self, vector: u16) {
        let _ = vector;
    }

    /// Whether interrupts can be waited for by descriptors: [`Bus::listen`].
    fn has_events(&self) -> bool {
        false
    }

    /// A descriptor that can be read once interrupt `vector` was raised, until [`Bus::clear`]. It can be read at first: what
    /// was raised before it was asked for is not lost. It is there for as long as it is kept.
    ///
    /// # Errors
    /// When the bus has none, or the process has none left.
    fn listen(&self, vector: u16) -> Result<Arc<dyn Event>, BusError> {
        Err(BusError::NoEvent { vector, why: "this bus has no descriptors".to_owned() })
    }

    /// Makes the descriptor of `vector` unreadable until the interrupt is raised again.
    fn clear(&self, vector: u16) {
        let _ = vector;
    }

    /// Makes the descriptor of `vector` readable.
    fn call(&self, vector: u16) {
        let _ = vector;
    }

    /// Whether the device does nothing more for its queues until a thread of the host's runs it again: then a host does not
    /// go to sleep on a descriptor.
    fn waits_for_host(&self) -> bool {
        false
    }

    /// Host-managed device memory (CXL.mem), where the windows of queues lie.
    fn device_memory(&self) -> Option<Self::Memory>;

    /// The controller memory buffer, as a byte interface.
    fn byte_memory(&self) -> Option<Self::Memory> {
        None
    }

    /// The model of the device's link and of its host, where there is one.
    #[inline]
    fn model(&self) -> Option<&impl LinkModel> {
        None::<&Absent>
    }

    /// Receiver of prefetch hints for keys that the host is about to look up, if the device takes them.
    #[inline]
    fn key_hints(&self) -> Option<&impl KeyHints> {
        None::<&Absent>
    }
}

/// Modelled link of a device: charges modelled time to the host, and gives the profile.
pub trait LinkModel {
    /// Charges modelled time for `times` steps of the host's software: submitting, copying chunks, mapping pages,
    /// taking completions. Nothing when the clock is off.
    fn charge(&self, step: HostStep, times: u32);

    /// The parameters: what `adaptive` reckons costs with, and the habits that the host takes part in.
    fn profile(&self) -> &Profile;
}

/// Hints of keys, for a device in the same process.
pub trait KeyHints {
    /// Prefetches the memory that a lookup of `key` in namespace `nsid` reads first, while the host builds the command. It has
    /// no other effect, and the command need not follow.
    fn prefetch(&self, nsid: u32, key: &Key);
}

/// Uninhabited type of a bus without a link model or key hints.
enum Absent {}

impl LinkModel for Absent {
    fn charge(&self, _: HostStep, _: u32) {
        match *self {}
    }

    fn profile(&self) -> &Profile {
        match *self {}
    }
}

impl KeyHints for Absent {
    fn prefetch(&self, _: u32, _: &Key) {
        match *self {}
    }
}

/// What an event loop waits on.
pub trait Event: AsFd + Send + Sync {}

impl<T: AsFd + Send + Sync> Event for T {}

/// Memory of the device that the host stores into: CXL device memory, or a controller memory buffer.
///
/// Stores are unordered against each other and against doorbells until [`DeviceMemory::settle`].
pub trait DeviceMemory: Send + Sync + 'static {
    /// Length in bytes.
    fn len_bytes(&self) -> u64;

    /// Where the device sees it, if commands may point into it.
    fn bus_addr(&self) -> Option<BusAddr>;

    /// Stores `bytes` at `offset`, past the caches: non-temporal stores, or stores and CLFLUSHOPT, never CLWB.
    ///
    /// # Errors
    /// When the range is not inside.
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError>;

    /// Returns when all stores before have reached the device: fences, then reads back the line at `last`.
    ///
    /// # Errors
    /// When `last` is not inside.
    fn settle(&self, last: u64) -> Result<(), BusError>;
}

/// For a bus without memory of the device.
#[derive(Debug)]
pub enum NoMemory {}

impl DeviceMemory for NoMemory {
    fn len_bytes(&self) -> u64 {
        match *self {}
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        match *self {}
    }

    fn store(&self, _: u64, _: &[u8]) -> Result<(), BusError> {
        match *self {}
    }

    fn settle(&self, _: u64) -> Result<(), BusError> {
        match *self {}
    }
}

/// Why a bus could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// The device, or the process that runs it, is gone: nothing touches mapped memory any more.
    #[error("the device is gone: {0}")]
    Gone(String),
    /// The device, or the process that runs it, has not answered for as long as the bus waits. It may yet, and it may
    /// touch mapped memory at any time.
    #[error("the device does not answer: {0}")]
    Silent(String),
    /// No register of this size there.
    #[error("no register of {bytes} bytes at offset {offset:#x}")]
    NoRegister {
        /// Offset in BAR 0.
        offset: u32,
        /// Size asked for.
        bytes: u32,
    },
    /// An interrupt cannot be waited for by a descriptor.
    #[error("interrupt {vector} has no descriptor: {why}")]
    NoEvent {
        /// The interrupt.
        vector: u16,
        /// Why not.
        why: String,
    },
    /// Memory could not be mapped or unmapped.
    #[error("memory cannot be mapped: {0}")]
    Mapping(String),
    /// The device cannot be had as things are: what is missing, and how to bring it about.
    #[error("{0}")]
    Unready(String),
    /// Another process has the device.
    #[error("the device is in use: {0}")]
    Busy(String),
    /// What the device, or the process that runs it, says cannot be.
    #[error("the device does not keep to its protocol: {0}")]
    Protocol(String),
    /// A range that is not inside the device's memory.
    #[error("{len_bytes} bytes at {offset:#x} are not inside the device memory of {memory_bytes} bytes")]
    OutsideMemory {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len_bytes: u64,
        /// Size of the memory.
        memory_bytes: u64,
    },
}
