//! DEVICE_GET_REGION_INFO: size and flags of a region, and its mappable areas.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::WireError;
use crate::layout::{put, take};

open_enum! {
    /// A region of a PCI device, numbered as VFIO does.
    pub struct RegionIndex(u32) {
        /// Base address register 0.
        BAR0 = 0,
        /// Base address register 1.
        BAR1 = 1,
        /// Base address register 2.
        BAR2 = 2,
        /// Base address register 3.
        BAR3 = 3,
        /// Base address register 4.
        BAR4 = 4,
        /// Base address register 5.
        BAR5 = 5,
        /// Expansion ROM.
        ROM = 6,
        /// PCI configuration space.
        CONFIG = 7,
        /// VGA.
        VGA = 8,
    }
}

impl RegionIndex {
    /// Regions that VFIO numbers.
    pub const COUNT: u32 = 9;
}

/// What can be done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RegionFlags {
    /// It can be read.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// The region can be mapped by the descriptor in the reply: the listed areas, or the whole region if none is
    /// listed.
    pub mappable: bool,
}

/// A part of a region that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Area {
    /// Where it begins in the region.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Size, flags and mappable areas of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Which region.
    pub index: RegionIndex,
    /// What can be done with it.
    pub flags: RegionFlags,
    /// Size in bytes; 0 if there is no such region.
    pub bytes: u64,
    /// Offset of the region in the descriptor's file, added to an area's offset.
    pub file_offset: u64,
    /// The mappable areas; if empty, the whole region, if it is mappable.
    pub areas: Vec<Area>,
    /// Parsed from a reply: bytes of a full reply, if this one left areas out because `argsz` was smaller.
    pub full_bytes: Option<u32>,
}

/// Areas that are taken from a reply: a region in more parts than this is not a device's.
const MAX_AREAS: u32 = 256;

const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
const MMAP: u32 = 1 << 2;
const CAPS: u32 = 1 << 3;
/// VFIO_REGION_INFO_CAP_SPARSE_MMAP, version 1.
const SPARSE_MMAP: u16 = 1;

/// As a request, all is 0 but `argsz` and `index`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Default)]
#[repr(C)]
pub(crate) struct RawInfo {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) cap_offset: u32,
    pub(crate) size: u64,
    pub(crate) offset: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawSparse {
    id: u16,
    version: u16,
    next: u32,
    areas: u32,
    reserved: u32,
}

impl RegionInfo {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, _) = take::<RawInfo>(payload)?;
        // VFIO says 0 where it leaves capabilities out; QEMU wants to hear where they would be.
        let cut = raw.flags & CAPS != 0 && (raw.cap_offset == 0 || raw.argsz as usize > payload.len());
        let areas = if raw.flags & CAPS == 0 || cut { Vec::new() } else { sparse(payload, raw.cap_offset)? };
        Ok(Self {
            index: RegionIndex(raw.index),
            flags: RegionFlags {
                readable: raw.flags & READ != 0,
                writable: raw.flags & WRITE != 0,
                mappable: raw.flags & MMAP != 0,
            },
            bytes: raw.size,
            file_offset: raw.offset,
            areas,
            full_bytes: cut.then_some(raw.argsz),
        })
    }

    /// Appends the reply to a request that takes `argsz` bytes of payload. Areas that do not fit are left out, and the
    /// reply says how many bytes it would take, as VFIO does.
    pub(crate) fn encode(&self, argsz: u32, out: &mut Vec<u8>) {
        let fixed_bytes = size_of::<RawInfo>() as u32;
        let sparse_bytes = match self.areas.len() {
            0 => 0,
            areas => (size_of::<RawSparse>() + areas * size_of::<Area>()) as u32,
        };
        let full_bytes = self.full_bytes.unwrap_or(fixed_bytes + sparse_bytes);
        let fits = sparse_bytes > 0 && full_bytes <= argsz;
        let caps = if sparse_bytes > 0 || self.full_bytes.is_some() { CAPS } else { 0 };
        put(
            out,
            &RawInfo {
                argsz: full_bytes,
                flags: self.flags.bits() | caps,
                index: self.index.0,
                // QEMU refuses a reply that has capabilities nowhere, also one that leaves them out.
                cap_offset: if full_bytes > fixed_bytes { fixed_bytes } else { 0 },
                size: self.bytes,
                offset: self.file_offset,
            },
        );
        if fits {
            self.encode_areas(out);
        }
    }

    fn encode_areas(&self, out: &mut Vec<u8>) {
        let areas = self.areas.len() as u32;
        put(out, &RawSparse { id: SPARSE_MMAP, version: 1, next: 0, areas, reserved: 0 });
        for area in &self.areas {
            put(out, area);
        }
    }
}

impl RegionFlags {
    fn bits(self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.readable, READ) | bit(self.writable, WRITE) | bit(self.mappable, MMAP)
    }
}

/// Follows the list of capabilities, which may lead anywhere but back, to the areas that can be mapped.
fn sparse(payload: &[u8], first: u32) -> Result<Vec<Area>, WireError> {
    let mut at = first;
    loop {
        let outside = || WireError::BadOffset { offset: at, payload_bytes: payload.len() };
        let rest = payload.get(at as usize..).ok_or_else(outside)?;
        let (head, rest) = take::<RawSparse>(rest)?;
        if head.id == SPARSE_MMAP {
            return areas(rest, head.areas);
        }
        if head.next == 0 {
            return Ok(Vec::new());
        }
        if head.next <= at {
            return Err(WireError::BadOffset { offset: head.next, payload_bytes: payload.len() });
        }
        at = head.next;
    }
}

fn areas(mut rest: &[u8], count: u32) -> Result<Vec<Area>, WireError> {
    if count > MAX_AREAS {
        return Err(WireError::LongList {
            of: "areas",
            count: u64::from(count),
            limit: u64::from(MAX_AREAS),
        });
    }
    let mut areas = Vec::new();
    for _ in 0..count {
        let (area, behind) = take::<Area>(rest)?;
        areas.push(area);
        rest = behind;
    }
    Ok(areas)
}
