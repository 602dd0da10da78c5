//! The value log: records appended to streams, read back by address.
//!
//! An address is a byte of the namespace's extent. A record stands there whole; one that is longer than its segment
//! goes on in the stream's next segment.

pub(crate) mod dead;
mod glance;
mod mend;
pub(crate) mod packing;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod stream;
pub(crate) mod streamed;
mod window;

use std::ops::Range;

use byway_flash::{Cause, SyncPoint};
use byway_sys::cacheline::prefetch_to_write;
use byway_sys::checksum;

use crate::error::KvError;
use crate::layout::Layout;
use crate::store::{Home, PageStore};
use crate::work::Work;
use byway_spec::Key;
use packing::{Packing, PackingCounters, Placement, aligned_start};
use record::{Kind, PREAMBLE_MAX_BYTES, Preamble, RECORD_HEADER_BYTES, Shape, Stand};
use segment::{ReplayFrom, Segments, Use};
pub(crate) use stream::Stream;

/// The stream that everything goes to that has no window.
pub(crate) const SHARED: usize = 0;
/// The stream that compaction moves records to.
pub(crate) const MOVED: usize = 1;
/// Ordinals begin at 1: the byte before a stream's first has a position too.
const FIRST_ORDINAL: u64 = 1;

/// What an aligned value leaves out before it at most.
const ALIGN_MOST_BYTES: u64 = 4096;

/// A record to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) value_len: u32,
    pub(crate) placement: Placement,
}

impl Draft {
    fn shape(&self) -> Shape {
        Shape::new(self.kind, self.key.len(), self.value_len)
    }

    pub(crate) fn record_bytes(&self) -> u64 {
        self.shape().record_bytes()
    }
}

/// Where a record goes.
#[derive(Clone, Copy, Debug)]
struct Spot {
    start: u64,
    end: u64,
    /// It leaves the write pointer behind, in the gap before it.
    ahead: bool,
}

/// The streams of a namespace and the segments they stand in.
pub(crate) struct ValueLog {
    pub(crate) layout: Layout,
    pub(crate) home: Home,
    pub(crate) packing: Packing,
    pub(crate) segments: Segments,
    pub(crate) streams: Vec<Stream>,
    pub(crate) counters: PackingCounters,
    /// Free segments that values must leave to the index, to compaction and to deletions.
    pub(crate) floor: usize,
    /// Free segments that compaction must leave to the index.
    pub(crate) index_floor: usize,
    /// Bytes that entries of overwritten keys may take in the index before all runs are merged.
    pub(crate) swell_bytes: u64,
    /// Of each stream, empty bytes that packing left in pages that are not programmed yet.
    uncharged_bytes: Vec<u64>,
    scratch: Vec<u8>,
    /// Bytes of a record that was read not long ago: as many are asked for of one whose length is not known yet.
    typical_bytes: u64,
    /// What the command at hand has done so far.
    pub(crate) work: Work,
}

impl ValueLog {
    /// Writes the control blocks of a new namespace.
    pub(crate) fn create<S: PageStore>(store: &mut S, home: &Home, layout: &Layout) {
        // At the beginning of every ring, which may be longer than a segment.
        let ring_bytes = layout.ring_bytes.max(layout.window_bytes) as u64;
        let first = (FIRST_ORDINAL << layout.segment_shift).max(ring_bytes);
        for stream in 0..layout.streams() {
            Stream::create(store, home, layout, stream, first);
        }
    }

    /// Reads the segment table and the control blocks.
    pub(crate) fn open<S: PageStore>(
        store: &mut S,
        home: &Home,
        layout: &Layout,
        packing: Packing,
    ) -> Result<Self, KvError> {
        let state = store.state(home);
        let segments = Segments::load(layout, state)?;
        let streams = (0..layout.streams()).map(|stream| Stream::load(layout, state, stream));
        let streams: Vec<Stream> = streams.collect::<Result<_, _>>()?;
        let scratch = vec![0; layout.page_bytes];
        let uncharged_bytes = vec![0; streams.len()];
        let counters = PackingCounters::default();
        Ok(Self {
            layout: *layout,
            home: home.clone(),
            packing,
            segments,
            streams,
            counters,
            floor: 0,
            index_floor: 0,
            swell_bytes: u64::MAX,
            uncharged_bytes,
            scratch,
            typical_bytes: 0,
            work: Work::default(),
        })
    }

    /// Appends a record and commits it; its address.
    ///
    /// `fill` writes the value into its final place, piece by piece. When it fails nothing was appended.
    #[inline(always)]
    pub(crate) fn append<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        let spot = self.place(store, stream, draft);
        self.append_at(store, stream, draft, spot, fill, at_ps)
    }

    /// What each append writes comes over from another processor, beside the log itself.
    pub(crate) fn take_over(&self) {
        self.streams.get(SHARED).into_iter().for_each(prefetch_to_write);
    }

    /// Where a record of the shared stream ends at the latest, whatever is left out before it.
    #[inline]
    pub(crate) fn shared_end(&self, value_len: u64, placement: Placement) -> u64 {
        let may_align = placement == Placement::Dma || value_len >= self.layout.page_bytes as u64;
        let left_out = if may_align { ALIGN_MOST_BYTES } else { 0 };
        self.streams[SHARED].tail() + PREAMBLE_MAX_BYTES as u64 + left_out + value_len
    }

    /// Whether a stream gets as far as `end` within the segment that it stands in.
    pub(crate) fn stays_in_segment(&self, stream: usize, end: u64) -> bool {
        let (s, shift) = (&self.streams[stream], self.layout.segment_shift);
        let ordinal = s.wp() >> shift;
        end >> shift == ordinal && self.segments.find(s.id, ordinal).is_some()
    }

    /// Where replays begin if everything so far is in the index on flash.
    pub(crate) fn replay_positions(&self) -> Vec<ReplayFrom> {
        let from = |stream: &Stream| {
            let position = stream.wp();
            let is_begun = self.segments.find(stream.id, position >> self.layout.segment_shift).is_some();
            ReplayFrom { position, is_begun }
        };
        self.streams.iter().map(from).collect()
    }

    /// Moves a stream's write pointer past every region ahead of it, leaving the gaps empty.
    pub(crate) fn close_gaps<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        let tail = self.streams[stream].tail();
        if tail > self.streams[stream].wp() {
            self.zero(store, stream, tail);
            self.streams[stream].commit(store, &self.home, tail);
        }
    }

    /// Moves a stream on to the next multiple of `align_bytes`, past everything in it; what is left out reads as padding.
    pub(crate) fn skip_to_multiple<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        align_bytes: u64,
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        self.close_gaps(store, stream);
        let s = &mut self.streams[stream];
        let (wp, page) = (s.wp(), s.page_of(s.wp()));
        let position = wp.next_multiple_of(align_bytes);
        if position == wp {
            self.settle(store, stream, at_ps)?;
            return Ok(wp);
        }
        let page_end = s.page_start(page + 1);
        if s.is_tagged(page) {
            self.zero(store, stream, page_end);
        }
        // A long record that failed may have left pages here that nothing tells of.
        self.trim_from(store, stream, page + 1, position)?;
        self.take_passed(store, stream, position)?;
        self.streams[stream].commit(store, &self.home, position);
        self.streams[stream].ready_to = 0;
        self.settle(store, stream, at_ps)?;
        Ok(position)
    }

    /// Takes the segments up to a position that the stream is moved on to, so that none is missing when it is walked over.
    /// They hold nothing, and are free again once replays begin behind them.
    fn take_passed<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        position: u64,
    ) -> Result<(), KvError> {
        let shift = self.layout.segment_shift;
        for ordinal in self.streams[stream].wp() >> shift..position >> shift {
            if self.segments.find(stream as u8, ordinal).is_none() {
                let used = Use::Log { stream: stream as u8, ordinal };
                let segment = self.segments.take(store, &self.home, used, 0)?;
                self.segments.hint(store, &self.home, segment, 1 << shift);
            }
        }
        Ok(())
    }

    /// Writes every full page that is still open to flash.
    pub(crate) fn settle<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let full = {
            let s = &self.streams[stream];
            s.programmed_to..s.page_of(s.wp())
        };
        for page in full {
            self.program(store, stream, page, at_ps)?;
        }
        let s = &mut self.streams[stream];
        s.programmed_to = s.page_of(s.wp());
        Ok(())
    }

    /// As [`settle`](Self::settle), of every stream. A page that cannot be written stays open, and its segment taken,
    /// until it can.
    pub(crate) fn settle_all<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) {
        for stream in 0..self.streams.len() {
            let _ = self.settle(store, stream, at_ps);
        }
    }

    /// The address of a position whose segment is taken.
    #[inline]
    pub(crate) fn address(&mut self, stream: usize, position: u64) -> Option<u64> {
        let shift = self.layout.segment_shift;
        let ordinal = position >> shift;
        let within = position & (self.layout.segment_bytes() - 1);
        if self.streams[stream].segment.0 != ordinal {
            let segment = self.segments.find(stream as u8, ordinal)?;
            self.streams[stream].segment = (ordinal, u64::from(segment) << shift);
        }
        let start = self.streams[stream].segment.1;
        debug_assert_eq!(
            self.segments.find(stream as u8, ordinal).map(|segment| u64::from(segment) << shift),
            Some(start),
            "a stream remembers a segment that is no longer its own"
        );
        Some(start | within)
    }

    #[inline]
    fn place<S: PageStore>(&mut self, store: &mut S, stream: usize, draft: &Draft) -> Spot {
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
    fn keep_whole(&self, stream: usize, spot: Spot, aligned: u64) -> Spot {
        let shift = self.layout.segment_shift;
        let bytes = spot.end - spot.start;
        let most = self.layout.whole_bytes(self.streams[stream].ring.bytes());
        if spot.start >> shift == (spot.end - 1) >> shift || bytes > most {
            return spot;
        }
        let next = (spot.end - 1) >> shift << shift;
        let start = if aligned == 0 { next } else { aligned_start(next, aligned) };
        Spot { start, end: start + bytes, ahead: false }
    }

    /// Whether a value keeps a boundary. Compaction packs everything: it makes room, and a boundary serves the DMA by
    /// which a value comes.
    #[inline]
    fn is_aligned(&self, stream: usize, draft: &Draft) -> bool {
        let large = draft.value_len as usize >= self.layout.page_bytes;
        let packs = self.packing == Packing::All || stream == MOVED;
        !packs && draft.value_len > 0 && (large || draft.placement == Placement::Dma)
    }

    #[cold]
    fn place_in_gap<S: PageStore>(&mut self, store: &mut S, stream: usize, bytes: u64) -> Spot {
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

    fn place_aligned<S: PageStore>(&mut self, store: &mut S, stream: usize, shape: Shape) -> Spot {
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

    /// Whether the write pointer can stay behind while a record stands at a spot.
    fn may_stand_ahead(&self, stream: usize, spot: Spot) -> bool {
        let (s, shift) = (&self.streams[stream], self.layout.segment_shift);
        let same_segment = s.wp() >> shift == (spot.end - 1) >> shift;
        same_segment && s.fits(spot.end) && !s.table_is_full()
    }

    /// Moves the write pointer past the first region ahead of it, leaving the gap empty.
    fn pass_region<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        if let Some(region) = self.streams[stream].regions().front().copied() {
            self.zero(store, stream, region.start);
            self.streams[stream].commit(store, &self.home, region.end);
        }
    }

    #[inline(always)]
    fn append_at<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        let s = &self.streams[stream];
        let simple = spot.end <= s.ready_to && spot.start == s.wp();
        if !simple && !s.fits(spot.end) {
            return self.append_streamed(store, stream, draft, spot, fill, at_ps);
        }
        if !simple {
            self.prepare(store, stream, draft, spot, at_ps)?;
        }
        if let Err(error) = self.write(store, stream, draft, spot, fill, at_ps) {
            self.streams[stream].close_uncommitted(store, &self.home);
            return Err(error);
        }
        // What is committed is entered in the index in any case: compaction counts on that.
        let address = self.address(stream, spot.start).ok_or(KvError::DamagedState("the segment table"))?;
        self.count(stream, draft);
        self.commit(store, stream, draft, spot);
        let s = &self.streams[stream];
        if s.page_of(s.wp()) > s.programmed_to {
            // The record is committed. A page that cannot be programmed now stays open, and is tried again before
            // its slot is needed: that put fails.
            let _ = self.settle(store, stream, at_ps);
        }
        Ok(address)
    }

    #[inline]
    fn commit<S: PageStore>(&mut self, store: &mut S, stream: usize, draft: &Draft, spot: Spot) {
        let s = &mut self.streams[stream];
        if spot.ahead {
            s.commit_region(store, &self.home, spot.start, draft.key.len(), draft.value_len);
        } else {
            s.commit(store, &self.home, spot.end);
        }
    }

    /// Takes segments, opens pages and empties gaps, so that a record can be written at a spot.
    #[cold]
    fn prepare<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.settle(store, stream, at_ps)?;
        self.take_segments(store, stream, draft, spot)?;
        let wp = self.streams[stream].wp();
        self.order_slots(store, stream, wp, spot.end)?;
        if spot.ahead
            && let Some(passed) = self.streams[stream].row_passed_in()
        {
            store.order_since(SyncPoint::TableRow, passed)?;
        }
        let s = &mut self.streams[stream];
        s.clear_spent(store, &self.home);
        s.note_synced(store, &self.home);
        s.open_pages(store, &self.home, s.wp(), spot.end);
        s.ready_to = s.page_start(s.page_of(spot.end - 1) + 1);
        if !spot.ahead && spot.start > s.wp() {
            self.zero(store, stream, spot.start);
        }
        Ok(())
    }

    /// Sees to it that what the slots held that `from..end` needs is on the medium elsewhere.
    fn order_slots<S: PageStore>(
        &self,
        store: &mut S,
        stream: usize,
        from: u64,
        end: u64,
    ) -> Result<(), KvError> {
        if let Some(given_up) = self.streams[stream].given_up(from, end) {
            store.order_since(SyncPoint::RingSlot, given_up)?;
        }
        Ok(())
    }

    /// Ends a stream where the power took it. Pages from there on are in the ring, or nowhere.
    pub(crate) fn cut_back<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        end: u64,
    ) -> Result<(), KvError> {
        let s = &self.streams[stream];
        let (page, within) = (s.page_of(end), (end - s.page_start(s.page_of(end))) as usize);
        let mut kept = vec![0; self.layout.page_bytes];
        let is_read = within > 0
            && self.read_stream_page(store, stream, page, &mut kept, Cause::Metadata, &mut 0).is_ok();
        self.streams[stream].cut_back(store, &self.home, end)?;
        self.forget_place(stream);
        if is_read {
            self.fill_ring(store, stream, end - within as u64, &kept[..within]);
        }
        if store.is_read_only() {
            return Ok(());
        }
        let segment_bytes = self.layout.segment_bytes();
        self.trim_from(store, stream, page, (end / segment_bytes + 1) * segment_bytes)
    }

    /// Has a stream ask the table again which segment it stands in.
    pub(crate) fn forget_place(&mut self, stream: usize) {
        self.streams[stream].segment = (u64::MAX, 0);
    }

    /// Empties the ring behind the end of a stream: what stood there is nowhere any more, so that no later loss of power
    /// can bring it back.
    pub(crate) fn clear_behind<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        self.streams[stream].close_uncommitted(store, &self.home);
        for (from, to) in self.streams[stream].unused() {
            self.fill_ring(store, stream, from, &vec![0; (to - from) as usize]);
        }
    }

    /// A position, or where its segment begins if that was not taken.
    pub(crate) fn taken_before(&mut self, stream: usize, position: u64) -> u64 {
        let shift = self.layout.segment_shift;
        if self.address(stream, position).is_some() { position } else { position >> shift << shift }
    }

    /// Forgets pages of a stream from `page` on to a position, as far as the segments of `page` and of the page before it go.
    fn trim_from<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        page: u64,
        to: u64,
    ) -> Result<(), KvError> {
        let in_segment = self.layout.pages_per_segment();
        let last = self.streams[stream].page_of(to);
        let mut from = page;
        while from < last {
            let end = (from / in_segment + 1) * in_segment;
            let position = self.streams[stream].page_start(from);
            if let Some(address) = self.address(stream, position) {
                let first = address / self.layout.page_bytes as u64;
                store.trim_pages(&self.home, first, end.min(last) - from)?;
                self.work.pages_trimmed += (end.min(last) - from) as u32;
            }
            from = end;
        }
        Ok(())
    }

    /// Puts bytes of a stream into its ring.
    fn fill_ring<S: PageStore>(&self, store: &mut S, stream: usize, position: u64, bytes: &[u8]) {
        let ring = &self.streams[stream].ring;
        let (first, second) = ring.pieces(position, bytes.len());
        let (head, rest) = bytes.split_at(first.len());
        for (piece, bytes) in [(first, head), (second, rest)] {
            if ring.in_window {
                store.write_window(&self.home, piece.start, bytes);
            } else {
                store.state(&self.home)[piece].copy_from_slice(bytes);
            }
        }
    }

    fn take_segments<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
    ) -> Result<(), KvError> {
        let shift = self.layout.segment_shift;
        let keep = match draft.kind {
            Kind::Value if stream == MOVED => self.index_floor,
            Kind::Value => self.floor,
            _ => 0,
        };
        let wp = self.streams[stream].wp();
        for ordinal in wp >> shift..=(spot.end - 1) >> shift {
            let segment = match self.segments.find(stream as u8, ordinal) {
                Some(segment) => segment,
                None => {
                    let used = Use::Log { stream: stream as u8, ordinal };
                    self.segments.take(store, &self.home, used, keep)?
                }
            };
            let base = ordinal << shift;
            if base >= wp {
                let first = if spot.start >= base { spot.start - base } else { spot.end - base };
                self.segments.hint(store, &self.home, segment, first.min(1 << shift) as u32);
            }
            if ordinal == spot.start >> shift && ordinal != (spot.end - 1) >> shift {
                self.segments.hint_spanning(store, &self.home, segment, (spot.start - base) as u32);
            }
        }
        Ok(())
    }

    /// Writes a record into the ring. Nothing tells of it yet.
    #[inline]
    fn write<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        mut fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let shape = draft.shape();
        let ring = self.streams[stream].ring;
        let area = store.state(&self.home);
        let (first, second) =
            ring.pieces(spot.start + shape.preamble_bytes() as u64, draft.value_len as usize);
        let mut value_crc = 0;
        for piece in [first, second] {
            if !piece.is_empty() {
                fill(&mut area[piece.clone()], at_ps)?;
                value_crc = checksum::crc32c_append(value_crc, &area[piece]);
            }
        }
        let stand = Stand::new(stream as u8, spot.start);
        let preamble = Preamble { shape, value_crc, seq: draft.seq, key: draft.key };
        put_preamble(area, &ring, spot.start, &preamble, stand);
        Ok(())
    }

    /// Writes an open page to flash.
    fn program<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        page: u64,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if !self.streams[stream].is_tagged(page) {
            return Ok(());
        }
        let target = self.flash_page(stream, page)?;
        let cause = cause_of(stream);
        let s = &mut self.streams[stream];
        let (held, _) = s.ring.pieces(s.page_start(page), self.layout.page_bytes);
        if s.ring.in_window {
            store.read_window(&self.home, held.start, &mut self.scratch);
            store.write_page(&self.home, target, &self.scratch, cause, at_ps)?;
        } else {
            store.write_page_from_state(&self.home, target, held.start, cause, at_ps)?;
        }
        self.work.pages_written += 1;
        let s = &mut self.streams[stream];
        s.page_is_on_flash(store, &self.home, page);
        self.charge_packing(store, stream);
        Ok(())
    }

    /// The page of the extent that holds a page of a stream.
    fn flash_page(&mut self, stream: usize, page: u64) -> Result<u64, KvError> {
        let position = self.streams[stream].page_start(page);
        let address = self.address(stream, position).ok_or(KvError::DamagedState("the segment table"))?;
        Ok(address / self.layout.page_bytes as u64)
    }

    /// Empties the gaps between the write pointer and `to`.
    fn zero<S: PageStore>(&mut self, store: &mut S, stream: usize, to: u64) {
        let s = &self.streams[stream];
        for (from, to) in s.gaps(s.wp(), to) {
            let (first, second) = s.ring.pieces(from, (to - from) as usize);
            for piece in [first, second] {
                self.zero_piece(store, s.ring.in_window, piece);
            }
            self.counters.wasted_bytes += to - from;
            self.uncharged_bytes[stream] += to - from;
        }
    }

    /// Charges empty room to packing, once pages are programmed that have it: no more than a page's at a time.
    fn charge_packing<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        let bytes = self.uncharged_bytes[stream].min(self.layout.page_bytes as u64);
        if bytes > 0 {
            self.uncharged_bytes[stream] -= bytes;
            store.charge_packing(cause_of(stream), bytes);
        }
    }

    fn zero_piece<S: PageStore>(&self, store: &mut S, in_window: bool, piece: Range<usize>) {
        if !in_window {
            store.state(&self.home)[piece].fill(0);
            return;
        }
        let zeroes = [0; 4096];
        for at in piece.clone().step_by(zeroes.len()) {
            let len = zeroes.len().min(piece.end - at);
            store.write_window(&self.home, at, &zeroes[..len]);
        }
    }

    #[inline]
    fn count(&mut self, stream: usize, draft: &Draft) {
        if stream == MOVED {
            return;
        }
        let placed = draft.placement == Placement::Dma && self.packing != Packing::All;
        let counter = if placed { &mut self.counters.placed_bytes } else { &mut self.counters.copied_bytes };
        *counter += u64::from(draft.value_len);
    }
}

/// Why pages of a stream are written.
fn cause_of(stream: usize) -> Cause {
    if stream == MOVED { Cause::LogCompaction } else { Cause::Host }
}

#[inline]
fn put_preamble(area: &mut [u8], ring: &stream::Ring, start: u64, preamble: &Preamble, stand: Stand) {
    let bytes = preamble.encode(stand);
    let (first, second) = ring.pieces(start, preamble.shape.preamble_bytes());
    let (header, key) = bytes.split_at(RECORD_HEADER_BYTES);
    if second.is_empty()
        && let Some((header_at, key_at)) = area[first.clone()].split_at_mut_checked(RECORD_HEADER_BYTES)
    {
        // The usual case, with one copy of a size known here.
        header_at.copy_from_slice(header);
        key_at.copy_from_slice(&key[..key_at.len()]);
        return;
    }
    let (head, rest) = bytes.split_at(first.len());
    area[first].copy_from_slice(head);
    let len = second.len();
    area[second].copy_from_slice(&rest[..len]);
}
