//! Reads and writes: of regions by the client, of the client's memory by the server.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{put, take};
use crate::{RegionIndex, WireError};

/// Data of one of several small writes.
pub const MULTI_DATA_BYTES: usize = 8;

/// Small writes in one message: what QEMU has room for.
pub const MAX_MULTI_WRITES: u64 = 200;

/// A part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which region.
    pub region: RegionIndex,
    /// Where the part begins: `offset + bytes` does not overflow. Nothing here knows the region's size.
    pub offset: u64,
    /// Its length. A read's is the client's word: at most what both sides agreed on may be answered.
    pub bytes: u32,
}

/// Several small writes, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WriteMulti<'a> {
    writes: &'a [RawWrite],
}

/// One of several small writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallWrite {
    /// Where, and how many of the 8 bytes.
    pub to: Access,
    /// The data; bytes past `to.bytes` say nothing.
    pub data: [u8; MULTI_DATA_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawAccess {
    offset: u64,
    region: u32,
    count: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed)]
struct RawWrite {
    offset: u64,
    region: u32,
    count: u32,
    data: [u8; MULTI_DATA_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawDma {
    address: u64,
    count: u64,
}

/// The head of the reply to DMA_WRITE: the specification gives its count 4 bytes, libvfio-user 8, and QEMU leaves what
/// follows 4 undefined.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed)]
struct RawDmaWritten {
    address: u64,
    count: u32,
}

impl Access {
    /// The fixed part, and the bytes behind it.
    pub(crate) fn parse(payload: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let (raw, rest) = take::<RawAccess>(payload)?;
        Ok((Self::checked(raw.region, raw.offset, raw.count)?, rest))
    }

    fn checked(region: u32, offset: u64, count: u32) -> Result<Self, WireError> {
        if offset.checked_add(u64::from(count)).is_none() {
            return Err(WireError::BadRange {
                of: "bytes of a region",
                start: offset,
                count: u64::from(count),
            });
        }
        Ok(Self { region: RegionIndex(region), offset, bytes: count })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, &RawAccess { offset: self.offset, region: self.region.0, count: self.bytes });
    }
}

impl<'a> WriteMulti<'a> {
    /// Writes, in the order in which they are to be made.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SmallWrite> + 'a {
        self.writes.iter().map(|raw| SmallWrite {
            to: Access { region: RegionIndex(raw.region), offset: raw.offset, bytes: raw.count },
            data: raw.data,
        })
    }

    /// Checks every write, so that none is made of a message of which one is not valid.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let (count, rest) = take::<u64>(payload)?;
        if count > MAX_MULTI_WRITES {
            return Err(WireError::LongList { of: "writes", count, limit: MAX_MULTI_WRITES });
        }
        let short = || WireError::ShortData { announced: count, bytes: rest.len() };
        let (writes, _) =
            <[RawWrite]>::ref_from_prefix_with_elems(rest, count as usize).map_err(|_| short())?;
        for raw in writes {
            let count = raw.count;
            if count as usize > MULTI_DATA_BYTES {
                return Err(WireError::ShortData { announced: u64::from(count), bytes: MULTI_DATA_BYTES });
            }
            Access::checked(raw.region, raw.offset, count)?;
        }
        Ok(Self { writes })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, &(self.writes.len() as u64));
        out.extend_from_slice(self.writes.as_bytes());
    }
}

impl std::fmt::Debug for WriteMulti<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Appends the payload of several writes: what [`WriteMulti`] is parsed from.
pub(crate) fn encode_writes(writes: &[SmallWrite], out: &mut Vec<u8>) {
    put(out, &(writes.len() as u64));
    for write in writes {
        let SmallWrite { to, data } = *write;
        put(out, &RawWrite { offset: to.offset, region: to.region.0, count: to.bytes, data });
    }
}

/// Address and count of a DMA message, and the bytes behind them.
pub(crate) fn parse_dma(payload: &[u8]) -> Result<(u64, u64, &[u8]), WireError> {
    let (raw, rest) = take::<RawDma>(payload)?;
    if raw.address.checked_add(raw.count).is_none() {
        return Err(WireError::BadRange { of: "addresses", start: raw.address, count: raw.count });
    }
    Ok((raw.address, raw.count, rest))
}

pub(crate) fn encode_dma(address: u64, count: u64, out: &mut Vec<u8>) {
    put(out, &RawDma { address, count });
}

pub(crate) fn parse_dma_written(payload: &[u8]) -> Result<(u64, u32), WireError> {
    let (raw, _) = take::<RawDmaWritten>(payload)?;
    Ok((raw.address, raw.count))
}
