//! Physical region pages: from PRP1, PRP2 and a length to segments (NVMe Base 2.1, section 4.3.1).
//!
//! ```text
//! PRP1 ── first page, from any dword on
//! PRP2 ── unused            if the data ends in the first page
//!      ── second page       if it ends in the second
//!      ── list ─┐           else; may begin at any qword of a page
//!               ▼
//!      │ …  page  page  page  chain │   the last qword of a page points to the next list page,
//!                              │        if the data needs more entries than the page has left
//!               ┌──────────────┘
//!               ▼
//!      │ page  page  page │             later list pages are read from their start
//! ```
//!
//! Only the entries that the length needs are fetched, in one fetch per list page. So the length ends a list, even
//! one that points at itself.

use byway_spec::Status;
use byway_spec::base::prp::{PAGE_BYTES, PRP_ENTRY_BYTES, PRP_OFFSET_ALIGN};
use thiserror::Error;

use crate::{BusAddr, DmaFault, Segment, SegmentList};

const PAGE: u64 = PAGE_BYTES as u64;

/// Most entries read into a small buffer: zeroing a page-sized one costs more than reading them.
const SHORT: usize = 64;

/// From this length after the first page on, the small buffer is too small.
const SHORT_BYTES: u32 = SHORT as u32 * PAGE as u32 + 1;

/// From this length after the first page on, PRP2 points to a list.
const LIST_BYTES: u32 = PAGE as u32 + 1;

/// Invalid PRPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PrpError {
    /// PRP1 is not dword aligned.
    #[error("PRP1 {0:#x} is not dword aligned")]
    FirstMisaligned(u64),
    /// PRP2 is the second page but has an offset in it.
    #[error("PRP2 {0:#x} does not begin at a page")]
    SecondOffset(u64),
    /// PRP2 points to a list but is not qword aligned.
    #[error("PRP list pointer {0:#x} is not qword aligned")]
    ListMisaligned(u64),
    /// The last entry of a list page points to the next list page but has an offset.
    #[error("PRP list pointer {0:#x} in a list does not begin at a page")]
    ChainOffset(u64),
    /// An entry of a list has an offset.
    #[error("PRP list entry {0:#x} does not begin at a page")]
    EntryOffset(u64),
    /// A list could not be fetched.
    #[error("PRP list: {0}")]
    Fetch(DmaFault),
}

impl PrpError {
    /// The status a command with such PRPs ends with.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Fetch(fault) => fault.status(),
            _ => Status::PRP_OFFSET_INVALID,
        }
    }
}

/// Turns PRPs into the segments of `len_bytes` of data, one per page, replacing the content of `into`.
///
/// `fetch` reads list entries, once per list page and only the entries needed. The caller bounds `len_bytes` (MDTS),
/// which bounds the list. Whether the data pages are mapped is found out when the data is moved.
///
/// # Errors
/// [`PrpError`]; `into` then holds the segments before the invalid one.
#[inline]
pub fn walk(
    prp1: u64,
    prp2: u64,
    len_bytes: u32,
    fetch: impl FnMut(BusAddr, &mut [u8]) -> Result<(), DmaFault>,
    into: &mut SegmentList,
) -> Result<(), PrpError> {
    walk_start(prp1, prp2, len_bytes, len_bytes, fetch, into)
}

/// Turns the PRPs of a buffer of `buffer_bytes` into the segments of its first `moved_bytes`, at most the whole
/// buffer.
///
/// The buffer's size decides whether PRP2 is a page or a list, and whether the last qword of a list page is an entry
/// or a chain pointer. The moved bytes decide how many entries are fetched. A command such as KV Retrieve may move
/// less than its buffer holds: walking by the moved bytes would take a list for a page.
///
/// # Errors
/// As [`walk`].
#[inline]
pub fn walk_start(
    prp1: u64,
    prp2: u64,
    buffer_bytes: u32,
    moved_bytes: u32,
    fetch: impl FnMut(BusAddr, &mut [u8]) -> Result<(), DmaFault>,
    into: &mut SegmentList,
) -> Result<(), PrpError> {
    into.clear();
    let moved_bytes = moved_bytes.min(buffer_bytes);
    if moved_bytes == 0 {
        return Ok(());
    }
    if !prp1.is_multiple_of(PRP_OFFSET_ALIGN) {
        return Err(PrpError::FirstMisaligned(prp1));
    }
    let page_bytes = (PAGE - prp1 % PAGE) as u32;
    into.push(Segment::new(BusAddr(prp1), page_bytes.min(moved_bytes)));
    if moved_bytes <= page_bytes {
        return Ok(());
    }
    let rest = Rest { buffer_bytes: buffer_bytes - page_bytes, moved_bytes: moved_bytes - page_bytes };
    match rest.buffer_bytes {
        SHORT_BYTES.. => walk_lists::<PAGE_BYTES>(prp2, rest, fetch, into),
        LIST_BYTES.. => walk_lists::<{ SHORT * PRP_ENTRY_BYTES }>(prp2, rest, fetch, into),
        _ if !prp2.is_multiple_of(PAGE) => Err(PrpError::SecondOffset(prp2)),
        _ => {
            into.push(Segment::new(BusAddr(prp2), rest.moved_bytes));
            Ok(())
        }
    }
}

/// The part of the transfer that has not been walked.
#[derive(Clone, Copy)]
struct Rest {
    buffer_bytes: u32,
    moved_bytes: u32,
}

/// Walks lists with fetches of at most `FETCH` bytes.
#[inline(never)]
fn walk_lists<const FETCH: usize>(
    prp2: u64,
    mut rest: Rest,
    mut fetch: impl FnMut(BusAddr, &mut [u8]) -> Result<(), DmaFault>,
    into: &mut SegmentList,
) -> Result<(), PrpError> {
    if !prp2.is_multiple_of(PRP_ENTRY_BYTES as u64) {
        return Err(PrpError::ListMisaligned(prp2));
    }
    let mut list = prp2;
    let mut buffer = [0; FETCH];
    loop {
        let slots = (PAGE - list % PAGE) as usize / PRP_ENTRY_BYTES;
        let entries_left = rest.buffer_bytes.div_ceil(PAGE as u32) as usize;
        let wanted = rest.moved_bytes.div_ceil(PAGE as u32) as usize;
        let here = if entries_left > slots { slots - 1 } else { entries_left };
        let fetched = &mut buffer[..if wanted > here { slots } else { wanted } * PRP_ENTRY_BYTES];
        fetch(BusAddr(list), fetched).map_err(PrpError::Fetch)?;
        let (entries, _) = fetched.as_chunks::<PRP_ENTRY_BYTES>();
        let (chain, pages) = match entries.split_last() {
            Some((last, pages)) if wanted > here => (Some(u64::from_le_bytes(*last)), pages),
            _ => (None, entries),
        };
        rest.buffer_bytes = rest.buffer_bytes.saturating_sub((pages.len() * PAGE_BYTES) as u32);
        rest.moved_bytes = push_pages(pages, rest.moved_bytes, into)?;
        match chain {
            None => return Ok(()),
            Some(next) if !next.is_multiple_of(PAGE) => return Err(PrpError::ChainOffset(next)),
            Some(next) => list = next,
        }
    }
}

/// Pushes one segment per entry; returns how many bytes remain.
fn push_pages(
    entries: &[[u8; PRP_ENTRY_BYTES]],
    len_bytes: u32,
    into: &mut SegmentList,
) -> Result<u32, PrpError> {
    let mut left_bytes = len_bytes;
    for entry in entries {
        let addr = u64::from_le_bytes(*entry);
        if !addr.is_multiple_of(PAGE) {
            return Err(PrpError::EntryOffset(addr));
        }
        let page_bytes = left_bytes.min(PAGE as u32);
        into.push(Segment::new(BusAddr(addr), page_bytes));
        left_bytes -= page_bytes;
    }
    Ok(left_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;
    use crate::Why;
    use proptest::prelude::*;

    /// Memory of qwords. A page without any written qword is not mapped.
    #[derive(Default, Debug, Clone)]
    struct Lists {
        qwords: BTreeMap<u64, u64>,
        pages: std::collections::BTreeSet<u64>,
    }

    impl Lists {
        fn put(&mut self, at: u64, value: u64) {
            self.qwords.insert(at, value);
            self.pages.insert(at / PAGE);
        }

        fn get(&self, at: u64) -> Option<u64> {
            self.pages.contains(&(at / PAGE)).then(|| self.qwords.get(&at).copied().unwrap_or(0))
        }

        fn fetch(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
            let fault = DmaFault { at, len: into.len(), why: Why::Unmapped };
            for (i, qword) in into.chunks_exact_mut(8).enumerate() {
                qword.copy_from_slice(&self.get(at.0 + 8 * i as u64).ok_or(fault)?.to_le_bytes());
            }
            Ok(())
        }
    }

    type Walked = Result<Vec<(u64, u32)>, Status>;

    fn walked(prp1: u64, prp2: u64, len: u32, lists: &Lists) -> Walked {
        let mut list = SegmentList::new();
        walk(prp1, prp2, len, |at, into| lists.fetch(at, into), &mut list).map_err(PrpError::status)?;
        Ok(list.as_slice().iter().map(|s| (s.addr.0, s.len_bytes)).collect())
    }

    fn refused(prp1: u64, prp2: u64, len: u32, lists: &Lists) -> PrpError {
        walk(prp1, prp2, len, |at, into| lists.fetch(at, into), &mut SegmentList::new()).unwrap_err()
    }

    /// The specification's rules, applied one entry at a time.
    fn model(prp1: u64, prp2: u64, len: u32, lists: &Lists) -> Walked {
        let invalid = Err(Status::PRP_OFFSET_INVALID);
        if len == 0 {
            return Ok(vec![]);
        }
        if prp1 & 3 != 0 {
            return invalid;
        }
        let page_count = (prp1 % PAGE + u64::from(len)).div_ceil(PAGE);
        let mut pages = vec![prp1];
        let mut at = prp2;
        if page_count > 2 && at & 7 != 0 {
            return invalid;
        }
        while (pages.len() as u64) < page_count {
            let missing = page_count - pages.len() as u64;
            let entry = match page_count {
                2 => prp2,
                _ => lists.get(at).ok_or(Status::DATA_TRANSFER_ERROR)?,
            };
            if entry % PAGE != 0 {
                return invalid;
            }
            if page_count > 2 && at % PAGE == PAGE - 8 && missing > 1 {
                at = entry;
                continue;
            }
            pages.push(entry);
            at = at.wrapping_add(8);
        }
        let mut left = u64::from(len);
        let cut = |page: &u64| {
            let bytes = (PAGE - page % PAGE).min(left);
            left -= bytes;
            (*page, bytes as u32)
        };
        Ok(pages.iter().map(cut).collect())
    }

    /// Writes the addresses of `pages` as lists from `list` on, chained to the pages in `chains`.
    fn lay_out(pages: &[u64], list: u64, chains: &[u64]) -> Lists {
        let (mut lists, mut at) = (Lists::default(), list);
        let mut chains = chains.iter();
        for (i, page) in pages.iter().enumerate() {
            if at % PAGE == PAGE - 8 && i + 1 < pages.len() {
                let next = *chains.next().unwrap();
                lists.put(at, next);
                at = next;
            }
            lists.put(at, *page);
            at += 8;
        }
        lists
    }

    #[test]
    fn data_in_one_page_ignores_prp2() {
        assert_eq!(walked(0x1ffc, 0xdead_beef, 4, &Lists::default()), Ok(vec![(0x1ffc, 4)]));
        assert_eq!(walked(0x1000, 1, 4096, &Lists::default()), Ok(vec![(0x1000, 4096)]));
        assert_eq!(walked(1, 1, 0, &Lists::default()), Ok(vec![]));
    }

    #[test]
    fn data_in_two_pages_takes_prp2_as_a_page() {
        let two = walked(0x1f00, 0x8000, 0x200, &Lists::default());
        assert_eq!(two, Ok(vec![(0x1f00, 0x100), (0x8000, 0x100)]));
        let two = walked(0x1000, 0x8000, 8192, &Lists::default());
        assert_eq!(two, Ok(vec![(0x1000, 4096), (0x8000, 4096)]));
    }

    #[test]
    fn a_list_may_start_in_mid_page() {
        let lists = lay_out(&[0x10000, 0x20000, 0x30000], 0x5ff8 - 16, &[]);
        let expected = vec![(0x1000, 4096), (0x10000, 4096), (0x20000, 4096), (0x30000, 1)];
        assert_eq!(walked(0x1000, 0x5fe8, 3 * 4096 + 1, &lists), Ok(expected));
    }

    #[test]
    fn a_list_that_starts_at_the_last_qword_of_a_page_is_a_chain_pointer() {
        let lists = lay_out(&[0x10000, 0x20000], 0x5ff8, &[0x9000]);
        let expected = vec![(0x1000, 4096), (0x10000, 4096), (0x20000, 4096)];
        assert_eq!(walked(0x1000, 0x5ff8, 3 * 4096, &lists), Ok(expected));
    }

    #[test]
    fn the_last_qword_of_a_page_is_data_when_nothing_is_left_after_it() {
        let lists = lay_out(&[0x10000, 0x20000], 0x5ff0, &[]);
        let expected = vec![(0x1000, 4096), (0x10000, 4096), (0x20000, 4096)];
        assert_eq!(walked(0x1000, 0x5ff0, 3 * 4096, &lists), Ok(expected));
    }

    #[test]
    fn only_the_entries_needed_are_fetched_once_a_list_page() {
        let pages: Vec<u64> = (0..600).map(|i| (i + 1) << 20).collect();
        let lists = lay_out(&pages, 0x5f00, &[0x9000, 0xb000]);
        let (mut fetches, mut list) = (vec![], SegmentList::new());
        let fetch = |at: BusAddr, into: &mut [u8]| {
            fetches.push((at.0, into.len()));
            lists.fetch(at, into)
        };
        walk(0, 0x5f00, 601 * 4096, fetch, &mut list).unwrap();
        // 32 entries from 5F00h of which one chains; 511 and a chain; 58 are left.
        assert_eq!(fetches, [(0x5f00, 256), (0x9000, 4096), (0xb000, 58 * 8)]);
    }

    #[test]
    fn a_misaligned_prp1_is_refused() {
        assert_eq!(refused(0x1002, 0, 4, &Lists::default()), PrpError::FirstMisaligned(0x1002));
    }

    #[test]
    fn a_second_page_with_an_offset_is_refused() {
        assert_eq!(refused(0x1000, 0x2004, 4097, &Lists::default()), PrpError::SecondOffset(0x2004));
    }

    #[test]
    fn a_misaligned_list_pointer_is_refused() {
        assert_eq!(refused(0x1000, 0x2004, 8193, &Lists::default()), PrpError::ListMisaligned(0x2004));
    }

    #[test]
    fn a_list_entry_with_an_offset_is_refused() {
        let lists = lay_out(&[0x10000, 0x20008], 0x5000, &[]);
        assert_eq!(refused(0, 0x5000, 3 * 4096, &lists), PrpError::EntryOffset(0x20008));
    }

    #[test]
    fn a_chain_pointer_with_an_offset_is_refused() {
        let lists = lay_out(&[0x10000, 0x20000], 0x5ff8, &[0x9008]);
        assert_eq!(refused(0, 0x5ff8, 3 * 4096, &lists), PrpError::ChainOffset(0x9008));
    }

    #[test]
    fn a_list_that_leaves_the_map_is_refused() {
        let unmapped = refused(0, 0x5000, 3 * 4096, &Lists::default());
        assert_eq!(unmapped.status(), Status::DATA_TRANSFER_ERROR);
        let lists = lay_out(&[0x10000, 0x20000], 0x5ff8, &[0x9000]);
        let only_first = Lists { pages: [5].into(), ..lists };
        let PrpError::Fetch(fault) = refused(0, 0x5ff8, 3 * 4096, &only_first) else { panic!() };
        assert_eq!((fault.at, fault.len), (BusAddr(0x9000), 16));
    }

    #[test]
    fn a_list_at_the_last_page_of_the_address_space_does_not_wrap() {
        let fault = refused(0, u64::MAX - 7, u32::MAX, &Lists::default());
        assert_eq!(fault.status(), Status::DATA_TRANSFER_ERROR);
    }

    #[test]
    fn a_list_that_chains_to_itself_ends_by_the_length() {
        let mut lists = Lists::default();
        for slot in 0..512 {
            lists.put(0x5000 + slot * 8, 0x5000);
        }
        let (mut fetches, mut list) = (0, SegmentList::new());
        let fetch = |at: BusAddr, into: &mut [u8]| {
            fetches += 1;
            lists.fetch(at, into)
        };
        walk(0, 0x5000, 16 << 20, fetch, &mut list).unwrap();
        assert_eq!((list.total_bytes(), list.as_slice().len(), fetches), (16 << 20, 4096, 9));
    }

    #[test]
    fn a_list_shorter_than_the_length_claims_is_refused_where_it_ends() {
        // Ten pages are claimed, three entries exist; what follows is not a list.
        let mut lists = lay_out(&[0x10000, 0x20000, 0x30000], 0x5000, &[]);
        lists.put(0x5018, 0x7856_3412_7856_3412);
        assert_eq!(refused(0, 0x5000, 10 * 4096, &lists), PrpError::EntryOffset(0x7856_3412_7856_3412));
    }

    /// Addresses that hit pages 0–3 often, with offsets that are sometimes wrong.
    fn pointer() -> impl Strategy<Value = u64> {
        let offset =
            prop_oneof![6 => Just(0), 2 => (0..512u64).prop_map(|q| q * 8), 1 => Just(4088), 1 => 0..4096u64];
        let page = prop_oneof![8 => 0..4u64, 1 => 4..9u64, 1 => Just(u64::MAX / PAGE)];
        (page, offset).prop_map(|(page, offset)| page * PAGE + offset)
    }

    proptest! {
        #[test]
        fn lists_as_a_driver_lays_them_out_give_back_the_pages(
            offset in (0..1024u64).prop_map(|dword| dword * 4),
            len in 1..3_000_000u32,
            list_offset in (0..512u64).prop_map(|qword| qword * 8),
        ) {
            let prp1 = 0x40_0000_0000 + offset;
            let page_count = (offset + u64::from(len)).div_ceil(PAGE) as usize;
            let rest: Vec<u64> = (1..page_count as u64).map(|i| 0x10_0000_0000 + i * 3 * PAGE).collect();
            let list = 0x20_0000_0000 + list_offset;
            let lists = lay_out(&rest, list, &[0x30_0000_0000, 0x30_0000_5000, 0x30_0000_9000]);
            let prp2 = if rest.len() == 1 { rest[0] } else { list };

            let segments = walked(prp1, prp2, len, &lists).unwrap();
            prop_assert_eq!(segments.iter().map(|s| u64::from(s.1)).sum::<u64>(), u64::from(len));
            let pages: Vec<u64> = segments.iter().map(|s| s.0).collect();
            prop_assert_eq!(&pages[..1], &[prp1][..]);
            prop_assert_eq!(&pages[1..], &rest[..]);
        }

        #[test]
        fn walk_start_yields_the_first_segments_of_the_whole_walk(
            offset in (0..1024u64).prop_map(|dword| dword * 4),
            len in 1..6_000_000u32,
            moved in prop_oneof![0..20_000u32, 0..6_000_000u32],
            list_offset in prop_oneof![Just(4088u64), Just(4080), (0..512u64).prop_map(|qword| qword * 8)],
        ) {
            let page_count = (offset + u64::from(len)).div_ceil(PAGE) as usize;
            let rest: Vec<u64> = (1..page_count as u64).map(|i| 0x10_0000_0000 + i * 3 * PAGE).collect();
            let (prp1, list) = (0x40_0000_0000 + offset, 0x20_0000_0000 + list_offset);
            let lists = lay_out(&rest, list, &[0x30_0000_0000, 0x30_0000_5000, 0x30_0000_9000, 0x30_0000_d000]);
            let prp2 = if rest.len() == 1 { rest[0] } else { list };
            let mut start = SegmentList::new();
            let mut fetched = 0;
            let fetch = |at, into: &mut [u8]| {
                fetched += into.len();
                lists.fetch(at, into)
            };
            walk_start(prp1, prp2, len, moved, fetch, &mut start).unwrap();

            let mut left = moved.min(len);
            let mut expected = walked(prp1, prp2, len, &lists).unwrap();
            for segment in &mut expected {
                segment.1 = segment.1.min(left);
                left -= segment.1;
            }
            expected.retain(|segment| segment.1 > 0);
            let segments: Vec<(u64, u32)> = start.as_slice().iter().map(|s| (s.addr.0, s.len_bytes)).collect();
            // Only needed entries are fetched: one per page moved, and the chain pointers.
            prop_assert!(fetched <= 8 * (expected.len() + 4));
            prop_assert_eq!(segments, expected);
        }

        #[test]
        fn prp_walk_of_any_memory_matches_the_model(
            prp1 in pointer(), prp2 in pointer(),
            len in prop_oneof![0..20_000u32, 0..3_000_000u32],
            filler in pointer().prop_map(|p| p / PAGE * PAGE),
            strange in prop::collection::vec((0..4096u64 / 8 * 4, pointer()), 0..6),
        ) {
            let mut lists = Lists::default();
            for qword in 0..4096 / 8 * 4 {
                lists.put(qword * 8, filler);
            }
            for (qword, value) in strange {
                lists.put(qword * 8, value);
            }
            prop_assert_eq!(walked(prp1, prp2, len, &lists), model(prp1, prp2, len, &lists));
        }
    }
}
