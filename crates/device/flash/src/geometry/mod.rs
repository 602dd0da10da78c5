//! The shape of the NAND array, and how its blocks, pages and units are numbered.
//!
//! Blocks are numbered row by row: block `b` lies in plane `b mod planes`, and consecutive planes lie on different
//! channels first, so that writing to planes in turn uses the whole array.

mod promises;

use byway_link::FlashProfile;

use crate::error::ImageError;
pub(crate) use promises::Promises;

/// Bytes in a unit, the smallest piece the translation layer maps.
pub const UNIT_BYTES: usize = 4096;

/// Smallest image.
pub const MIN_SIZE_BYTES: u64 = 4 << 20;

/// Fewest pages a block is cut down to for a small image.
const MIN_PAGES_PER_BLOCK: u32 = 16;

/// Blocks a plane should have; the array is cut down until small images have them too.
const WANTED_BLOCKS_PER_PLANE: u64 = 8;

/// Below this, garbage collection of a full device would move all of it for next to nothing.
pub(crate) const LEAST_OVER_PROVISIONING_PERCENT: u32 = 5;

/// Units that fit the spare record of a page.
const MAX_UNITS_PER_PAGE: usize = 16;

/// Largest array the format can number: 4 PiB.
const MAX_RAW_BYTES: u128 = 1 << 52;

/// Free blocks that only garbage collection may take.
pub(crate) const RESERVED_BLOCKS: u32 = 3;

/// Kinds of whole pages that go to blocks of their own.
const PAGE_FRONTS: u32 = 4;

/// Part of the array that may be open for whole pages of one kind.
const PAGE_WIDTH_PART: u64 = 128;

/// A block, numbered over the whole array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A NAND page: block × pages per block + page in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

/// A 4 KiB unit of a NAND page: page × units per page + unit in the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u64);

/// The shape of one device's array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Buses between controller and NAND.
    pub channels: u32,
    /// Dies on a channel.
    pub ways: u32,
    /// Planes in a die.
    pub planes: u32,
    /// Blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Data bytes in a page: a power of two from 4096 to 65536.
    pub page_bytes: u32,
    /// Spare bytes in a page of the modelled NAND (they cross the channel with the data).
    pub spare_bytes: u32,
    /// Bytes that namespaces may hold, all together.
    pub usable_bytes: u64,
}

impl Geometry {
    /// The array of `profile`, scaled to hold `size_bytes` besides over-provisioning, open blocks and spares.
    ///
    /// Blocks per plane follow from the size. An image too small for eight blocks a plane first gets smaller blocks,
    /// then fewer planes, ways and channels.
    ///
    /// # Errors
    /// [`ImageError::TooSmall`] and [`ImageError::BadProfile`].
    pub fn for_capacity(size_bytes: u64, profile: &FlashProfile) -> Result<Self, ImageError> {
        Self::for_promises(size_bytes, profile, Promises::default())
    }

    /// As [`Geometry::for_capacity`], with room for namespaces that come with what they were promised elsewhere.
    pub(crate) fn for_promises(
        size_bytes: u64,
        profile: &FlashProfile,
        promises: Promises,
    ) -> Result<Self, ImageError> {
        if size_bytes < MIN_SIZE_BYTES {
            return Err(ImageError::TooSmall { asked_bytes: size_bytes, least_bytes: MIN_SIZE_BYTES });
        }
        let mut shape = Self::of_profile(size_bytes, profile)?;
        while shape.wanted_rows(profile) < WANTED_BLOCKS_PER_PLANE && shape.shrink() {}
        let rows = shape.rows_needed(profile, promises);
        shape.blocks_per_plane = u32::try_from(rows)
            .ok()
            .filter(|rows| rows.checked_mul(shape.plane_count()).is_some())
            .ok_or(ImageError::TooLarge { asked_bytes: size_bytes })?;
        Ok(shape)
    }

    fn of_profile(size_bytes: u64, profile: &FlashProfile) -> Result<Self, ImageError> {
        let usable_bytes = size_bytes.checked_next_multiple_of(u64::from(profile.page_bytes.max(1)));
        let shape = Self {
            channels: profile.channels,
            ways: profile.ways,
            planes: profile.planes,
            blocks_per_plane: 0,
            pages_per_block: profile.pages_per_block,
            page_bytes: profile.page_bytes,
            spare_bytes: profile.spare_bytes,
            usable_bytes: usable_bytes.ok_or(ImageError::TooLarge { asked_bytes: size_bytes })?,
        };
        shape.check()?;
        Ok(shape)
    }

    /// Refuses shapes that the image cannot hold.
    pub(crate) fn check(&self) -> Result<(), ImageError> {
        let units = self.page_bytes as usize / UNIT_BYTES;
        if !self.page_bytes.is_power_of_two() || !(1..=MAX_UNITS_PER_PAGE).contains(&units) {
            return Err(ImageError::BadProfile("pages must be a power of two from 4096 to 65536 bytes"));
        }
        if (self.spare_bytes as usize) < self.spare_record_bytes() {
            return Err(ImageError::BadProfile("pages have too few spare bytes for their record"));
        }
        let counts = [self.channels, self.ways, self.planes];
        if counts.iter().any(|n| !(1..=256).contains(n)) {
            return Err(ImageError::BadProfile("channels, ways and planes must be from 1 to 256"));
        }
        if !(MIN_PAGES_PER_BLOCK..=1 << 16).contains(&self.pages_per_block) {
            return Err(ImageError::BadProfile("a block must have from 16 to 65536 pages"));
        }
        self.check_size()
    }

    /// Refuses arrays whose pages or bytes cannot be counted, and sizes beyond their arrays.
    fn check_size(&self) -> Result<(), ImageError> {
        let refused = ImageError::TooLarge { asked_bytes: self.usable_bytes };
        let planes = self.channels * self.ways * self.planes;
        let Some(blocks) = planes.checked_mul(self.blocks_per_plane) else { return Err(refused) };
        let raw_bytes = u128::from(blocks) * u128::from(self.block_bytes());
        // Every region's length is a small multiple of these, and fits a file then.
        let countable = raw_bytes <= MAX_RAW_BYTES && u128::from(self.usable_bytes) <= MAX_RAW_BYTES;
        // While it is planned, an array has no rows yet.
        let holds = blocks == 0 || u128::from(self.usable_bytes) <= raw_bytes;
        (countable && holds).then_some(()).ok_or(refused)
    }

    fn wanted_rows(&self, profile: &FlashProfile) -> u64 {
        self.data_blocks(profile.over_provisioning_percent) / u64::from(self.plane_count())
    }

    /// One step towards a smaller array; false when there is none left.
    fn shrink(&mut self) -> bool {
        if self.pages_per_block > MIN_PAGES_PER_BLOCK {
            self.pages_per_block = (self.pages_per_block / 2).max(MIN_PAGES_PER_BLOCK);
            return true;
        }
        for count in [&mut self.planes, &mut self.ways, &mut self.channels] {
            if *count > 1 {
                *count = count.div_ceil(2);
                return true;
            }
        }
        false
    }

    /// Blocks that hold the usable bytes and the over-provisioning.
    fn data_blocks(&self, over_provisioning_percent: u32) -> u64 {
        let percent = 100 + u128::from(over_provisioning_percent.max(LEAST_OVER_PROVISIONING_PERCENT));
        let raw_bytes = u128::from(self.usable_bytes) * percent / 100;
        raw_bytes.div_ceil(u128::from(self.block_bytes())) as u64
    }

    /// Blocks that can be open for whole pages and for garbage collection, and those that are kept for it. A writer that finds none
    /// open and none free has so much of them dead in full blocks as he has open at once: there is something to collect.
    pub(crate) const fn kept_blocks(&self) -> u32 {
        self.gc_width() + PAGE_FRONTS * self.page_width() + RESERVED_BLOCKS
    }

    fn rows_needed(&self, profile: &FlashProfile, promises: Promises) -> u64 {
        let data_blocks = self.data_blocks(profile.over_provisioning_percent);
        let working_blocks = u64::from(self.host_width() + self.kept_blocks());
        let used_blocks = self.needed_blocks(promises).max(data_blocks + working_blocks);
        used_blocks.saturating_add(self.promised_spares()).div_ceil(u64::from(self.plane_count()))
    }

    /// Planes in the array, each busy on its own.
    #[must_use]
    pub const fn plane_count(&self) -> u32 {
        self.channels * self.ways * self.planes
    }

    /// Blocks in the array.
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.plane_count() * self.blocks_per_plane
    }

    /// 4 KiB units in a page.
    #[must_use]
    pub const fn units_per_page(&self) -> u32 {
        self.page_bytes / UNIT_BYTES as u32
    }

    /// 4 KiB units in a block.
    #[must_use]
    pub const fn units_per_block(&self) -> u32 {
        self.units_per_page() * self.pages_per_block
    }

    /// Data bytes in a block.
    #[must_use]
    pub const fn block_bytes(&self) -> u64 {
        self.page_bytes as u64 * self.pages_per_block as u64
    }

    /// Data bytes of the whole array, over-provisioning included.
    #[must_use]
    pub const fn raw_bytes(&self) -> u64 {
        self.block_bytes() * self.block_count() as u64
    }

    /// Bytes of the record kept in the spare area of each page.
    #[must_use]
    pub const fn spare_record_bytes(&self) -> usize {
        (16 + 12 * self.units_per_page() as usize).next_power_of_two()
    }

    /// Blocks open at once for writes that callers asked for: one a plane.
    pub(crate) const fn host_width(&self) -> u32 {
        self.plane_count()
    }

    /// Blocks open at once for garbage collection: one a channel, as it is background work.
    pub(crate) const fn gc_width(&self) -> u32 {
        self.channels
    }

    /// Blocks open at once for whole pages of one kind: at least one a channel, that pages can be read at the same time, and
    /// at most one a plane. What is written at one time shares so many blocks and dies at about one time, so they are to
    /// be a small part of the array.
    pub(crate) const fn page_width(&self) -> u32 {
        let most = self.usable_bytes / self.block_bytes() / PAGE_WIDTH_PART;
        if most < self.channels as u64 {
            self.channels
        } else if most < self.plane_count() as u64 {
            most as u32
        } else {
            self.plane_count()
        }
    }

    pub(crate) const fn plane_of(&self, block: BlockId) -> u32 {
        block.0 % self.plane_count()
    }

    pub(crate) const fn channel_of(&self, block: BlockId) -> u32 {
        self.plane_of(block) % self.channels
    }

    pub(crate) fn page(&self, block: BlockId, page: u32) -> PageId {
        PageId(u64::from(block.0) * u64::from(self.pages_per_block) + u64::from(page))
    }

    pub(crate) fn block_of(&self, page: PageId) -> BlockId {
        BlockId((page.0 / u64::from(self.pages_per_block)) as u32)
    }

    /// The block of a page, and its number there.
    #[inline]
    pub(crate) fn place_of(&self, page: PageId) -> (BlockId, u32) {
        let pages = u64::from(self.pages_per_block);
        (BlockId((page.0 / pages) as u32), (page.0 % pages) as u32)
    }

    pub(crate) fn unit(&self, page: PageId, unit: u32) -> UnitId {
        UnitId(page.0 * u64::from(self.units_per_page()) + u64::from(unit))
    }

    #[inline]
    pub(crate) fn page_of(&self, unit: UnitId) -> PageId {
        // A power of two: a shift costs less than a division.
        PageId(unit.0 >> self.units_per_page().trailing_zeros())
    }

    pub(crate) fn unit_in_page(&self, unit: UnitId) -> u32 {
        (unit.0 % u64::from(self.units_per_page())) as u32
    }

    pub(crate) fn unit_count(&self) -> u64 {
        u64::from(self.block_count()) * u64::from(self.units_per_block())
    }
}
