//! The segments of host memory that hold a command's data.

use std::fmt;

use crate::BusAddr;

/// Segments stored without allocation: enough for most commands.
const INLINE: usize = 2;

/// One bus-contiguous piece of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    /// Address of the first byte; meaningless if `discard` is set.
    pub addr: BusAddr,
    /// Length in bytes.
    pub len_bytes: u32,
    /// True for an SGL bit bucket: the bytes of a read that fall here are discarded.
    pub discard: bool,
}

impl Segment {
    /// Data at a bus address.
    #[must_use]
    pub const fn new(addr: BusAddr, len_bytes: u32) -> Self {
        Self { addr, len_bytes, discard: false }
    }

    /// A bit bucket of `len_bytes`.
    #[must_use]
    pub const fn bucket(len_bytes: u32) -> Self {
        Self { addr: BusAddr(0), len_bytes, discard: true }
    }
}

/// A command's data in order. Up to two segments need no allocation, and a reused list keeps its capacity.
#[derive(Clone, Default)]
pub struct SegmentList {
    inline: [Segment; INLINE],
    /// All segments, once there are more than `INLINE`.
    spill: Vec<Segment>,
    count: usize,
    total_bytes: u64,
}

impl SegmentList {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties the list and keeps its capacity.
    #[inline]
    pub const fn clear(&mut self) {
        self.count = 0;
        self.total_bytes = 0;
    }

    /// Appends a segment.
    #[inline]
    pub fn push(&mut self, segment: Segment) {
        self.total_bytes += u64::from(segment.len_bytes);
        match self.inline.get_mut(self.count) {
            Some(place) => *place = segment,
            None => self.push_spilled(segment),
        }
        self.count += 1;
    }

    fn push_spilled(&mut self, segment: Segment) {
        if self.count == INLINE {
            self.spill.clear();
            self.spill.extend_from_slice(&self.inline);
        }
        self.spill.push(segment);
    }

    /// The segments in order.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[Segment] {
        if self.count > INLINE { &self.spill } else { &self.inline[..self.count] }
    }

    /// Bytes of all segments, bit buckets included.
    #[must_use]
    #[inline]
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// A position at the first byte.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { rest: self.as_slice(), done_bytes: 0 }
    }

    /// The pieces of `len_bytes` from `offset_bytes`; fewer bytes if the list ends earlier.
    pub fn pieces(&self, offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Segment> + '_ {
        let mut cursor = self.cursor();
        cursor.skip(offset_bytes);
        let mut left = len_bytes;
        std::iter::from_fn(move || {
            let piece = cursor.take(left.min(u64::from(u32::MAX)) as u32)?;
            left -= u64::from(piece.len_bytes);
            Some(piece)
        })
    }
}

impl fmt::Debug for SegmentList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// A position in a [`SegmentList`], for data that is moved in parts.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [Segment],
    /// Bytes already taken of the first segment of `rest`.
    done_bytes: u32,
}

impl Cursor<'_> {
    /// Takes the next piece of at most `max_bytes`; `None` at the end or if `max_bytes` is 0.
    #[inline]
    pub fn take(&mut self, max_bytes: u32) -> Option<Segment> {
        if max_bytes == 0 {
            return None;
        }
        let (first, later) = self.rest.split_first()?;
        let left_bytes = first.len_bytes - self.done_bytes;
        let len_bytes = left_bytes.min(max_bytes);
        // No wrap: walkers refuse segments that pass the last address.
        let addr = BusAddr(first.addr.0.wrapping_add(u64::from(self.done_bytes)));
        if len_bytes == left_bytes {
            (self.rest, self.done_bytes) = (later, 0);
        } else {
            self.done_bytes += len_bytes;
        }
        Some(Segment { addr, len_bytes, discard: first.discard })
    }

    /// Advances by `bytes`, or to the end.
    pub fn skip(&mut self, bytes: u64) {
        let mut left = bytes + u64::from(self.done_bytes);
        self.done_bytes = 0;
        while let Some((first, later)) = self.rest.split_first() {
            if left < u64::from(first.len_bytes) {
                self.done_bytes = left as u32;
                return;
            }
            left -= u64::from(first.len_bytes);
            self.rest = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(lengths: &[u32]) -> SegmentList {
        let mut list = SegmentList::new();
        for (i, len_bytes) in lengths.iter().enumerate() {
            list.push(Segment::new(BusAddr(i as u64 * 0x1_0000), *len_bytes));
        }
        list
    }

    /// The address of every byte.
    fn bytes(segments: impl IntoIterator<Item = Segment>) -> Vec<u64> {
        segments.into_iter().flat_map(|s| s.addr.0..s.addr.0 + u64::from(s.len_bytes)).collect()
    }

    #[test]
    fn reused_segment_list_is_empty() {
        let mut list = list(&[1, 2, 3, 4]);
        list.clear();
        assert_eq!((list.as_slice(), list.total_bytes()), (&[][..], 0));
        list.push(Segment::bucket(7));
        assert_eq!((list.as_slice(), list.total_bytes()), (&[Segment::bucket(7)][..], 7));
    }

    proptest! {
        #[test]
        fn pieces_are_the_bytes_of_that_range(
            lengths in prop::collection::vec(1..40u32, 0..8), offset in 0..300u64, len in 0..300u64,
        ) {
            let list = list(&lengths);
            let all = bytes(list.as_slice().iter().copied());
            prop_assert_eq!(all.len() as u64, list.total_bytes());
            let expected: Vec<u64> = all.into_iter().skip(offset as usize).take(len as usize).collect();
            prop_assert_eq!(bytes(list.pieces(offset, len)), expected);
        }

        #[test]
        fn a_cursor_gives_every_byte_once_whatever_the_steps(
            lengths in prop::collection::vec(1..40u32, 0..8), steps in prop::collection::vec(1..50u32, 1..6),
        ) {
            let list = list(&lengths);
            let mut cursor = list.cursor();
            let taken: Vec<Segment> =
                steps.iter().cycle().map_while(|step| cursor.take(*step)).collect();
            prop_assert_eq!(bytes(taken), bytes(list.as_slice().iter().copied()));
        }
    }
}
