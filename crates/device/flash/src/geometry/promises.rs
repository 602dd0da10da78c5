//! What the blocks of a device are needed for: what its namespaces were promised, what is open while that is written,
//! and what garbage collection cannot do without. All others are spares.

use crate::geometry::{Geometry, LEAST_OVER_PROVISIONING_PERCENT};

/// Part of its capacity that a device is made with in spare blocks beyond all that is promised of it, and how many of
/// them at least.
const SPARE_PART: u64 = 128;
const LEAST_SPARE_BLOCKS: u64 = 4;

/// What namespaces that are written by whole pages were promised, all together. Every other byte of a device's capacity
/// is promised to one that writes it by units, now or later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Promises {
    /// Bytes of their sizes
    pub(crate) size_bytes: u64,
    /// and of their extents, which are longer.
    pub(crate) extent_bytes: u64,
}

impl Geometry {
    /// Blocks that a device cannot do without: room for what is promised, with what garbage collection of units needs on
    /// top, the blocks that are open meanwhile, and those that are kept for garbage collection.
    pub(crate) fn needed_blocks(&self, promises: Promises) -> u64 {
        let by_units_bytes = self.usable_bytes.saturating_sub(promises.size_bytes);
        let percent = u128::from(100 + LEAST_OVER_PROVISIONING_PERCENT);
        let data_bytes = u128::from(by_units_bytes) * percent / 100
            + u128::from(promises.extent_bytes)
            + u128::from(self.share(self.host_open_bytes(), by_units_bytes));
        let blocks = data_bytes.div_ceil(u128::from(self.block_bytes().max(1)));
        u64::try_from(blocks).unwrap_or(u64::MAX).saturating_add(u64::from(self.kept_blocks()))
    }

    /// Blocks that a new device has to spare at least.
    pub(crate) const fn promised_spares(&self) -> u64 {
        let part = self.usable_bytes / self.block_bytes() / SPARE_PART;
        if part > LEAST_SPARE_BLOCKS { part } else { LEAST_SPARE_BLOCKS }
    }

    /// Data bytes that a namespace of `size_bytes`, written by whole pages, is promised beyond its size: its share of what
    /// so many good blocks have beyond those that namespaces may hold, those that have to be kept, and spares. The rest of
    /// the namespaces, if there is any, keeps its share of the blocks that are open for units.
    pub(crate) fn spare_bytes_for_pages(&self, size_bytes: u64, good_blocks: u32) -> u64 {
        let open_bytes = self.host_open_bytes();
        let others_bytes = open_bytes.saturating_sub(self.share(open_bytes, size_bytes));
        let kept_bytes = (u64::from(self.kept_blocks()) + self.promised_spares()) * self.block_bytes();
        let taken_bytes = self.usable_bytes + kept_bytes + others_bytes;
        let good_bytes = u64::from(good_blocks) * self.block_bytes();
        self.share(good_bytes.saturating_sub(taken_bytes), size_bytes)
    }

    /// The share of `bytes` that a part of the capacity has.
    fn share(&self, bytes: u64, part_bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(part_bytes) / u128::from(self.usable_bytes.max(1))) as u64
    }

    fn host_open_bytes(&self) -> u64 {
        u64::from(self.host_width()) * self.block_bytes()
    }
}
