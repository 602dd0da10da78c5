//! Regions: committed records ahead of the write pointer, each a row of the DMA log table.

use crate::error::KvError;
use crate::sealed;
use crate::value_log::packing::DMA_ALIGN_BYTES;
use crate::value_log::record::record_header_bytes;
use crate::value_log::stream::TABLE_AT;

/// Rows of the DMA log table.
pub(crate) const TABLE_ROWS: usize = 64;

const UNITS_MASK: u64 = (1 << 28) - 1;

/// A committed record ahead of the write pointer: a row of the DMA log table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(super) row: usize,
}

impl Region {
    /// The row's word: the value's boundary in 4 KiB units (modulo 2²⁸), key length less one, value length (24 bits).
    pub(super) fn encode(value_at: u64, key_len: usize, value_len: u32) -> u64 {
        ((value_at / DMA_ALIGN_BYTES) & UNITS_MASK) << 28 | (key_len as u64 - 1) << 24 | u64::from(value_len)
    }

    /// The region in a word, as seen from the write pointer. A word behind it was consumed.
    fn decode(word: u64, wp: u64, ring_bytes: u64, row: usize) -> Option<Self> {
        let units = word >> 28;
        let ahead = units.wrapping_sub(wp / DMA_ALIGN_BYTES) & UNITS_MASK;
        let value_at = (wp / DMA_ALIGN_BYTES + ahead) * DMA_ALIGN_BYTES;
        let preamble_bytes = record_header_bytes((word >> 24 & 15) as usize + 1) as u64;
        let start = value_at.checked_sub(preamble_bytes)?;
        let end = value_at + (word & 0xff_ffff);
        (word != 0 && start >= wp && end <= wp + ring_bytes).then_some(Self { start, end, row })
    }
}

/// The regions ahead of a write pointer, in order.
pub(super) fn read_regions(
    state: &[u8],
    block_at: usize,
    wp: u64,
    ring_bytes: u64,
) -> Result<Vec<Region>, KvError> {
    let mut regions = Vec::new();
    for row in 0..TABLE_ROWS {
        let word = sealed::read(state, block_at + TABLE_AT + 8 * row);
        let word = word.ok_or(KvError::DamagedState("the DMA log table"))?;
        regions.extend(Region::decode(word, wp, ring_bytes, row));
    }
    regions.sort_by_key(|region| region.start);
    if regions.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Err(KvError::DamagedState("the DMA log table"));
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_row_is_found_again_from_the_write_pointer(wp in 0u64..(1 << 50), ahead in 1u64..16, key_len in 1usize..17, len in 0u32..60_000) {
            let preamble = record_header_bytes(key_len) as u64;
            let value_at = ((wp + preamble) / DMA_ALIGN_BYTES + ahead) * DMA_ALIGN_BYTES;
            let word = Region::encode(value_at, key_len, len);
            let ring = 128 << 10;
            let found = Region::decode(word, wp, ring, 3);
            let end = value_at + u64::from(len);
            let expected = (end <= wp + ring).then_some(Region { start: value_at - preamble, end, row: 3 });
            prop_assert_eq!(found, expected);
            prop_assert_eq!(Region::decode(word, value_at + 1, ring, 3), None);
        }
    }
}
