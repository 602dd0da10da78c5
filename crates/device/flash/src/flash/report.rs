//! A device's blocks, wear and ages, for its administrator.

use crate::block::BlockUse;
use crate::flash::Flash;
use crate::geometry::UNIT_BYTES;

/// Blocks by what they are used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Erased, ready to be written.
    pub free: u32,
    /// Being written.
    pub open: u32,
    /// Written.
    pub full: u32,
    /// Out of use: they went bad, or what is kept of them did.
    pub bad: u32,
}

/// Ages of the data in full blocks: what the device programmed since the block was filled, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    /// Of the block filled last.
    pub youngest_bytes: u64,
    /// Half of the blocks are younger.
    pub median_bytes: u64,
    /// Of the block filled first.
    pub oldest_bytes: u64,
}

/// Number of blocks by erase count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WearBucket {
    /// Fewest erases.
    pub from: u32,
    /// Most erases.
    pub to: u32,
    /// How many blocks.
    pub blocks: u32,
}

impl Flash {
    /// Blocks by what they are used for.
    #[must_use]
    pub fn block_counts(&self) -> BlockCounts {
        let mut counts = BlockCounts::default();
        for (_, block) in self.ftl.blocks.iter() {
            *match block.used_for {
                BlockUse::Free => &mut counts.free,
                open if open.is_open() => &mut counts.open,
                BlockUse::Full | BlockUse::Failing => &mut counts.full,
                _ => &mut counts.bad,
            } += 1;
        }
        counts
    }

    /// Blocks by how often they were erased, in at most `buckets` ranges of equal width; ranges without blocks are
    /// left out.
    #[must_use]
    pub fn erase_histogram(&self, buckets: u32) -> Vec<WearBucket> {
        let erases = || self.ftl.blocks.iter().map(|(_, block)| block.erases);
        let (Some(min), Some(max)) = (erases().min(), erases().max()) else { return Vec::new() };
        let width = (u64::from(max - min) / u64::from(buckets.max(1)) + 1) as u32;
        let count = (max - min) / width + 1;
        let mut found: Vec<WearBucket> = (0..count)
            .map(|i| min + i * width)
            .map(|from| WearBucket { from, to: from.saturating_add(width - 1).min(max), blocks: 0 })
            .collect();
        for erases in erases() {
            found[((erases - min) / width) as usize].blocks += 1;
        }
        found.retain(|bucket| bucket.blocks > 0);
        found
    }

    /// How old the data is; `None` while no block is full.
    #[must_use]
    pub fn ages(&self) -> Option<Ages> {
        let now = self.ftl.state.programs();
        let full = self.ftl.blocks.iter().filter(|(_, block)| block.used_for == BlockUse::Full);
        let page_bytes = u64::from(self.ftl.geometry().page_bytes);
        let age = |id| now.saturating_sub(self.ftl.blocks.filled_at(id)).saturating_mul(page_bytes);
        let mut ages: Vec<u64> = full.map(|(id, _)| age(id)).collect();
        ages.sort_unstable();
        Some(Ages {
            youngest_bytes: *ages.first()?,
            median_bytes: *ages.get(ages.len() / 2)?,
            oldest_bytes: *ages.last()?,
        })
    }

    /// Bytes of live data in a namespace, of those that it has.
    #[must_use]
    pub fn live_bytes_of(&self, nsid: u32) -> u64 {
        let Some(entry) = self.namespaces.find(nsid) else { return 0 };
        let mapped = self.ftl.count_mapped(entry.first, entry.entries);
        mapped * self.extent_bytes(entry) / entry.entries.max(1)
    }

    /// Bytes that can be written before garbage has to be collected.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let geometry = self.ftl.geometry();
        let unwritten = |written: u32| u64::from(geometry.pages_per_block - written);
        let pages: u64 = self
            .ftl
            .blocks
            .iter()
            .filter(|(_, block)| block.used_for == BlockUse::Free || block.used_for.is_open())
            .map(|(_, block)| unwritten(block.written))
            .sum();
        pages * u64::from(geometry.units_per_page()) * UNIT_BYTES as u64
    }
}
