//! The trait of all device memory.

use std::fmt;
use std::ops::Range;

use crate::access::Access;
use crate::domain::Domain;
use crate::error::RegionError;
use crate::export::Export;
use crate::memory::Memory;
use crate::partition::PartitionName;
use crate::stats::{RegionStats, Residency};
use crate::window::Window;

/// Device memory, mapped into the process that owns it.
///
/// An implementer states its persistence domain and the reason truthfully, and has one owner at a time. Ranges are touched through a [`Window`] only,
/// the owner's or one of an [`Export`]. A load or store never fails on an absent page: it waits for flash, which prefetching avoids.
pub trait DeviceRegion: fmt::Debug + Send + Sync {
    /// The mapped memory.
    fn window(&self) -> &Window;

    /// Its bytes.
    fn len_bytes(&self) -> u64 {
        self.window().len_bytes()
    }

    /// Alignment of ranges, in bytes.
    fn align_bytes(&self) -> u64;

    /// Its persistence domain.
    fn domain(&self) -> Domain {
        self.window().domain()
    }

    /// The reason for that domain, in a few words.
    fn why(&self) -> &str;

    /// Whether it is emulated: it survives processes but not power loss, whatever its domain.
    fn is_emulated(&self) -> bool;

    /// Residency of a range.
    ///
    /// # Errors
    /// [`RegionError::Range`].
    fn residency(&self, range: Range<u64>) -> Result<Residency, RegionError>;

    /// Loads absent pages of a range into the cache, without waiting.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Flash`].
    fn prefetch(&self, range: Range<u64>) -> Result<Ticket, RegionError>;

    /// Whether a prefetch has ended.
    fn has_come(&self, ticket: Ticket) -> bool;

    /// Waits for a prefetch.
    fn wait_for(&self, ticket: Ticket);

    /// Evicts a range from the cache, unless it is pinned.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Flash`].
    fn evict(&self, range: Range<u64>) -> Result<(), RegionError>;

    /// Keeps a range in the cache until the pin is dropped, loading absent pages first. Without pins use [`Admitted`](crate::Admitted).
    ///
    /// # Errors
    /// [`RegionError::Unsupported`] if the device has no pins or no room; [`RegionError::Range`].
    fn pin(&self, range: Range<u64>) -> Result<Pin, RegionError>;

    /// A descriptor and a description by which another process can map a range. The descriptor gives access to all of the region: use a
    /// [`partition`](Self::partition) for untrusted clients.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::System`].
    fn export(&self, range: Range<u64>, access: Access) -> Result<Export, RegionError>;

    /// Opens a range as a region of its own, in a file that only one user may open; makes it if needed. The region no longer touches that range. A device
    /// node has one such user, who is trusted with all of it.
    ///
    /// # Errors
    /// [`RegionError::Refused`] if the range overlaps another partition, or for a second user of a device node;
    /// [`RegionError::Range`], [`RegionError::System`].
    fn partition(&self, range: Range<u64>, uid: u32) -> Result<Box<dyn DeviceRegion>, RegionError>;

    /// All partitions, also of earlier owners. A device node has no list.
    ///
    /// # Errors
    /// [`RegionError::System`].
    fn partitions(&self) -> Result<Vec<PartitionName>, RegionError>;

    /// Removes a partition with its contents. Processes that map it keep memory that belongs to no user.
    ///
    /// # Errors
    /// [`RegionError::System`].
    fn give_back(&self, partition: &PartitionName) -> Result<(), RegionError>;

    /// Statistics of the cache.
    fn stats(&self) -> RegionStats;
}

/// Checks that a range is of whole pages in the region.
pub(crate) fn check(region: &dyn DeviceRegion, range: &Range<u64>) -> Result<(), RegionError> {
    let (align_bytes, region_bytes) = (region.align_bytes(), region.len_bytes());
    let is_whole = range.start.is_multiple_of(align_bytes) && range.end.is_multiple_of(align_bytes);
    if is_whole && range.start < range.end && range.end <= region_bytes {
        return Ok(());
    }
    Err(RegionError::Range { start: range.start, end: range.end, align_bytes, region_bytes })
}

/// A prefetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Its end, in modelled picoseconds of the region.
    pub(crate) ready_ps: u64,
}

impl Ticket {
    /// Ended.
    pub(crate) const NOW: Self = Self { ready_ps: 0 };
}

/// A range that stays resident until this is dropped.
#[derive(Debug)]
pub struct Pin {
    /// Unpins when dropped. `None` for memory without a cache.
    pub(crate) holder: Option<Box<dyn fmt::Debug + Send + Sync>>,
}

impl Pin {
    /// For memory without a cache.
    pub(crate) const ALWAYS: Self = Self { holder: None };

    /// Whether something is pinned: memory without a cache needs no pin.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holder.is_some()
    }
}
