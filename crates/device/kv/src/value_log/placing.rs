//! Placement of a stream's next record: at the write pointer, in a gap, or aligned.

use crate::store::PageStore;
use crate::value_log::packing::{Packing, Placement, aligned_start};
use crate::value_log::record::Shape;
use crate::value_log::{Draft, MOVED, Spot, ValueLog};

impl ValueLog {
    #[inline(always)]
    pub(super) fn place<S: PageStore>(&mut self, store: &mut S, stream: usize, draft: &Draft) -> Spot {
        let (shape, s) = (draft.shape(), &self.streams[stream]);
        if self.is_aligned(stream, draft) {
            return self.place_aligned(store, stream, shape);
        }
        let bytes = shape.record_bytes();
        if s.has_regions() {
            let spot = self.place_in_gap(store, stream, bytes);
            return self.keep_whole(stream, spot, 0);
        }
        self.keep_whole(stream, Spot { start: s.wp(), end: s.wp() + bytes, ahead: false }, 0)
    }

    /// Moves a short record that would span segments to the next one: so segments of short records are freed one by one.
    /// Its value keeps a boundary where it has `aligned` bytes before it.
    #[inline]
    pub(super) fn keep_whole(&self, stream: usize, spot: Spot, aligned: u64) -> Spot {
        let shift = self.layout.segment_shift;
        let bytes = spot.end - spot.start;
        let most = self.layout.whole_bytes(self.streams[stream].ring().bytes());
        if spot.start >> shift == (spot.end - 1) >> shift || bytes > most {
            return spot;
        }
        let next = (spot.end - 1) >> shift << shift;
        let start = if aligned == 0 { next } else { aligned_start(next, aligned) };
        Spot { start, end: start + bytes, ahead: false }
    }

    /// Whether a value keeps a boundary. Compaction packs everything: it makes room, and a boundary serves the DMA by
    /// which a value comes. Where room is short, all is packed: compaction would have to close each gap.
    #[inline]
    pub(super) fn is_aligned(&self, stream: usize, draft: &Draft) -> bool {
        let large = draft.value_len as usize >= self.layout.page_bytes;
        let packs = self.packing == Packing::All || stream == MOVED;
        let may_align = !packs && draft.value_len > 0 && (large || draft.placement == Placement::Dma);
        may_align && self.segments.free_count() > self.bounds.packed_at
    }

    #[cold]
    pub(super) fn place_in_gap<S: PageStore>(&mut self, store: &mut S, stream: usize, bytes: u64) -> Spot {
        let start = self.streams[stream].packed_start(bytes);
        if self.streams[stream].fits(start + bytes) {
            if start == self.streams[stream].wp() {
                self.counters.backfilled_bytes += bytes;
            }
            return Spot { start, end: start + bytes, ahead: false };
        }
        self.pass_region(store, stream);
        let start = self.streams[stream].packed_start(bytes);
        match self.streams[stream].has_regions() {
            true => self.place_in_gap(store, stream, bytes),
            false => Spot { start, end: start + bytes, ahead: false },
        }
    }

    pub(super) fn place_aligned<S: PageStore>(&mut self, store: &mut S, stream: usize, shape: Shape) -> Spot {
        let preamble_bytes = shape.preamble_bytes() as u64;
        loop {
            let s = &self.streams[stream];
            let start = aligned_start(s.tail(), preamble_bytes);
            let spot = Spot { start, end: start + shape.record_bytes(), ahead: start > s.wp() };
            if self.packing == Packing::SelectiveBackfill && self.may_stand_ahead(stream, spot) {
                return spot;
            }
            if !s.has_regions() {
                return self.keep_whole(stream, Spot { ahead: false, ..spot }, preamble_bytes);
            }
            self.pass_region(store, stream);
        }
    }

    /// Whether the write pointer can stay behind a record at a spot.
    pub(super) fn may_stand_ahead(&self, stream: usize, spot: Spot) -> bool {
        let (s, shift) = (&self.streams[stream], self.layout.segment_shift);
        let same_segment = s.wp() >> shift == (spot.end - 1) >> shift;
        same_segment && s.fits(spot.end) && !s.table_is_full()
    }

    /// Moves the write pointer past the first region ahead of it, leaving the gap empty.
    pub(super) fn pass_region<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        if let Some(region) = self.streams[stream].regions().front().copied() {
            self.zero(store, stream, region.start);
            self.streams[stream].commit(store, &self.home, region.end);
        }
    }
}
