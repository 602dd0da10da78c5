//! What a device's memory can be asked for, whichever device it is.

use std::fmt;
use std::ops::Range;

use crate::domain::Domain;
use crate::error::RegionError;
use crate::export::{Access, Export};
use crate::memory::Memory;
use crate::partition::PartitionName;
use crate::window::Window;

/// Memory of a device, mapped into this process, which owns it.
///
/// An implementer says truly from where on it keeps what is stored ([`DeviceRegion::domain`]) and why that is so, and has one
/// owner at a time. It may rely on ranges being touched through a [`Window`] alone, its own or one of an [`Export`]. A load or
/// store never fails for what is not resident: it waits for the flash behind, which is what prefetching is for.
pub trait DeviceRegion: fmt::Debug + Send + Sync {
    /// The memory itself.
    fn window(&self) -> &Window;

    /// Its length.
    fn len_bytes(&self) -> u64 {
        self.window().len_bytes()
    }

    /// What ranges are a multiple of.
    fn align_bytes(&self) -> u64;

    /// From where on stores are kept.
    fn domain(&self) -> Domain {
        self.window().domain()
    }

    /// Why it is that domain, in a few words.
    fn why(&self) -> &str;

    /// Whether it only stands for a device: it survives the death of processes and no loss of power, whatever its domain says.
    fn is_emulated(&self) -> bool;

    /// How much of a range a touch would not wait for.
    ///
    /// # Errors
    /// [`RegionError::Range`].
    fn residency(&self, range: Range<u64>) -> Result<Residency, RegionError>;

    /// Has what is absent of a range brought into the cache, without waiting for it.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Flash`].
    fn prefetch(&self, range: Range<u64>) -> Result<Ticket, RegionError>;

    /// Whether what was prefetched has come.
    fn has_come(&self, ticket: Ticket) -> bool;

    /// Waits until it has.
    fn wait_for(&self, ticket: Ticket);

    /// Has the cache released a range, unless it is pinned.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Flash`].
    fn evict(&self, range: Range<u64>) -> Result<(), RegionError>;

    /// Keeps a range in the cache until the pin is dropped; what is absent of it is brought first, and waited for. Where this is
    /// not offered, [`Admitted`](crate::Admitted) does what can be done without it.
    ///
    /// # Errors
    /// [`RegionError::Unsupported`] where the device has no such thing, or no room; [`RegionError::Range`].
    fn pin(&self, range: Range<u64>) -> Result<Pin, RegionError>;

    /// Something that another process can map a range by. Only the range is reported; the descriptor itself gives all of the
    /// region, so that who is not trusted with that gets a [`slice`](Self::slice).
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::System`].
    fn export(&self, range: Range<u64>, access: Access) -> Result<Export, RegionError>;

    /// A range of the region as one of its own, whose bytes lie in a file that only one user may open: a client that has it can
    /// reach no other's. Made if it is not there; what the region itself had in that range is not touched any more. A device
    /// node has one such user, who is trusted with all of it.
    ///
    /// # Errors
    /// [`RegionError::Refused`] for a range that overlaps with another slice, and for a second user of a device node;
    /// [`RegionError::Range`], [`RegionError::System`].
    fn partition(&self, range: Range<u64>, uid: u32) -> Result<Box<dyn DeviceRegion>, RegionError>;

    /// The slices there are, from whenever. That of a device node is nowhere written down.
    ///
    /// # Errors
    /// [`RegionError::System`].
    fn partitions(&self) -> Result<Vec<PartitionName>, RegionError>;

    /// Takes a slice away with all that is in it: its range is free, and the process that maps it still has memory that is free.
    ///
    /// # Errors
    /// [`RegionError::System`].
    fn give_back(&self, partition: &PartitionName) -> Result<(), RegionError>;

    /// What happened so far.
    fn stats(&self) -> RegionStats;
}

/// Refuses a range that is not of whole pages in the region.
pub(crate) fn check(region: &dyn DeviceRegion, range: &Range<u64>) -> Result<(), RegionError> {
    let (align_bytes, region_bytes) = (region.align_bytes(), region.len_bytes());
    let is_whole = range.start.is_multiple_of(align_bytes) && range.end.is_multiple_of(align_bytes);
    if is_whole && range.start < range.end && range.end <= region_bytes {
        return Ok(());
    }
    Err(RegionError::Range { start: range.start, end: range.end, align_bytes, region_bytes })
}

/// Where the bytes of a range are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// A touch finds them.
    pub resident_bytes: u64,
    /// They are on their way.
    pub coming_bytes: u64,
    /// A touch would wait for flash.
    pub absent_bytes: u64,
}

impl Residency {
    /// Whether no touch would wait.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.coming_bytes == 0 && self.absent_bytes == 0
    }
}

/// Something that was asked for and comes at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// In modelled picoseconds of its region.
    pub(crate) ready_ps: u64,
}

impl Ticket {
    /// What is there already.
    pub(crate) const NOW: Self = Self { ready_ps: 0 };
}

/// A range that stays resident while this lives.
#[derive(Debug)]
pub struct Pin {
    /// Notified when it is dropped; no process where all memory is resident in any case.
    pub(crate) holder: Option<Box<dyn fmt::Debug + Send + Sync>>,
}

impl Pin {
    /// Of memory without a cache in front of it.
    pub(crate) const ALWAYS: Self = Self { holder: None };

    /// Whether something is held: memory that has no cache in front of it needs no pin.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holder.is_some()
    }
}

/// What a region's cache did. Memory without a cache in front of it has nothing to count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegionStats {
    /// Room of the cache; `None` where there is none.
    pub cache_bytes: Option<u64>,
    /// Bytes in it now.
    pub resident_bytes: u64,
    /// Bytes of it that are pinned.
    pub pinned_bytes: u64,
    /// Touches of pages that were resident.
    pub hits: u64,
    /// Pages that were brought from flash, or made, for whatever reason.
    pub misses: u64,
    /// Those among them that a load or a store waited for.
    pub blocking_touches: u64,
    /// Pages that the cache released.
    pub evictions: u64,
    /// Bytes that were read from flash.
    pub from_flash_bytes: u64,
    /// Bytes that were handed to flash.
    pub to_flash_bytes: u64,
    /// Bytes that the flash programmed, its own housekeeping included.
    pub programmed_bytes: u64,
    /// Modelled time now, in picoseconds.
    pub modelled_ps: u64,
}
