//! Fuzz entry points: arbitrary bytes in, a panic if a walker breaks its contract.
//!
//! The input holds a command's data pointer and length, then host memory from bus address 0. These break the
//! contract: segments that do not add up to the length, more fetches than the length or the descriptor limit allows,
//! a fetch across a page boundary.

use byway_spec::Direction;
use byway_spec::base::prp::{PAGE_BYTES, PRP_ENTRY_BYTES};
use byway_spec::base::sgl::{SGL_DESCRIPTOR_BYTES, SglDescriptor};

use crate::{BusAddr, DmaFault, SegmentList, Why, prp, sgl};

/// Longest transfer: 16 MiB, as Byway's controllers announce in MDTS.
const LEN_MAX_BYTES: u32 = 16 << 20;

/// Walks PRP1, PRP2 and a length from the first 20 bytes, in memory made of the rest.
pub fn prp(data: &[u8]) {
    let Some((header, memory)) = data.split_first_chunk::<20>() else { return };
    let qword = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| header[at + i]));
    let len_bytes = length(header[16..].first_chunk());
    let mut fetched_bytes = 0;
    let mut list = SegmentList::new();
    let fetch = |at, into: &mut [u8]| fetch(memory, at, into, &mut fetched_bytes);
    let walked = prp::walk(qword(0), qword(8), len_bytes, fetch, &mut list);
    // Each entry is a page or a chain pointer: one per 511 pages, and at most one before them.
    let pages = len_bytes as usize / PAGE_BYTES + 2;
    assert!(fetched_bytes <= (pages + pages / 511 + 2) * PRP_ENTRY_BYTES);
    check(&list, len_bytes, walked.is_ok());
    if let Err(error) = walked {
        assert!(!error.status().is_success());
    }
}

/// Walks the SGL descriptor of the first 16 bytes, a length and a direction, in memory made of the rest.
pub fn sgl(data: &[u8]) {
    let Some((header, memory)) = data.split_first_chunk::<21>() else { return };
    let Some(descriptor) = header.first_chunk::<SGL_DESCRIPTOR_BYTES>() else { return };
    let len_bytes = length(header[16..].first_chunk());
    let direction = Direction::of(header[20]);
    let mut fetched_bytes = 0;
    let mut list = SegmentList::new();
    let fetch = |at, into: &mut [u8]| fetch(memory, at, into, &mut fetched_bytes);
    let walked = sgl::walk(SglDescriptor::from_bytes(descriptor), len_bytes, direction, fetch, &mut list);
    assert!(fetched_bytes <= sgl::DESCRIPTORS_MAX * SGL_DESCRIPTOR_BYTES);
    check(&list, len_bytes, walked.is_ok());
    if let Err(error) = walked {
        assert!(!error.status().is_success());
    }
}

fn length(bytes: Option<&[u8; 4]>) -> u32 {
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) % (LEN_MAX_BYTES + 1))
}

fn fetch(memory: &[u8], at: BusAddr, into: &mut [u8], fetched_bytes: &mut usize) -> Result<(), DmaFault> {
    assert!(!into.is_empty() && into.len() <= PAGE_BYTES);
    *fetched_bytes += into.len();
    let fault = DmaFault { at, len: into.len(), why: Why::Unmapped };
    let from = usize::try_from(at.0).map_err(|_| fault)?;
    let end = from.checked_add(into.len()).ok_or(fault)?;
    into.copy_from_slice(memory.get(from..end).ok_or(fault)?);
    Ok(())
}

fn check(list: &SegmentList, len_bytes: u32, complete: bool) {
    let segments = list.as_slice();
    assert!(segments.iter().all(|segment| segment.len_bytes > 0));
    let total: u64 = segments.iter().map(|segment| u64::from(segment.len_bytes)).sum();
    assert_eq!(total, list.total_bytes());
    assert!(total <= u64::from(len_bytes));
    assert!(!complete || total == u64::from(len_bytes));
    let taken: u64 = list.pieces(0, total).map(|piece| u64::from(piece.len_bytes)).sum();
    assert_eq!(taken, total);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Bytes whose pointers often point back into them.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let qword = prop_oneof![
            3 => (0..3u64, 0..512u64).prop_map(|(page, slot)| page * 4096 + slot * 8),
            3 => (0..3u64).prop_map(|page| page * 4096),
            1 => any::<u64>(),
        ];
        let pattern = prop::collection::vec(qword, 3..40);
        (pattern, 0..2usize, any::<u16>()).prop_map(|(pattern, pages, tail)| {
            let qwords = pattern.iter().cycle().take(pattern.len() + pages * 512);
            let mut bytes: Vec<u8> = qwords.flat_map(|q| q.to_le_bytes()).collect();
            bytes.extend(tail.to_le_bytes());
            bytes
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_prp_walker_break_its_promises(data in bytes()) {
            super::prp(&data);
        }

        #[test]
        fn no_bytes_make_the_sgl_walker_break_its_promises(data in bytes(), kind in 0..6u8) {
            let mut data = data;
            data[15] = kind << 4;
            super::sgl(&data);
        }
    }
}
