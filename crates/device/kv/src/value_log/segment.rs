//! Segments: the units in which the extent is given to log streams and to the index, and what is alive in each.
//!
//! A row of the table is 16 bytes: a sealed word `{use (4 bits), stream (8), ordinal (44)}` that changes by one store, and a
//! hint for compaction, the offset of the first record that begins in the segment.
//! Ordinals of a stream count up and are never reused; of an index segment the ordinal is the run.

use std::collections::HashMap;

use byway_flash::FlashError;

use crate::error::KvError;
use crate::layout::Layout;
use crate::sealed;
use crate::store::{Home, PageStore};

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Free,
    /// A piece of a stream: its ordinal there.
    Log {
        stream: u8,
        ordinal: u64,
    },
    /// Pages of a run.
    Index {
        run: u64,
    },
}

/// RAM of a segment: its row, three counts of live bytes, its places among the free ones and by ordinal.
const SEGMENT_RAM_BYTES: usize = 80;
const ORDINAL_BITS: u32 = 44;
const ORDINAL_MASK: u64 = (1 << ORDINAL_BITS) - 1;

impl Use {
    fn encode(self) -> u64 {
        let (class, stream, ordinal) = match self {
            Self::Free => (0, 0, 0),
            Self::Log { stream, ordinal } => (1, stream, ordinal),
            Self::Index { run } => (2, 0, run),
        };
        class << 52 | u64::from(stream) << ORDINAL_BITS | ordinal & ORDINAL_MASK
    }

    fn decode(word: u64) -> Option<Self> {
        let (stream, ordinal) = ((word >> ORDINAL_BITS) as u8, word & ORDINAL_MASK);
        match word >> 52 {
            0 => Some(Self::Free),
            1 => Some(Self::Log { stream, ordinal }),
            2 => Some(Self::Index { run: ordinal }),
            _ => None,
        }
    }
}

/// The segment table, with what follows from it.
pub(crate) struct Segments {
    layout: Layout,
    uses: Vec<Use>,
    /// Free segments; the lowest is taken first.
    free: Vec<u32>,
    by_ordinal: HashMap<(u8, u64), u32>,
    /// Segments of runs.
    index_count: usize,
    pub(crate) live: Live,
}

impl Segments {
    /// Reads the table.
    pub(crate) fn load(layout: &Layout, state: &[u8]) -> Result<Self, KvError> {
        let mut uses = Vec::with_capacity(layout.segments);
        for segment in 0..layout.segments {
            let word = sealed::read(state, layout.segment_row_at(segment));
            uses.push(word.and_then(Use::decode).ok_or(KvError::DamagedState("a row of the segment table"))?);
        }
        let free = (0..uses.len() as u32).rev().filter(|&s| uses[s as usize] == Use::Free).collect();
        let by_ordinal = uses.iter().enumerate().filter_map(|(segment, used)| match *used {
            Use::Log { stream, ordinal } => Some(((stream, ordinal), segment as u32)),
            _ => None,
        });
        let by_ordinal = by_ordinal.collect();
        let index_count = uses.iter().filter(|used| matches!(used, Use::Index { .. })).count();
        Ok(Self { layout: *layout, uses, free, by_ordinal, index_count, live: Live::new(layout) })
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Bytes of the table and what follows from it.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.uses.len() * SEGMENT_RAM_BYTES
    }

    /// Free segments that values must leave: what the index needs to be written anew, and some for deletions.
    #[inline]
    pub(crate) fn reserve(&self) -> usize {
        (self.uses.len() / 16).max(4) + self.index_count
    }

    /// What a segment is used for; `None` beyond the last.
    #[inline]
    pub(crate) fn use_of(&self, segment: u64) -> Option<Use> {
        self.uses.get(segment as usize).copied()
    }

    /// The segment that holds ordinal `ordinal` of a stream.
    pub(crate) fn find(&self, stream: u8, ordinal: u64) -> Option<u32> {
        self.by_ordinal.get(&(stream, ordinal)).copied()
    }

    /// Segments whose use passes a test.
    pub(crate) fn matching(&self, wanted: impl Fn(Use) -> bool) -> Vec<u32> {
        (0..self.uses.len() as u32).filter(|&s| wanted(self.uses[s as usize])).collect()
    }

    /// Takes a free segment, leaving at least `keep` free.
    pub(crate) fn take<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        used: Use,
        keep: usize,
    ) -> Result<u32, KvError> {
        if self.free.len() <= keep {
            return Err(KvError::Full);
        }
        let segment = self.free.pop().ok_or(KvError::Full)?;
        self.set(store, home, segment, used);
        Ok(segment)
    }

    /// Frees a segment and forgets its pages. The row changes last: a segment is never free with content.
    pub(crate) fn release<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        segment: u32,
    ) -> Result<(), FlashError> {
        let pages = self.layout.pages_per_segment();
        store.trim_pages(home, u64::from(segment) * pages, pages)?;
        self.set(store, home, segment, Use::Free);
        self.live.forget(segment as usize);
        self.free.push(segment);
        Ok(())
    }

    /// Notes where the first record in a segment begins.
    pub(crate) fn hint<S: PageStore>(&self, store: &mut S, home: &Home, segment: u32, first: u32) {
        let at = self.layout.segment_row_at(segment as usize) + 8;
        if let Some(hint) = store.state(home).get_mut(at..at + 4) {
            hint.copy_from_slice(&first.to_le_bytes());
        }
    }

    /// Adds (`sign` 1) or takes (−1) a record's bytes, segment by segment.
    #[inline]
    pub(crate) fn account(&mut self, address: u64, bytes: u64, sign: i64) {
        let segment_bytes = self.layout.segment_bytes();
        let room = segment_bytes - (address & (segment_bytes - 1));
        self.live.add((address >> self.layout.segment_shift) as usize, bytes.min(room) as i64 * sign);
        if bytes > room {
            self.account_rest(address, bytes - room, sign);
        }
    }

    /// The pieces of a record, which may span segments: each with its segment and bytes.
    pub(crate) fn pieces(&self, address: u64, bytes: u64) -> Vec<(usize, i64)> {
        let segment_bytes = self.layout.segment_bytes();
        let (mut address, mut left, mut pieces) = (address, bytes, Vec::with_capacity(1));
        loop {
            let piece = left.min(segment_bytes - (address & (segment_bytes - 1)));
            pieces.push(((address >> self.layout.segment_shift) as usize, piece as i64));
            left -= piece;
            match self.after(address) {
                Some(next) if left > 0 => address = next,
                _ => return pieces,
            }
        }
    }

    /// The address at which a stream goes on after the segment that holds `address`.
    pub(crate) fn after(&self, address: u64) -> Option<u64> {
        match self.use_of(address >> self.layout.segment_shift)? {
            Use::Log { stream, ordinal } => {
                Some(u64::from(self.find(stream, ordinal + 1)?) << self.layout.segment_shift)
            }
            _ => None,
        }
    }

    #[cold]
    fn account_rest(&mut self, address: u64, bytes: u64, sign: i64) {
        if let Some(next) = self.after(address) {
            for (segment, piece) in self.pieces(next, bytes) {
                self.live.add(segment, piece * sign);
            }
        }
    }

    fn set<S: PageStore>(&mut self, store: &mut S, home: &Home, segment: u32, used: Use) {
        if let Use::Log { stream, ordinal } = self.uses[segment as usize] {
            self.by_ordinal.remove(&(stream, ordinal));
        }
        if let Use::Log { stream, ordinal } = used {
            self.by_ordinal.insert((stream, ordinal), segment);
        }
        self.index_count -= usize::from(matches!(self.uses[segment as usize], Use::Index { .. }));
        self.index_count += usize::from(matches!(used, Use::Index { .. }));
        self.uses[segment as usize] = used;
        let place = self.layout.segment_row_at(segment as usize);
        store.commit_u64(home, place, sealed::seal(used.encode(), place));
    }
}

/// Bytes of live records in each segment.
///
/// The manifest keeps what was alive at its checkpoint; a replay of the log adds what came after, by the same steps
/// as the first time. So the counts are kept in three parts: as of the checkpoint, of the memtable being flushed,
/// of the one being filled.
pub(crate) struct Live {
    base: Vec<i64>,
    frozen: Vec<i64>,
    active: Vec<i64>,
    total: i64,
}

impl Live {
    fn new(layout: &Layout) -> Self {
        let zeroes = || vec![0; layout.segments];
        Self { base: zeroes(), frozen: zeroes(), active: zeroes(), total: 0 }
    }

    /// Bytes alive in all segments.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total.max(0) as u64
    }

    /// Bytes alive in a segment at the checkpoint, and now.
    pub(crate) fn of(&self, segment: usize) -> (i64, i64) {
        let base = self.base[segment];
        (base, base + self.frozen[segment] + self.active[segment])
    }

    #[inline]
    fn add(&mut self, segment: usize, bytes: i64) {
        if let Some(live) = self.active.get_mut(segment) {
            *live += bytes;
            self.total += bytes;
        }
    }

    /// Sets the count of the checkpoint.
    pub(crate) fn set_base(&mut self, segment: usize, bytes: u32) {
        self.total += i64::from(bytes) - self.base[segment];
        self.base[segment] = i64::from(bytes);
    }

    /// Takes bytes from the checkpoint's count: a merge dropped their entry.
    pub(crate) fn drop_from_base(&mut self, segment: usize, bytes: i64) {
        if let Some(live) = self.base.get_mut(segment) {
            *live -= bytes;
            self.total -= bytes;
        }
    }

    /// Everything was forgotten.
    pub(crate) fn clear(&mut self) {
        for part in [&mut self.base, &mut self.frozen, &mut self.active] {
            part.fill(0);
        }
        self.total = 0;
    }

    /// The memtable froze: what it added is set apart.
    pub(crate) fn freeze(&mut self) {
        debug_assert!(self.frozen.iter().all(|live| *live == 0));
        std::mem::swap(&mut self.frozen, &mut self.active);
    }

    /// The frozen memtable is on flash: what it added belongs to the checkpoint.
    pub(crate) fn settle(&mut self) {
        for (base, frozen) in self.base.iter_mut().zip(&mut self.frozen) {
            *base += std::mem::take(frozen);
        }
    }

    fn forget(&mut self, segment: usize) {
        let parts = [&mut self.base, &mut self.frozen, &mut self.active];
        self.total -= parts.into_iter().map(|part| std::mem::take(&mut part[segment])).sum::<i64>();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_use_survives_its_encoding(stream: u8, ordinal in 0..=ORDINAL_MASK) {
            for used in [Use::Free, Use::Log { stream, ordinal }, Use::Index { run: ordinal }] {
                prop_assert!(used.encode() <= sealed::SEALED_MAX);
                prop_assert_eq!(Use::decode(used.encode()), Some(used));
            }
        }
    }
}
