//! Pinning in software, for devices without pins: what is admitted stays within the cache's size, and evicted pages are loaded again.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::RegionError;
use crate::region::{DeviceRegion, Ticket};

/// Share of the cache that is never admitted: for other touches, and for a device that counts differently.
const MARGIN_PART: u64 = 10;

/// Ranges of one region that should stay resident.
///
/// An LRU cache keeps them while everything touched fits. Otherwise the owner calls [`Admitted::keep`] repeatedly; in between a touch may wait.
#[derive(Debug)]
pub struct Admitted {
    budget_bytes: u64,
    admitted_bytes: u64,
    /// Ranges: end by start.
    ranges: BTreeMap<u64, u64>,
}

impl Admitted {
    /// No ranges.
    #[must_use]
    pub fn of(region: &dyn DeviceRegion) -> Self {
        let room = region.stats().cache_bytes;
        let budget_bytes = room.map_or(region.len_bytes(), |bytes| bytes - bytes.div_ceil(MARGIN_PART));
        Self { budget_bytes, admitted_bytes: 0, ranges: BTreeMap::new() }
    }

    /// Bytes that may be admitted.
    #[must_use]
    pub const fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Bytes admitted.
    #[must_use]
    pub const fn admitted_bytes(&self) -> u64 {
        self.admitted_bytes
    }

    /// Admits a range and loads it. Do not touch it before the ticket's end.
    ///
    /// # Errors
    /// [`RegionError::NotAdmitted`] if it does not fit or overlaps another range; as
    /// [`DeviceRegion::prefetch`].
    pub fn admit(&mut self, region: &dyn DeviceRegion, range: Range<u64>) -> Result<Ticket, RegionError> {
        let (start, end) = (range.start, range.end);
        let refused = |why| RegionError::NotAdmitted { start, end, why };
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(_, known_end)| *known_end > start) {
            return Err(refused("some of it is admitted already".to_owned()));
        }
        let bytes = end.saturating_sub(start);
        let left_bytes = self.budget_bytes - self.admitted_bytes;
        if bytes > left_bytes {
            return Err(refused(format!("{left_bytes} bytes of the cache are left for it")));
        }
        let ticket = region.prefetch(range)?;
        self.ranges.insert(start, end);
        self.admitted_bytes += bytes;
        Ok(ticket)
    }

    /// Releases the range at `start`. `false` if there is none.
    pub fn release(&mut self, start: u64) -> bool {
        let end = self.ranges.remove(&start);
        self.admitted_bytes -= end.map_or(0, |end| end - start);
        end.is_some()
    }

    /// Loads absent pages of all ranges; returns their bytes and the end.
    ///
    /// # Errors
    /// As [`DeviceRegion::prefetch`].
    pub fn keep(&self, region: &dyn DeviceRegion) -> Result<(u64, Ticket), RegionError> {
        let (mut bytes, mut latest) = (0, Ticket::NOW);
        for (start, end) in &self.ranges {
            let absent_bytes = region.residency(*start..*end)?.absent_bytes;
            if absent_bytes > 0 {
                bytes += absent_bytes;
                latest = latest.max(region.prefetch(*start..*end)?);
            }
        }
        Ok((bytes, latest))
    }
}
