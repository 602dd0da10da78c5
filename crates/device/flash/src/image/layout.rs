//! Which range of the image holds what.
//!
//! ```text
//! superblock, its copy │ state │ namespaces │ areas' table │ blocks │ buffer │ map presence   allocated at creation
//! map                                                                                         by segment, on first use
//! areas                                                                                       when an area is added
//! spare records │ pages                                                                       as blocks are filled
//! ```
//! The file is as long as all of it from the start, and sparse. Everything but pages is mapped.

use crate::geometry::{Geometry, UNIT_BYTES};

/// Ranges start and end at multiples of this.
const ALIGN: u64 = 64 << 10;

/// Bytes of one map segment: the piece of the map that is allocated at once (128 MiB of logical units).
pub(crate) const MAP_SEGMENT_BYTES: u64 = 256 << 10;

/// Bytes of one map entry.
pub(crate) const MAP_ENTRY_BYTES: u64 = 8;

/// Logical units for each usable unit, so that extents can be placed, grow and go without moving each other.
const LOGICAL_ROOM: u64 = 4;

/// Slots of the unit buffer, over both streams.
pub(crate) const BUFFER_SLOTS: u32 = 32;

/// Bytes of one block table entry.
pub(crate) const BLOCK_ENTRY_BYTES: usize = 32;

/// Namespaces an image can hold, and bytes for each.
pub(crate) const NAMESPACE_SLOTS: usize = 128;
/// Bytes of a namespace slot: selector and two copies.
pub(crate) const NAMESPACE_SLOT_BYTES: usize = 2048;

/// Protected areas an image can hold.
pub(crate) const AREA_SLOTS: usize = 1024;
/// Bytes of an area table entry.
pub(crate) const AREA_ENTRY_BYTES: usize = 64;

/// A range of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Range {
    pub(crate) const fn end(&self) -> u64 {
        self.at + self.len
    }

    /// `len` bytes from `at` bytes into this range.
    pub(crate) const fn part(&self, at: u64, len: u64) -> Self {
        Self { at: self.at + at, len }
    }
}

/// The regions of an image, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) superblock: Range,
    pub(crate) state: Range,
    pub(crate) namespaces: Range,
    pub(crate) area_table: Range,
    pub(crate) blocks: Range,
    pub(crate) buffer: Range,
    pub(crate) map_presence: Range,
    pub(crate) map: Range,
    pub(crate) areas: Range,
    pub(crate) spare: Range,
    pub(crate) pages: Range,
}

impl Layout {
    /// Regions of the format; the superblock lists them in this order.
    pub(crate) const REGIONS: usize = 11;

    pub(crate) fn of(geometry: &Geometry) -> Self {
        let map = map_entries(geometry) * MAP_ENTRY_BYTES;
        let map_bytes = map.next_multiple_of(MAP_SEGMENT_BYTES);
        let pages = u64::from(geometry.block_count()) * u64::from(geometry.pages_per_block);
        let mut at = 0;
        let mut next = |len: u64| {
            let range = Range { at, len: len.next_multiple_of(ALIGN) };
            at = range.end();
            range
        };
        Self {
            superblock: next(ALIGN),
            state: next(ALIGN),
            namespaces: next((NAMESPACE_SLOTS * NAMESPACE_SLOT_BYTES) as u64),
            area_table: next((AREA_SLOTS * AREA_ENTRY_BYTES) as u64),
            blocks: next(u64::from(geometry.block_count()) * BLOCK_ENTRY_BYTES as u64),
            buffer: next(ALIGN + u64::from(BUFFER_SLOTS) * u64::from(geometry.page_bytes)),
            map_presence: next(map_bytes / MAP_SEGMENT_BYTES),
            map: next(map_bytes),
            areas: next((1 << 30) + geometry.usable_bytes / 8),
            spare: next(pages * geometry.spare_record_bytes() as u64),
            pages: next(geometry.raw_bytes()),
        }
    }

    pub(crate) fn regions(&self) -> [Range; Self::REGIONS] {
        [
            self.superblock,
            self.state,
            self.namespaces,
            self.area_table,
            self.blocks,
            self.buffer,
            self.map_presence,
            self.map,
            self.areas,
            self.spare,
            self.pages,
        ]
    }

    /// The regions by name, in the order of the file.
    pub(crate) fn named(&self) -> [(&'static str, Range); Self::REGIONS] {
        const NAMES: [&str; Layout::REGIONS] = [
            "superblock",
            "device state",
            "namespace table",
            "area table",
            "block table",
            "unit buffer",
            "map presence",
            "map",
            "areas",
            "spare records",
            "pages",
        ];
        let regions = self.regions();
        std::array::from_fn(|i| (NAMES[i], regions[i]))
    }

    /// Length of the file.
    pub(crate) const fn total_bytes(&self) -> u64 {
        self.pages.end()
    }

    /// The regions allocated when the image is made: one run, from the superblock on.
    pub(crate) const fn fixed(&self) -> Range {
        Range { at: 0, len: self.map_presence.end() }
    }
}

/// Entries of the map: one for each logical unit.
pub(crate) const fn map_entries(geometry: &Geometry) -> u64 {
    geometry.usable_bytes / UNIT_BYTES as u64 * LOGICAL_ROOM
}
