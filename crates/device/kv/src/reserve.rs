//! Capacity of a namespace: its size less a reserve that guarantees room for every promised byte.
//!
//! A store without free space first settles and reclaims everything dead. The most that is occupied then beside live records
//! and index entries, in segments:
//!
//! | | |
//! |---|---|
//! | open | the current segment of each stream, and the last segment of the one remaining run |
//! | flushes | two memtables being flushed: a full namespace flushes each after a bounded part of it |
//! | growth | runs waiting for a merge; more than this starts a merge of all |
//! | merge | output written before the input's segments are freed |
//! | moves | the stream of moved records, one segment ahead, and a record of the maximum length |
//! | store | a record of the maximum length or the content of a window, while the record that it replaces exists |
//!
//! In the rest, records are packed to [`Layout::dense_percent`], and a compaction victim must free more than that loses. A
//! namespace filled to its capacity has such a victim as long as less than the sum of the above is free.

use crate::index::page::PageShape;
use crate::layout::Layout;

/// Segments that a merge writes before it frees its input.
pub(crate) const CUT_SEGMENTS: u64 = 2;
/// What the index takes for a key: its entry, its share of filters and inner pages, and of roots of cuts.
pub(crate) const INDEX_BYTES_PER_KEY: u64 = 36;
/// What the shortest record takes of the capacity.
pub(crate) const CHARGE_LEAST_BYTES: u64 = 21 + INDEX_BYTES_PER_KEY;
/// Entries that a slice of compaction adds to a memtable that was due.
pub(crate) const SLICE_ENTRIES: u64 = 192;
/// Part of a namespace that is written between two flushes once it is full: flushing more often costs more in the index
/// than is won by knowing earlier what is dead. Half of it in a namespace of few segments, which has less to spare.
const FLUSH_SHARE: u64 = 32;
/// Runs that a merge reads at most, each with one segment of which a part is passed: nothing before the page at hand is needed of it.
pub(crate) const MERGED_RUNS: usize = 8;
/// Segments that the index may grow by before all runs are merged.
const GROWTH_SEGMENTS: u64 = 4;
/// Segments that moves need beside those of a long record: the one begun, the next, one for what spans them.
const MOVE_SEGMENTS: u64 = 3;
/// What emptying a segment gives, at least, beyond what moved records leave out.
const GAIN_PERCENT: u64 = 3;

/// Reserved segments, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserve {
    open: u64,
    flushes: u64,
    pub(crate) growth: u64,
    merge: u64,
    moves: u64,
    store: u64,
    /// Entries that take at least as many segments as are kept for a merge.
    merge_entries: u64,
}

impl Reserve {
    /// What a namespace of this layout needs at most.
    pub(crate) fn of(layout: &Layout) -> Self {
        let flush = segments_of_entries(layout, due_entries(full_flush_bytes(layout, layout.extent_bytes())));
        let longest = u64::from(layout.value_max_bytes());
        let merge = merge_segments(layout);
        let entries_per_page = PageShape::new(layout.page_bytes).entries as u64;
        Self {
            open: (layout.streams_in_segments() + 1) as u64,
            flushes: 2 * flush,
            growth: GROWTH_SEGMENTS + flush,
            merge,
            moves: move_segments(layout, longest),
            store: store_segments(layout, longest.max(layout.window_bytes as u64)),
            merge_entries: merge * layout.pages_per_segment() * entries_per_page,
        }
    }

    /// Segments that a merge of `entries` entries allocates before it frees any.
    pub(crate) fn merge_of(&self, layout: &Layout, entries: u64) -> u64 {
        match entries < self.merge_entries {
            true => segments_of_entries(layout, entries).min(self.merge),
            false => self.merge,
        }
    }

    pub(crate) fn segments(&self) -> u64 {
        self.open + self.flushes + self.growth + self.merge + self.moves + self.store
    }
}

/// Bytes of live records and index entries that a namespace of `size_bytes` can hold in an extent of this layout.
pub(crate) fn capacity(layout: &Layout, size_bytes: u64) -> u64 {
    let room = (layout.segments as u64).saturating_sub(Reserve::of(layout).segments());
    let room_bytes = room * layout.segment_bytes();
    size_bytes.min(room_bytes / 100 * (layout.dense_percent() - GAIN_PERCENT))
}

/// Bytes of records and index entries after which a memtable is written out, where there is no room to spare.
pub(crate) fn full_flush_bytes(layout: &Layout, capacity_bytes: u64) -> u64 {
    let share = FLUSH_SHARE << u64::from(layout.has_few_segments());
    (capacity_bytes / share).max(2 * layout.segment_bytes())
}

/// Maximum entries of a memtable that is flushed after `bytes` bytes.
pub(crate) fn due_entries(bytes: u64) -> u64 {
    bytes / CHARGE_LEAST_BYTES + SLICE_ENTRIES
}

/// Segments of a run of `entries` entries.
pub(crate) fn segments_of_entries(layout: &Layout, entries: u64) -> u64 {
    let shape = PageShape::new(layout.page_bytes);
    let data = entries.div_ceil(shape.entries as u64).max(1);
    let (mut pages, mut level) = (data + data.div_ceil(shape.filter_blocks as u64), data);
    loop {
        level = level.div_ceil(shape.entries as u64);
        pages += level;
        if level == 1 {
            return pages.div_ceil(layout.pages_per_segment());
        }
    }
}

/// Segments that a merge takes before it gives any back.
pub(crate) fn merge_segments(layout: &Layout) -> u64 {
    let group = PageShape::new(layout.page_bytes).filter_blocks as u64 + 1;
    CUT_SEGMENTS + group.div_ceil(layout.pages_per_segment()) + MERGED_RUNS as u64
}

/// Segments that moves need where the longest record that spans segments has so many bytes.
pub(crate) fn move_segments(layout: &Layout, longest_bytes: u64) -> u64 {
    MOVE_SEGMENTS + longest_bytes.div_ceil(layout.segment_bytes())
}

/// Most segments that a record takes: header and boundary included, it may begin in one and end in one more.
pub(crate) fn store_segments(layout: &Layout, value_len: u64) -> u64 {
    1 + ((value_len + 8192) >> layout.segment_shift)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::layout::KvFormat;
    use proptest::prelude::*;

    /// The share of its size that a namespace holds with 28 percent on top.
    fn held_percent(size_bytes: u64) -> u64 {
        let layout = Layout::plan(16384, size_bytes / 100 * 128, &KvFormat::default()).unwrap();
        capacity(&layout, size_bytes) * 100 / size_bytes
    }

    #[test]
    fn the_larger_a_namespace_the_more_of_its_size_it_holds() {
        let held = [4, 16, 64, 1 << 10, 4 << 10].map(|mib| held_percent(mib << 20));
        assert_eq!(held, [69, 84, 88, 96, 98]);
    }

    proptest! {
        #[test]
        fn a_namespace_that_can_be_made_holds_something(extent in (64u64 << 10)..(1 << 36), ring_pages in 0u16..16, windows in 0u16..130, page_shift in 12u32..15) {
            let format = KvFormat { ring_pages, windows, window_bytes: 64 << 10 };
            let Ok(layout) = Layout::plan(1 << page_shift, extent, &format) else { return Ok(()) };
            let held_bytes = capacity(&layout, extent);
            prop_assert!(held_bytes > u64::from(layout.value_max_bytes()) && held_bytes < extent);
        }
    }
}
