//! PRP entries and lists for bus-contiguous memory (Base 2.1, section 4.3.1).

use byway_core::{Buffer, BufferPool, PAGE_BYTES, Result};
use byway_dma::BusAddr;
use byway_spec::base::prp::{PRP_ENTRY_BYTES, PRPS_PER_PAGE};

use crate::mapped::prepared_at;

const PAGE: u64 = PAGE_BYTES as u64;

/// The PRP entries of a command, and the memory of their lists.
#[derive(Debug)]
pub(crate) struct Prps {
    /// PRP entry 1.
    pub first: u64,
    /// PRP entry 2.
    pub second: u64,
    /// Lists, to be kept until the command has completed.
    pub lists: Option<Buffer>,
}

impl Prps {
    /// Entries for `len` contiguous bytes, from 1 on; lists are taken from `pool`.
    ///
    /// # Errors
    /// When there is no memory for lists.
    pub(crate) fn new(at: BusAddr, len: usize, pool: &BufferPool) -> Result<Self> {
        let next = (at.0 & !(PAGE - 1)).wrapping_add(PAGE);
        match pages(at, len) {
            0 | 1 => Ok(Self { first: at.0, second: 0, lists: None }),
            2 => Ok(Self { first: at.0, second: next, lists: None }),
            pages => {
                let (lists, second) = write_lists(pool, next, pages - 1)?;
                Ok(Self { first: at.0, second, lists: Some(lists) })
            }
        }
    }
}

/// Pages that `len` bytes at `at` touch.
#[inline]
pub(crate) fn pages(at: BusAddr, len: usize) -> usize {
    ((at.0 % PAGE) as usize + len).div_ceil(PAGE_BYTES)
}

/// Writes lists of `entries` entries for the pages from `first` on; returns their memory and where they begin.
fn write_lists(pool: &BufferPool, first: u64, entries: usize) -> Result<(Buffer, u64)> {
    let mut lists = pool.take(list_pages(entries) * PAGE_BYTES)?;
    let at = prepared_at(&lists, pool).unwrap_or_default().0;
    fill_lists(lists.as_mut_slice(), at, first, entries);
    Ok((lists, at))
}

/// Number of list pages for `entries` entries: the last entry of a full page that is not the last points to the next.
fn list_pages(entries: usize) -> usize {
    if entries <= PRPS_PER_PAGE { 1 } else { 1 + (entries - PRPS_PER_PAGE).div_ceil(PRPS_PER_PAGE - 1) }
}

/// Fills the pages at `lists`, which the device sees at `at`.
fn fill_lists(lists: &mut [u8], at: u64, first: u64, entries: usize) {
    let mut written = 0;
    for (index, page) in lists.chunks_mut(PAGE_BYTES).enumerate() {
        let left = entries - written;
        let here = if left <= PRPS_PER_PAGE { left } else { PRPS_PER_PAGE - 1 };
        let addresses = (written..written + here).map(|n| first + n as u64 * PAGE);
        let next = (here < left).then(|| at + (index as u64 + 1) * PAGE);
        for (slot, address) in page.chunks_exact_mut(PRP_ENTRY_BYTES).zip(addresses.chain(next)) {
            slot.copy_from_slice(&address.to_le_bytes());
        }
        written += here;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_are_counted_from_where_the_bytes_begin() {
        assert_eq!(pages(BusAddr(0x1000), 4096), 1);
        assert_eq!(pages(BusAddr(0x1000), 4097), 2);
        assert_eq!(pages(BusAddr(0x1ffc), 8), 2);
        assert_eq!(pages(BusAddr(0x1ffc), 4100), 2);
        assert_eq!(pages(BusAddr(0x1ffc), 4101), 3);
    }

    proptest! {
        /// Following the lists as a controller does gives every page once, in order.
        #[test]
        fn lists_lead_to_every_page_in_order(entries in 1usize..5000) {
            let (at, first) = (0x10_0000, 0x8000_0000);
            let mut lists = vec![0; list_pages(entries) * PAGE_BYTES];
            fill_lists(&mut lists, at, first, entries);
            let entry = |address: u64| {
                let offset = (address - at) as usize;
                u64::from_le_bytes(lists[offset..offset + 8].try_into().unwrap())
            };
            let (mut cursor, mut left, mut seen) = (at, entries, Vec::new());
            while left > 0 {
                let is_last_of_page = cursor % PAGE == PAGE - 8;
                if is_last_of_page && left > 1 {
                    cursor = entry(cursor);
                    continue;
                }
                seen.push(entry(cursor));
                cursor += 8;
                left -= 1;
            }
            let expected: Vec<u64> = (0..entries as u64).map(|n| first + n * PAGE).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
