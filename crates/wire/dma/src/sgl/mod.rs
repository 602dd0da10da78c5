//! Scatter gather lists: from the descriptor in the command and a length to segments (NVMe Base 2.1, section 4.3.2).
//!
//! A descriptor describes data, a bit bucket (bytes of a read to discard), or a segment of further descriptors. A
//! segment may end with the descriptor of the next; a *last* segment may not. A segment that does not point to a next
//! one ends the list, as in QEMU.
//!
//! The list must describe exactly the command's length: bit 18 of SGLS is 0. The number of descriptors is limited, so
//! a list that points at itself ends at the limit.

mod error;

use byway_spec::Direction;
use byway_spec::base::prp::PAGE_BYTES;
use byway_spec::base::sgl::{SGL_DESCRIPTOR_BYTES, SglDescriptor, SglKind};

use crate::{BusAddr, DmaFault, Segment, SegmentList};

pub use error::SglError;

/// Most descriptors of one command, without the one in the command: twice what 16 MiB in single pages needs.
pub const DESCRIPTORS_MAX: usize = 8192;

/// Most descriptors read into a small buffer: zeroing a page-sized one costs more than reading them.
const SHORT: usize = 32;

/// The length of an inline payload, if SGL1 describes one: a data block with the offset sub type and offset 0.
///
/// # Errors
/// The offset is not zero.
#[inline]
pub const fn inline_bytes(sgl1: SglDescriptor) -> Result<Option<u32>, SglError> {
    match sgl1.kind {
        SglKind::DATA_BLOCK_OFFSET if sgl1.address != 0 => Err(SglError::Offset(sgl1.address)),
        SglKind::DATA_BLOCK_OFFSET => Ok(Some(sgl1.length_bytes)),
        _ => Ok(None),
    }
}

/// Turns an SGL into the segments of `len_bytes` of data, replacing the content of `into`. Empty descriptors are left
/// out; bit buckets are ignored if the device reads.
///
/// `fetch` reads descriptors, at most a page at a time. Whether data blocks are mapped is found out when the data is
/// moved. Inline payloads ([`inline_bytes`]) are left to the caller; their sub type is refused here.
///
/// # Errors
/// [`SglError`]; `into` then holds the segments before the invalid one.
#[inline]
pub fn walk(
    sgl1: SglDescriptor,
    len_bytes: u32,
    direction: Direction,
    fetch: impl FnMut(BusAddr, &mut [u8]) -> Result<(), DmaFault>,
    into: &mut SegmentList,
) -> Result<(), SglError> {
    into.clear();
    // One data block, as most are.
    if sgl1.kind == SglKind::DATA_BLOCK && sgl1.length_bytes == len_bytes && len_bytes > 0 {
        if sgl1.address.checked_add(u64::from(len_bytes)).is_none() {
            return Err(SglError::Wraps(sgl1.address));
        }
        into.push(Segment::new(BusAddr(sgl1.address), len_bytes));
        return Ok(());
    }
    let mut walk = Walk { len_bytes, direction, described: 0, left: DESCRIPTORS_MAX, fetch, into };
    let mut next = walk.take(sgl1)?;
    while let Some(segment) = next {
        next = match segment.descriptors {
            0..=SHORT => walk.segment::<{ SHORT * SGL_DESCRIPTOR_BYTES }>(segment)?,
            _ => walk.segment::<PAGE_BYTES>(segment)?,
        };
    }
    if walk.described != u64::from(len_bytes) {
        return Err(SglError::Length { described: walk.described, asked: len_bytes });
    }
    Ok(())
}

/// A segment of descriptors to be read.
#[derive(Clone, Copy)]
struct Next {
    addr: BusAddr,
    descriptors: usize,
    last: bool,
}

struct Walk<'a, F> {
    len_bytes: u32,
    direction: Direction,
    described: u64,
    /// Descriptors that may still be read.
    left: usize,
    fetch: F,
    into: &'a mut SegmentList,
}

impl<F: FnMut(BusAddr, &mut [u8]) -> Result<(), DmaFault>> Walk<'_, F> {
    /// Reads one segment, with fetches of at most `FETCH` bytes; returns the next segment.
    #[inline(never)]
    fn segment<const FETCH: usize>(&mut self, segment: Next) -> Result<Option<Next>, SglError> {
        self.left = self.left.checked_sub(segment.descriptors).ok_or(SglError::TooMany)?;
        let mut buffer = [0; FETCH];
        let (mut addr, mut left, mut next) = (segment.addr, segment.descriptors, None);
        while left > 0 {
            let now = left.min(FETCH / SGL_DESCRIPTOR_BYTES);
            let fetched = &mut buffer[..now * SGL_DESCRIPTOR_BYTES];
            (self.fetch)(addr, fetched).map_err(SglError::Fetch)?;
            for bytes in fetched.as_chunks().0 {
                left -= 1;
                let descriptor = SglDescriptor::from_bytes(bytes);
                match descriptor.kind {
                    SglKind::SEGMENT | SglKind::LAST_SEGMENT if segment.last => {
                        return Err(SglError::AfterLast);
                    }
                    SglKind::SEGMENT | SglKind::LAST_SEGMENT if left > 0 => return Err(SglError::MidSegment),
                    _ => next = self.take(descriptor)?,
                }
            }
            // A segment that passes the last address is not mapped: the next fetch refuses it.
            addr = BusAddr(addr.0.saturating_add(fetched.len() as u64));
        }
        Ok(next)
    }

    /// Handles one descriptor; returns the segment it points to, if any.
    #[inline]
    fn take(&mut self, descriptor: SglDescriptor) -> Result<Option<Next>, SglError> {
        match descriptor.kind {
            SglKind::DATA_BLOCK => self.data(descriptor).map(|()| None),
            SglKind::BIT_BUCKET => self.bucket(descriptor.length_bytes).map(|()| None),
            SglKind::SEGMENT => Self::next(descriptor, false).map(Some),
            SglKind::LAST_SEGMENT => Self::next(descriptor, true).map(Some),
            other => Err(SglError::Type(other)),
        }
    }

    #[inline]
    fn data(&mut self, descriptor: SglDescriptor) -> Result<(), SglError> {
        let (addr, len_bytes) = (descriptor.address, descriptor.length_bytes);
        if addr.checked_add(u64::from(len_bytes)).is_none() {
            return Err(SglError::Wraps(addr));
        }
        self.push(Segment::new(BusAddr(addr), len_bytes))
    }

    fn bucket(&mut self, len_bytes: u32) -> Result<(), SglError> {
        match self.direction {
            Direction::DeviceToHost => self.push(Segment::bucket(len_bytes)),
            _ => Ok(()),
        }
    }

    #[inline]
    fn push(&mut self, segment: Segment) -> Result<(), SglError> {
        if segment.len_bytes == 0 {
            return Ok(());
        }
        self.described += u64::from(segment.len_bytes);
        if self.described > u64::from(self.len_bytes) {
            return Err(SglError::Length { described: self.described, asked: self.len_bytes });
        }
        self.into.push(segment);
        Ok(())
    }

    fn next(descriptor: SglDescriptor, last: bool) -> Result<Next, SglError> {
        let (addr, len_bytes) = (descriptor.address, descriptor.length_bytes);
        if len_bytes == 0 || !len_bytes.is_multiple_of(SGL_DESCRIPTOR_BYTES as u32) {
            return Err(SglError::SegmentLength(len_bytes));
        }
        if !addr.is_multiple_of(8) {
            return Err(SglError::SegmentMisaligned(addr));
        }
        Ok(Next { addr: BusAddr(addr), descriptors: len_bytes as usize / SGL_DESCRIPTOR_BYTES, last })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Why;
    use byway_spec::Status;
    use proptest::prelude::*;

    /// Descriptors from address 0 on, 16 bytes each; nothing else is mapped.
    struct Memory(Vec<SglDescriptor>);

    impl Memory {
        fn at(&self, addr: u64) -> Option<SglDescriptor> {
            let bytes: Vec<u8> = self.0.iter().flat_map(|d| d.to_bytes()).collect();
            let from = usize::try_from(addr).ok()?;
            Some(SglDescriptor::from_bytes(bytes.get(from..)?.first_chunk()?))
        }

        fn fetch(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
            let fault = DmaFault { at, len: into.len(), why: Why::Unmapped };
            for (i, bytes) in into.chunks_exact_mut(16).enumerate() {
                let addr = at.0.checked_add(16 * i as u64).ok_or(fault)?;
                bytes.copy_from_slice(&self.at(addr).ok_or(fault)?.to_bytes());
            }
            Ok(())
        }
    }

    const WRITE: Direction = Direction::HostToDevice;
    const READ: Direction = Direction::DeviceToHost;

    fn data(address: u64, len: u32) -> SglDescriptor {
        SglDescriptor::data_block(address, len)
    }

    fn walked(
        sgl1: SglDescriptor,
        len: u32,
        direction: Direction,
        memory: &[SglDescriptor],
    ) -> Result<Vec<Segment>, SglError> {
        let (memory, mut list) = (Memory(memory.to_vec()), SegmentList::new());
        walk(sgl1, len, direction, |at, into| memory.fetch(at, into), &mut list)?;
        Ok(list.as_slice().to_vec())
    }

    fn refused(sgl1: SglDescriptor, len: u32, memory: &[SglDescriptor]) -> SglError {
        walked(sgl1, len, WRITE, memory).unwrap_err()
    }

    fn block(addr: u64, len: u32) -> Segment {
        Segment::new(BusAddr(addr), len)
    }

    #[test]
    fn one_data_block_needs_no_fetch() {
        assert_eq!(walked(data(0x1003, 77), 77, WRITE, &[]), Ok(vec![block(0x1003, 77)]));
        assert_eq!(walked(data(0, 0), 0, WRITE, &[]), Ok(vec![]));
    }

    #[test]
    fn segments_follow_one_another_to_the_last() {
        let memory = [
            data(0x100, 1),
            data(0x200, 2),
            SglDescriptor::last_segment(64, 32),
            data(0, 0), // not part of any segment
            data(0x300, 3),
            data(0x400, 4),
        ];
        let expected = vec![block(0x100, 1), block(0x200, 2), block(0x300, 3), block(0x400, 4)];
        assert_eq!(walked(SglDescriptor::segment(0, 48), 10, WRITE, &memory), Ok(expected));
    }

    #[test]
    fn a_segment_that_names_no_next_one_ends_the_list() {
        let memory = [data(0x100, 1), data(0x200, 2)];
        let expected = vec![block(0x100, 1), block(0x200, 2)];
        assert_eq!(walked(SglDescriptor::segment(0, 32), 3, WRITE, &memory), Ok(expected));
    }

    #[test]
    fn a_bit_bucket_takes_bytes_of_a_read_and_none_of_a_write() {
        let memory = [data(0x100, 10), SglDescriptor::bit_bucket(20), data(0x200, 30)];
        let last = SglDescriptor::last_segment(0, 48);
        let expected = vec![block(0x100, 10), Segment::bucket(20), block(0x200, 30)];
        assert_eq!(walked(last, 60, READ, &memory), Ok(expected));
        assert_eq!(walked(last, 40, WRITE, &memory), Ok(vec![block(0x100, 10), block(0x200, 30)]));
    }

    #[test]
    fn a_list_longer_than_the_command_is_refused() {
        let error = refused(data(0, 100), 99, &[]);
        assert_eq!(error, SglError::Length { described: 100, asked: 99 });
        let memory = [data(0, u32::MAX), data(0, u32::MAX), data(0, 7)];
        let error = refused(SglDescriptor::last_segment(0, 48), 5, &memory);
        assert_eq!(error.status(), Status::DATA_SGL_LENGTH_INVALID);
    }

    #[test]
    fn a_list_shorter_than_the_command_is_refused() {
        let error = refused(data(0, 98), 99, &[]);
        assert_eq!(error, SglError::Length { described: 98, asked: 99 });
        assert_eq!(error.status(), Status::DATA_SGL_LENGTH_INVALID);
    }

    #[test]
    fn a_list_that_points_at_itself_ends_by_the_count_of_descriptors() {
        let memory = [data(0, 0), SglDescriptor::segment(0, 32)];
        let error = refused(SglDescriptor::segment(0, 32), 1, &memory);
        assert_eq!((error, error.status()), (SglError::TooMany, Status::INVALID_SGL_COUNT));
    }

    #[test]
    fn a_segment_of_more_descriptors_than_allowed_is_refused_before_it_is_fetched() {
        let huge = SglDescriptor::last_segment(0, (DESCRIPTORS_MAX as u32 + 1) * 16);
        assert_eq!(refused(huge, 1, &[]), SglError::TooMany);
    }

    #[test]
    fn a_segment_whose_length_is_not_whole_descriptors_is_refused() {
        for len in [0, 8, 15, 17, u32::MAX] {
            let error = refused(SglDescriptor::segment(0, len), 1, &[]);
            assert_eq!((error, error.status()), (SglError::SegmentLength(len), Status::INVALID_SGL_SEGMENT));
        }
    }

    #[test]
    fn a_segment_that_is_not_qword_aligned_is_refused() {
        let error = refused(SglDescriptor::segment(0x1004, 16), 1, &[]);
        assert_eq!(error, SglError::SegmentMisaligned(0x1004));
    }

    #[test]
    fn a_last_segment_that_names_another_is_refused() {
        let memory = [data(0, 1), SglDescriptor::last_segment(0, 16)];
        let error = refused(SglDescriptor::last_segment(0, 32), 1, &memory);
        assert_eq!((error, error.status()), (SglError::AfterLast, Status::INVALID_SGL_SEGMENT));
    }

    #[test]
    fn a_segment_descriptor_before_the_end_of_its_segment_is_refused() {
        let memory = [SglDescriptor::last_segment(32, 16), data(0, 1), data(0, 1)];
        let error = refused(SglDescriptor::segment(0, 32), 2, &memory);
        assert_eq!((error, error.status()), (SglError::MidSegment, Status::INVALID_SGL_COUNT));
    }

    #[test]
    fn a_segment_that_leaves_the_map_is_refused() {
        for addr in [1 << 40, u64::MAX - 7] {
            let error = refused(SglDescriptor::last_segment(addr, 8192), 1, &[]);
            assert_eq!(error.status(), Status::DATA_TRANSFER_ERROR, "{addr:#x}");
        }
    }

    #[test]
    fn a_data_block_that_passes_the_last_address_is_refused() {
        let error = refused(data(u64::MAX - 10, 100), 100, &[]);
        assert_eq!(error, SglError::Wraps(u64::MAX - 10));
    }

    #[test]
    fn unknown_types_and_sub_types_are_refused() {
        for kind in [0x01, 0x0a, 0x11, 0x21, 0x31, 0x40, 0x5a, 0xf0, 0xff] {
            let error = refused(SglDescriptor::new(SglKind(kind), 0, 16), 16, &[]);
            assert_eq!((error, error.status()), (SglError::Type(SglKind(kind)), Status::SGL_TYPE_INVALID));
        }
    }

    #[test]
    fn inline_bytes_recognises_an_inline_payload_and_requires_offset_zero() {
        assert_eq!(inline_bytes(SglDescriptor::inline(300)), Ok(Some(300)));
        assert_eq!(inline_bytes(data(0, 300)), Ok(None));
        let displaced = SglDescriptor { address: 64, ..SglDescriptor::inline(300) };
        assert_eq!(inline_bytes(displaced).unwrap_err().status(), Status::SGL_OFFSET_INVALID);
    }

    #[test]
    fn a_long_segment_is_fetched_a_page_at_a_time() {
        let memory = Memory((0..600).map(|i| data(i << 20, 1)).collect());
        let (mut fetches, mut list) = (vec![], SegmentList::new());
        let fetch = |at: BusAddr, into: &mut [u8]| {
            fetches.push((at.0, into.len()));
            memory.fetch(at, into)
        };
        walk(SglDescriptor::last_segment(0, 9600), 600, WRITE, fetch, &mut list).unwrap();
        assert_eq!(fetches, [(0, 4096), (4096, 4096), (8192, 1408)]);
        assert_eq!(list.as_slice().len(), 600);
    }

    /// The same rules, applied recursively to one descriptor at a time, without a limit.
    fn model(
        descriptor: SglDescriptor,
        memory: &Memory,
        depth: usize,
        found: &mut Vec<Segment>,
    ) -> Result<(), Status> {
        let (kind, len) = (descriptor.kind, descriptor.length_bytes);
        match kind {
            SglKind::DATA_BLOCK if descriptor.address.checked_add(u64::from(len)).is_none() => {
                return Err(Status::DATA_SGL_LENGTH_INVALID);
            }
            SglKind::DATA_BLOCK => found.push(block(descriptor.address, len)),
            SglKind::BIT_BUCKET => found.push(Segment::bucket(len)),
            SglKind::SEGMENT | SglKind::LAST_SEGMENT => {
                if len == 0 || !len.is_multiple_of(16) || !descriptor.address.is_multiple_of(8) {
                    return Err(Status::INVALID_SGL_SEGMENT);
                }
                if depth > DESCRIPTORS_MAX {
                    return Err(Status::INVALID_SGL_COUNT);
                }
                for i in 0..len / 16 {
                    let inner = memory.at(descriptor.address + u64::from(16 * i));
                    let inner = inner.ok_or(Status::DATA_TRANSFER_ERROR)?;
                    if matches!(inner.kind, SglKind::SEGMENT | SglKind::LAST_SEGMENT) {
                        if kind == SglKind::LAST_SEGMENT {
                            return Err(Status::INVALID_SGL_SEGMENT);
                        }
                        if i + 1 != len / 16 {
                            return Err(Status::INVALID_SGL_COUNT);
                        }
                    }
                    model(inner, memory, depth + 1, found)?;
                }
            }
            _ => return Err(Status::SGL_TYPE_INVALID),
        }
        Ok(())
    }

    fn descriptor() -> impl Strategy<Value = SglDescriptor> {
        let address = prop_oneof![9 => (0..12u64).prop_map(|i| i * 16), 1 => 0..200u64];
        let segment_len = prop_oneof![9 => (1..6u32).prop_map(|n| n * 16), 1 => 0..100u32];
        prop_oneof![
            6 => (any::<u32>(), 0..50u32).prop_map(|(addr, len)| data(u64::from(addr), len)),
            1 => (0..50u32).prop_map(SglDescriptor::bit_bucket),
            2 => (address.clone(), segment_len.clone()).prop_map(|(a, n)| SglDescriptor::segment(a, n)),
            2 => (address, segment_len).prop_map(|(a, n)| SglDescriptor::last_segment(a, n)),
            1 => (any::<u8>(), any::<u64>()).prop_map(|(k, a)| SglDescriptor::new(SglKind(k), a, 7)),
        ]
    }

    /// Moves each segment behind its descriptor: loops have their own test, and the recursion has no limit.
    fn forward(mut memory: Vec<SglDescriptor>) -> Vec<SglDescriptor> {
        for (i, descriptor) in memory.iter_mut().enumerate() {
            let own = 16 * i as u64;
            let names = matches!(descriptor.kind, SglKind::SEGMENT | SglKind::LAST_SEGMENT);
            if names && descriptor.address <= own {
                descriptor.address += own + 16;
            }
        }
        memory
    }

    proptest! {
        #[test]
        fn sgl_walk_of_any_list_matches_the_model(
            sgl1 in descriptor(), memory in prop::collection::vec(descriptor(), 12).prop_map(forward),
        ) {
            let memory = Memory(memory);
            let mut found = vec![];
            let expected = model(sgl1, &memory, 0, &mut found);
            found.retain(|s| s.len_bytes > 0);
            // Descriptors read at a wrong offset have lengths that no command could have.
            let total = found.iter().map(|s| u64::from(s.len_bytes)).sum::<u64>();
            prop_assume!(total < u64::from(u32::MAX));
            let total = total as u32;
            match (expected, walked(sgl1, total, READ, &memory.0)) {
                (Ok(()), walked) => {
                    prop_assert_eq!(walked, Ok(found));
                    let error = self::walked(sgl1, total + 1, READ, &memory.0).unwrap_err();
                    prop_assert_eq!(error.status(), Status::DATA_SGL_LENGTH_INVALID);
                }
                // A segment is fetched before its first descriptor is looked at.
                (Err(status), Err(SglError::Fetch(_))) => prop_assert!(!status.is_success()),
                (Err(status), walked) => prop_assert_eq!(walked.map_err(SglError::status), Err(status)),
            }
        }
    }
}
