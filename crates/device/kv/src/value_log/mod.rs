//! The value log: records appended to streams, read back by address.
//!
//! An address is a byte offset in the namespace's extent. A record is contiguous there, but one longer than its segment
//! continues in the stream's next segment.

mod access;
pub(crate) mod batch;
mod cutting;
pub(crate) mod dead;
pub(crate) mod following;
pub(crate) mod lease;
pub(crate) mod live;
pub(crate) mod packing;
mod peek;
mod placing;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod region;
mod repair;
mod ring;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod shared;
pub(crate) mod stream;
pub(crate) mod streamed;
mod usage;
mod window;
mod writing;

use byway_flash::{Cause, SyncPoint};

use crate::error::KvError;
use crate::features::Features;
use crate::layout::Layout;
use crate::store::{Home, PageStore};
use crate::work::Work;
pub(crate) use access::Bounds;
use byway_spec::Key;
use packing::{DMA_ALIGN_BYTES, Packing, PackingCounters, Placement};
use record::{Kind, PREAMBLE_MAX_BYTES, Shape};
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

/// Place chosen for a record, or a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// It leaves the write pointer behind, in the gap before it.
    ahead: bool,
}

/// The streams of a namespace and their segments.
pub(crate) struct ValueLog {
    layout: Layout,
    home: Home,
    packing: Packing,
    segments: Segments,
    streams: Vec<Stream>,
    counters: PackingCounters,
    bounds: Bounds,
    /// Of each stream, empty bytes that packing left in pages that are not programmed yet.
    uncharged_bytes: Vec<u64>,
    scratch: Vec<u8>,
    /// Bytes of a record that was read not long ago: as many are asked for of one whose length is not known yet.
    typical_bytes: u64,
    /// What the command at hand has done so far.
    work: Work,
    /// Of a log that another process appends to: whether it may hold leases.
    follows_leases: bool,
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

    /// Reads the segment table and the control blocks. Write pointers of streams that were leased are moved on past whole records.
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
        let has_leases = Features::of(state).has_leases();
        let mut log = Self {
            layout: *layout,
            home: home.clone(),
            packing,
            segments,
            streams,
            counters,
            bounds: Bounds::default(),
            uncharged_bytes,
            scratch,
            typical_bytes: 0,
            work: Work::default(),
            follows_leases: has_leases && store.is_following(),
        };
        if has_leases {
            log.roll_forward(store)?;
        }
        Ok(log)
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

    /// Where a record of the shared stream ends at the latest, whatever is left out before it.
    #[inline]
    pub(crate) fn shared_end(&self, value_len: u64, placement: Placement) -> u64 {
        let may_align = placement == Placement::Dma || value_len >= self.layout.page_bytes as u64;
        let left_out = if may_align { ALIGN_MOST_BYTES } else { 0 };
        self.streams[SHARED].tail() + PREAMBLE_MAX_BYTES as u64 + left_out + value_len
    }

    /// Whether position `end` of a stream is in its current segment.
    pub(crate) fn stays_in_segment(&self, stream: usize, end: u64) -> bool {
        let (s, shift) = (&self.streams[stream], self.layout.segment_shift);
        let ordinal = s.wp() >> shift;
        end >> shift == ordinal && self.segments.find(s.id(), ordinal).is_some()
    }

    /// Where replays begin if everything so far is in the index on flash.
    pub(crate) fn replay_positions(&self) -> Vec<ReplayFrom> {
        let from = |stream: &Stream| {
            let position = stream.wp();
            let is_begun = self.segments.find(stream.id(), position >> self.layout.segment_shift).is_some();
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
        // A long record that failed may have left pages here that nothing refers to.
        self.trim_from(store, stream, page + 1, position)?;
        self.take_passed(store, stream, position)?;
        self.streams[stream].commit(store, &self.home, position);
        self.streams[stream].unprepare();
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
        for page in self.streams[stream].full_pages() {
            self.program(store, stream, page, at_ps)?;
        }
        self.streams[stream].close_full_pages();
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
        let start = match self.streams[stream].segment_at(ordinal) {
            Some(start) => start,
            None => {
                let start = u64::from(self.segments.find(stream as u8, ordinal)?) << shift;
                self.streams[stream].remember_segment(ordinal, start);
                start
            }
        };
        debug_assert_eq!(
            self.segments.find(stream as u8, ordinal).map(|segment| u64::from(segment) << shift),
            Some(start),
            "a stream remembers a segment that is no longer its own"
        );
        Some(start | within)
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
        let simple = s.is_ready(spot.end) && spot.start == s.wp();
        if !simple && !s.fits(spot.end) {
            return self.append_streamed(store, stream, draft, spot, fill, at_ps);
        }
        if !simple {
            self.prepare(store, stream, draft.kind, spot, at_ps)?;
        }
        if let Err(error) = self.write(store, stream, draft, spot, fill, at_ps) {
            self.streams[stream].close_uncommitted(store, &self.home);
            return Err(error);
        }
        // What is committed is entered in the index in any case: compaction counts on that.
        let address = self.address(stream, spot.start).ok_or(KvError::DamagedState("the segment table"))?;
        self.count(stream, draft, spot.start);
        self.commit(store, stream, draft, spot);
        let s = &self.streams[stream];
        if !s.full_pages().is_empty() {
            // The record is committed. A page that cannot be programmed now stays open, and is tried again before
            // its slot is needed: that put fails.
            let _ = self.settle(store, stream, at_ps);
        }
        Ok(address)
    }

    #[inline(always)]
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
        kind: Kind,
        spot: Spot,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.settle(store, stream, at_ps)?;
        self.take_segments(store, stream, kind, spot)?;
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
        s.note_prepared(spot.end);
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

    fn take_segments<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        kind: Kind,
        spot: Spot,
    ) -> Result<(), KvError> {
        let shift = self.layout.segment_shift;
        let keep = match kind {
            Kind::Value if stream == MOVED => self.bounds.index_floor,
            Kind::Value => self.bounds.floor,
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

    /// Counts how the value of a record that begins at `start` got to its place.
    #[inline]
    fn count(&mut self, stream: usize, draft: &Draft, start: u64) {
        if stream == MOVED {
            return;
        }
        let value_at = start + draft.shape().preamble_bytes() as u64;
        let is_placed = draft.placement == Placement::Dma && self.packing != Packing::All;
        let placed = is_placed && value_at.is_multiple_of(DMA_ALIGN_BYTES);
        let counter = if placed { &mut self.counters.placed_bytes } else { &mut self.counters.copied_bytes };
        *counter += u64::from(draft.value_len);
    }
}

/// Why pages of a stream are written.
fn cause_of(stream: usize) -> Cause {
    if stream == MOVED { Cause::LogCompaction } else { Cause::Host }
}
