//! DEVICE_GET_REGION_IO_FDS: descriptors that replace writes to parts of a region.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{put, take};
use crate::{RegionIndex, WireError};

open_enum! {
    /// How a write becomes known on a descriptor.
    pub struct IoFdKind(u32) {
        /// The eventfd is signalled; the value written is lost, or was to match.
        IOEVENTFD = 0,
        /// A message of KVM's is sent on the descriptor.
        IOREGIONFD = 1,
    }
}

/// One part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFd {
    /// Where it begins in the region.
    pub offset: u64,
    /// Its length; 0 where any size of access will do.
    pub bytes: u64,
    /// Which of the reply's descriptors; several parts may share one.
    pub fd_index: u32,
    /// What happens on a write.
    pub kind: IoFdKind,
    /// KVM's flags for this kind.
    pub flags: u32,
    /// The value to match, or the value that the descriptor's messages carry.
    pub data: u64,
}

/// The descriptors of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionIoFds {
    /// Which region.
    pub index: RegionIndex,
    /// Parts of the region with a descriptor each.
    pub parts: Vec<IoFd>,
    /// Parsed from a reply: bytes of a full reply, if this one left parts out because `argsz` was smaller.
    pub full_bytes: Option<u32>,
}

/// Parts that are taken from a reply: as many as a device has doorbells at most.
const MAX_PARTS: u64 = 2 * 65_536;

/// As a request, all is 0 but `argsz` and `index`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Default)]
#[repr(C)]
pub(crate) struct RawIoFds {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) count: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawPart {
    offset: u64,
    size: u64,
    fd_index: u32,
    kind: u32,
    flags: u32,
    padding: u32,
    data: u64,
}

const _: () = assert!(size_of::<RawPart>() == 40);

impl RegionIoFds {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, mut rest) = take::<RawIoFds>(payload)?;
        let count = u64::from(raw.count);
        if count > MAX_PARTS {
            return Err(WireError::LongList { of: "parts of a region", count, limit: MAX_PARTS });
        }
        let cut = rest.is_empty() && raw.count > 0;
        let mut parts = Vec::new();
        for _ in 0..if cut { 0 } else { count } {
            let (part, behind) = take::<RawPart>(rest)?;
            parts.push(part.into());
            rest = behind;
        }
        Ok(Self { index: RegionIndex(raw.index), parts, full_bytes: cut.then_some(raw.argsz) })
    }

    /// Appends the reply to a request that takes `argsz` bytes of payload: with all parts, or with none and the bytes that
    /// they need.
    pub(crate) fn encode(&self, argsz: u32, out: &mut Vec<u8>) {
        let parts_bytes = self.parts.len() * size_of::<RawPart>();
        let full_bytes = self.full_bytes.unwrap_or((size_of::<RawIoFds>() + parts_bytes) as u32);
        let count = match self.full_bytes {
            Some(full) => count_in(full),
            None => self.parts.len() as u32,
        };
        put(out, &RawIoFds { argsz: full_bytes, flags: 0, index: self.index.0, count });
        if full_bytes > argsz {
            return;
        }
        for part in &self.parts {
            put(out, &RawPart::from(*part));
        }
    }
}

/// The number of parts in a reply of `full_bytes` that carried none.
fn count_in(full_bytes: u32) -> u32 {
    let parts_bytes = full_bytes.saturating_sub(size_of::<RawIoFds>() as u32);
    (parts_bytes / size_of::<RawPart>() as u32).clamp(1, MAX_PARTS as u32)
}

impl From<RawPart> for IoFd {
    fn from(raw: RawPart) -> Self {
        Self {
            offset: raw.offset,
            bytes: raw.size,
            fd_index: raw.fd_index,
            kind: IoFdKind(raw.kind),
            flags: raw.flags,
            data: raw.data,
        }
    }
}

impl From<IoFd> for RawPart {
    fn from(part: IoFd) -> Self {
        Self {
            offset: part.offset,
            size: part.bytes,
            fd_index: part.fd_index,
            kind: part.kind.0,
            flags: part.flags,
            padding: 0,
            data: part.data,
        }
    }
}
