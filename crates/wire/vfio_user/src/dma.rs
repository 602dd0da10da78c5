//! DMA_MAP and DMA_UNMAP: which of the client's memory the device may touch.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::WireError;
use crate::layout::{put, take};

const READABLE: u32 = 1 << 0;
const WRITABLE: u32 = 1 << 1;
/// VFIO_DMA_UNMAP_FLAG_ALL, which QEMU sends where a vIOMMU is switched on.
const UNMAP_ALL: u32 = 1 << 1;

/// A range of bus addresses: never empty; it may end at the last address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DmaRange {
    first: u64,
    bytes: u64,
}

impl DmaRange {
    /// The `bytes` from `first`.
    ///
    /// # Errors
    /// When there are none, or they run past 2^64.
    pub fn new(first: u64, bytes: u64) -> Result<Self, WireError> {
        let last = bytes.checked_sub(1).and_then(|before_last| first.checked_add(before_last));
        if last.is_none() {
            return Err(WireError::BadRange { of: "addresses", start: first, count: bytes });
        }
        Ok(Self { first, bytes })
    }

    /// The first address.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The last address, included: what follows it may be 2^64, which no number here holds.
    pub fn last(&self) -> u64 {
        self.first + (self.bytes - 1)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether `other` lies inside.
    pub fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last() <= self.last()
    }

    /// Whether they have an address in common.
    pub fn touches(&self, other: &Self) -> bool {
        self.first <= other.last() && other.first <= self.last()
    }
}

/// Memory that the device may touch from now on. With a descriptor it can be mapped; without one it is reached by
/// DMA_READ and DMA_WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaMap {
    /// Where the device sees it.
    pub range: DmaRange,
    /// Where it begins in the descriptor's file; 0 without a descriptor.
    pub file_offset: u64,
    /// Whether the device may read it.
    pub readable: bool,
    /// Whether the device may write it.
    pub writable: bool,
}

/// Memory that the device may touch no more once the reply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaUnmap {
    /// The mappings within these addresses. The protocol says: exactly one. QEMU with a vIOMMU says: many, or none.
    Range(DmaRange),
    /// Every mapping.
    All,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawMap {
    argsz: u32,
    flags: u32,
    offset: u64,
    address: u64,
    size: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawUnmap {
    argsz: u32,
    flags: u32,
    address: u64,
    size: u64,
}

impl DmaMap {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, _) = take::<RawMap>(payload)?;
        if raw.flags & !(READABLE | WRITABLE) != 0 {
            return Err(WireError::BadFlags { what: "mapping", flags: raw.flags });
        }
        Ok(Self {
            range: DmaRange::new(raw.address, raw.size)?,
            file_offset: raw.offset,
            readable: raw.flags & READABLE != 0,
            writable: raw.flags & WRITABLE != 0,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let readable = if self.readable { READABLE } else { 0 };
        let writable = if self.writable { WRITABLE } else { 0 };
        put(
            out,
            &RawMap {
                argsz: size_of::<RawMap>() as u32,
                flags: readable | writable,
                offset: self.file_offset,
                address: self.range.first,
                size: self.range.bytes,
            },
        );
    }
}

impl DmaUnmap {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, _) = take::<RawUnmap>(payload)?;
        match raw.flags {
            0 => Ok(Self::Range(DmaRange::new(raw.address, raw.size)?)),
            UNMAP_ALL => Ok(Self::All),
            flags => Err(WireError::BadFlags { what: "unmapping", flags }),
        }
    }

    /// As a request, and as the reply, which repeats it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (flags, address, size) = match self {
            Self::Range(range) => (0, range.first, range.bytes),
            Self::All => (UNMAP_ALL, 0, 0),
        };
        put(out, &RawUnmap { argsz: size_of::<RawUnmap>() as u32, flags, address, size });
    }
}
