//! Leases of the unit buffer: a thread writes units of blocks by itself, whatever other threads do (decision 0074).
//!
//! A lease is a few slots of the unit buffer. Its thread copies a unit into the next position, names and counts it: from there on the
//! unit outlives the process. The map learns of it later, when the holder of the device [takes in](crate::Flash::take_in_writes) what waits.
//! Until then a [`BlockReader`](crate::BlockReader) finds that a unit waits, and leaves the read to the device.
//!
//! Units wait in one order over all leases: numbers of one counter, taken after the command came and before it is completed. The holder
//! of the device takes in a prefix of that order, as it collects while it holds every lease's lock.

mod pending;

use std::fmt;
use std::sync::Arc;

use byway_sys::checksum;

use crate::buffer::{PendingUnit, SlotWriter};
use crate::geometry::UNIT_BYTES;
use crate::image::namespaces::ExtentId;
use crate::location::EntryIndex;
use crate::map::MapReader;
use crate::protected::ImageWatch;

pub(crate) use pending::{LeaseTable, Leased, WaitingUnit};

/// Leases that there are at most.
pub(crate) const LEASES_MAX: usize = 8;

/// Most units that a lease takes between two renewals.
pub(crate) const UNITS_MOST: usize = 32;

/// A lease for the thread that writes by it, without the device.
pub struct BlockLease {
    pub(crate) index: usize,
    pub(crate) table: Arc<LeaseTable>,
    pub(crate) writer: SlotWriter,
    pub(crate) map: MapReader,
    pub(crate) image: ImageWatch,
}

/// Where units of an extent are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) extent: ExtentId,
    pub(crate) first: EntryIndex,
}

impl BlockLease {
    /// Writes whole units, each wholly or not at all; all of them, or none where this returns false: the lease has no room, was recalled,
    /// or only the device can write there. `is_granted` says whether the thread may still write to the extent. It is asked while the lease
    /// cannot be recalled.
    #[inline]
    pub(crate) fn write(&self, target: Target, data: &[u8], is_granted: impl FnOnce() -> bool) -> bool {
        let units = (data.len() / UNIT_BYTES) as u64;
        if units == 0 || !self.image.takes_writes() || !self.map.is_ready(target.first, units) {
            return false;
        }
        let cell = self.table.cell(self.index);
        let mut leased = cell.lock();
        if !leased.has_room(units as usize) || !is_granted() {
            return false;
        }
        for (owner, unit) in (target.first..).zip(data.chunks_exact(UNIT_BYTES)) {
            let Some((slot, position)) = leased.next_place() else { return false };
            let pending = PendingUnit { order: self.table.take_order(), owner, leased: slot, position };
            self.writer.put(&pending, unit, checksum::crc32c(unit));
            leased.add(pending, target.extent);
            // Readers look for it from here on. The command is completed later.
            cell.owners().publish(owner);
        }
        drop(leased);
        // A part of the image that another program cut off takes no bytes.
        self.image.takes_writes()
    }
}

impl fmt::Debug for BlockLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockLease").field("index", &self.index).finish_non_exhaustive()
    }
}
