//! The address space of a program: the upper 32 bits of an address name a region, the lower 32 bits are a position in it.
//!
//! Region 0 holds nothing, so small numbers are no addresses.

use super::instruction::Size;
use crate::fault::Fault;

/// Stacks of the functions that were called, outermost first.
pub(super) const STACK: u64 = 1;

/// The table of ranges, read-only.
const TABLE: u64 = 2;

/// The first range; the others follow.
const RANGES: u64 = 16;

/// Bytes of one entry of the table: the base address and the length.
const ENTRY_BYTES: usize = 16;

/// Most bytes that one call of a helper works on.
pub const HELPER_MAX_BYTES: u64 = 64 << 10;

/// Address of the table.
pub(super) const TABLE_ADDRESS: u64 = TABLE << 32;

/// The table for ranges of these lengths in bytes.
pub(super) fn table(lengths: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let mut table = Vec::with_capacity(lengths.len() * ENTRY_BYTES);
    for (index, length) in lengths.enumerate() {
        table.extend(((RANGES + index as u64) << 32).to_le_bytes());
        table.extend(u64::from(length).to_le_bytes());
    }
    table
}

/// What a program may access.
pub(super) struct Space<'a, 'm> {
    pub stack: &'a mut [u8],
    pub table: &'a [u8],
    pub ranges: &'a mut [&'m mut [u8]],
}

impl Space<'_, '_> {
    /// Loads a number.
    #[inline]
    pub fn load(&self, size: Size, is_signed: bool, address: u64) -> Result<u64, Fault> {
        Ok(match (size, is_signed) {
            (Size::One, false) => u8::from_le_bytes(self.read(address)?).into(),
            (Size::Two, false) => u16::from_le_bytes(self.read(address)?).into(),
            (Size::Four, false) => u32::from_le_bytes(self.read(address)?).into(),
            (Size::Eight, _) => u64::from_le_bytes(self.read(address)?),
            (Size::One, true) => i64::from(i8::from_le_bytes(self.read(address)?)) as u64,
            (Size::Two, true) => i64::from(i16::from_le_bytes(self.read(address)?)) as u64,
            (Size::Four, true) => i64::from(i32::from_le_bytes(self.read(address)?)) as u64,
        })
    }

    /// Stores the low bytes of a number.
    #[inline]
    pub fn store(&mut self, size: Size, address: u64, value: u64) -> Result<(), Fault> {
        match size {
            Size::One => self.write(address, (value as u8).to_le_bytes()),
            Size::Two => self.write(address, (value as u16).to_le_bytes()),
            Size::Four => self.write(address, (value as u32).to_le_bytes()),
            Size::Eight => self.write(address, value.to_le_bytes()),
        }
    }

    /// Bytes for a helper.
    pub fn bytes(&self, address: u64, bytes: u64) -> Result<&[u8], Fault> {
        let fault = Fault::Access { address, bytes };
        if bytes > HELPER_MAX_BYTES {
            return Err(fault);
        }
        self.behind(address).and_then(|rest| rest.get(..bytes as usize)).ok_or(fault)
    }

    #[inline]
    fn read<const BYTES: usize>(&self, address: u64) -> Result<[u8; BYTES], Fault> {
        let bytes = self.behind(address).and_then(|rest| rest.first_chunk());
        bytes.copied().ok_or(Fault::Access { address, bytes: BYTES as u64 })
    }

    #[inline]
    fn write<const BYTES: usize>(&mut self, address: u64, bytes: [u8; BYTES]) -> Result<(), Fault> {
        let place = self.behind_mut(address).and_then(|rest| rest.first_chunk_mut());
        *place.ok_or(Fault::Access { address, bytes: BYTES as u64 })? = bytes;
        Ok(())
    }

    /// The rest of a region from an address on.
    #[inline]
    fn behind(&self, address: u64) -> Option<&[u8]> {
        let region = match address >> 32 {
            STACK => &*self.stack,
            TABLE => self.table,
            range => self.ranges.get(range.wrapping_sub(RANGES) as usize)?,
        };
        region.get(address as u32 as usize..)
    }

    /// As [`behind`](Self::behind), of what may be written.
    #[inline]
    fn behind_mut(&mut self, address: u64) -> Option<&mut [u8]> {
        let region = match address >> 32 {
            STACK => &mut *self.stack,
            range => self.ranges.get_mut(range.wrapping_sub(RANGES) as usize)?,
        };
        region.get_mut(address as u32 as usize..)
    }
}
