//! Accessors of [`ValueLog`] for the engine and the index.

use byway_flash::FlashError;

use crate::error::KvError;
use crate::layout::Layout;
use crate::store::{Home, PageStore};
use crate::value_log::ValueLog;
use crate::value_log::packing::{Packing, PackingCounters};
use crate::value_log::region::Region;
use crate::value_log::segment::{Segments, Use};
use crate::value_log::stream::Stream;
use crate::work::Work;

/// How far free space may shrink. The engine sets it anew after each change of the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Free segments that values must leave to the index, to compaction and to deletions.
    pub(crate) floor: usize,
    /// Free segments that compaction must leave to the index.
    pub(crate) index_floor: usize,
    /// Bytes that entries of overwritten keys may take in the index before all runs are merged.
    pub(crate) growth_bound_bytes: u64,
    /// Values keep a boundary while more segments than this are free.
    pub(crate) packed_at: usize,
}

impl Default for Bounds {
    /// Until the engine knows its index: none.
    fn default() -> Self {
        Self { floor: 0, index_floor: 0, growth_bound_bytes: u64::MAX, packed_at: 0 }
    }
}

impl ValueLog {
    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the store has the namespace.
    #[inline]
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    #[inline]
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The segment table, to change its counts of live bytes and keys, its notes of dead records, and its checkpoints.
    #[inline]
    pub(crate) fn segments_mut(&mut self) -> &mut Segments {
        &mut self.segments
    }

    /// Takes a free segment, also the last one: for the index only.
    pub(crate) fn take_segment<S: PageStore>(&mut self, store: &mut S, used: Use) -> Result<u32, KvError> {
        self.segments.take(store, &self.home, used, 0)
    }

    /// As [`Segments::release`].
    pub(crate) fn release<S: PageStore>(&mut self, store: &mut S, segment: u32) -> Result<(), FlashError> {
        self.segments.release(store, &self.home, segment)
    }

    /// Frees at most `pages` pages of a segment, as [`Segments::release_some`] does, and counts them. Whether it is free now.
    pub(crate) fn release_some<S: PageStore>(
        &mut self,
        store: &mut S,
        segment: u32,
        pages: u64,
    ) -> Result<bool, FlashError> {
        self.work.pages_trimmed += pages.min(self.layout.pages_per_segment()) as u32;
        self.segments.release_some(store, &self.home, segment, pages)
    }

    /// Counts pages that were looked at for the command at hand.
    pub(crate) fn count_pages_read(&mut self, pages: u64) {
        self.work.pages_read += pages as u32;
    }

    /// As [`Segments::trim_free`].
    pub(crate) fn trim_free<S: PageStore>(&self, store: &mut S) -> Result<(), FlashError> {
        self.segments.trim_free(store, &self.home)
    }

    /// As [`Segments::hints`].
    pub(crate) fn hints<S: PageStore>(&self, store: &mut S, segment: u32) -> (u32, u32) {
        self.segments.hints(store, &self.home, segment)
    }

    #[inline]
    pub(crate) fn stream(&self, stream: usize) -> &Stream {
        &self.streams[stream]
    }

    pub(crate) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Drops a region whose record is torn.
    pub(crate) fn drop_region<S: PageStore>(&mut self, store: &mut S, stream: usize, region: Region) {
        self.streams[stream].drop_region(store, &self.home, region);
    }

    /// Without a loss of power: drops the rings' copies of pages that were programmed.
    pub(crate) fn drop_programmed(&mut self) {
        self.streams.iter_mut().for_each(Stream::drop_programmed);
    }

    /// Zeroes the ring of a stream in the state area, all of whose pages are on flash or of no use.
    pub(crate) fn empty_ring<S: PageStore>(&self, store: &mut S, stream: usize) {
        store.state(&self.home)[self.streams[stream].ring().range()].fill(0);
    }

    /// Changes the packing policy for what is appended from now on.
    pub(crate) fn set_packing(&mut self, packing: Packing) {
        self.packing = packing;
    }

    /// What packing copied, placed and left empty since the engine was opened.
    #[inline]
    pub(crate) fn counters(&self) -> &PackingCounters {
        &self.counters
    }

    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Free segments that values must leave to the index, to compaction and to deletions.
    #[inline]
    pub(crate) fn floor(&self) -> usize {
        self.bounds.floor
    }

    /// Bytes that entries of overwritten keys may take in the index before all runs are merged.
    pub(crate) fn growth_bound_bytes(&self) -> u64 {
        self.bounds.growth_bound_bytes
    }

    /// Counts work from zero: a command begins.
    #[inline]
    pub(crate) fn begin_work(&mut self) {
        self.work = Work::default();
    }

    /// What the command at hand has done so far.
    #[inline]
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// Counts entries of the index that were looked up, flushed or merged.
    #[inline]
    pub(crate) fn count_entries(&mut self, entries: u32) {
        self.work.entries += entries;
    }

    /// Counts records that compaction looked at.
    #[inline]
    pub(crate) fn count_records(&mut self, records: u32) {
        self.work.records += records;
    }

    /// Counts a walk over all rows of the segment table.
    pub(crate) fn count_walk(&mut self) {
        self.work.rows += self.segments.count() as u32;
    }

    /// Drops the notes of dead records of the segment that holds a position: from there on a host writes what it likes.
    pub(crate) fn drop_notes_at(&mut self, stream: usize, position: u64) {
        let ordinal = position >> self.layout.segment_shift;
        if let Some(segment) = self.segments.find(stream as u8, ordinal) {
            self.segments.drop_notes_of(segment);
        }
    }

    /// Counts a page of the index that was written.
    #[inline]
    pub(crate) fn count_page_written(&mut self) {
        self.work.pages_written += 1;
    }
}
