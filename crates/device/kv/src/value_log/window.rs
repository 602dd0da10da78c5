//! Windows: streams whose ring is device memory. A host stores values there itself, or the device moves them in.
//!
//! Window memory may change under the device at any time, so it is only ever copied: no reference into it is held, and what was checked
//! is what was copied.

use byway_sys::checksum;

use crate::engine::window::Stored;
use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::packing::aligned_start;
use crate::value_log::record::{Preamble, Stand};
use crate::value_log::{Draft, Spot, ValueLog};

impl ValueLog {
    /// Commits a record whose value a host stored at `start`, behind the room for its header; all but what stands elsewhere,
    /// which is stored now.
    pub(crate) fn append_in_place<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        start: u64,
        brought: Stored<'_>,
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        let spot = Spot { start, end: start + draft.shape().record_bytes(), ahead: false };
        let home = self.home.clone();
        let mut head = &brought.head[..brought.head.len().min(draft.value_len as usize)];
        let bring = |(store, at): (&mut S, usize), piece: &mut [u8], _: &mut u64| {
            if let Some(copy) = brought.copy {
                copy.read(at, piece);
                store.write_window(&home, at, piece);
            }
            let (now, later) = head.split_at(head.len().min(piece.len()));
            store.write_window(&home, at, now);
            head = later;
            Ok::<(), KvError>(())
        };
        let address = self.append_to_window(store, stream, draft, spot, bring, at_ps)?;
        self.counters.placed_bytes += u64::from(draft.value_len);
        Ok(address)
    }

    /// Where a value moved into a window by DMA would stand, behind everything in it: the record's start. `None` where it does not fit.
    pub(crate) fn dma_start(&self, stream: usize, draft: &Draft) -> Option<u64> {
        let (s, shape) = (&self.streams[stream], draft.shape());
        let start = aligned_start(s.tail(), shape.preamble_bytes() as u64);
        let spot = Spot { start, end: start + shape.record_bytes(), ahead: true };
        (draft.value_len > 0 && self.may_stand_ahead(stream, spot)).then_some(start)
    }

    /// Moves a value into a window at [`Self::dma_start`] and commits it.
    pub(crate) fn append_by_dma<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        start: u64,
        mut fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        let ahead = start > self.streams[stream].wp();
        let spot = Spot { start, end: start + draft.shape().record_bytes(), ahead };
        let home = self.home.clone();
        let moved = |(store, at): (&mut S, usize), piece: &mut [u8], at_ps: &mut u64| {
            fill(piece, at_ps)?;
            store.write_window(&home, at, piece);
            Ok::<(), E>(())
        };
        let address = self.append_to_window(store, stream, draft, spot, moved, at_ps)?;
        self.counters.placed_bytes += u64::from(draft.value_len);
        Ok(address)
    }

    /// `bring` is called for each piece of the value, and brings it where it is not there yet.
    pub(super) fn append_to_window<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        bring: impl FnMut((&mut S, usize), &mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        if !self.streams[stream].fits(spot.end) {
            return Err(KvError::WindowBehind.into());
        }
        self.prepare(store, stream, draft.kind, spot, at_ps)?;
        if let Err(error) = self.write_to_window(store, stream, draft, spot, bring, at_ps) {
            self.streams[stream].close_uncommitted(store, &self.home);
            return Err(error);
        }
        self.commit(store, stream, draft, spot);
        Ok(self.address(stream, spot.start).ok_or(KvError::DamagedState("the segment table"))?)
    }

    fn write_to_window<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        mut bring: impl FnMut((&mut S, usize), &mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let (shape, ring) = (draft.shape(), self.streams[stream].ring());
        let (first, second) =
            ring.pieces(spot.start + shape.preamble_bytes() as u64, draft.value_len as usize);
        let mut value_crc = 0;
        for piece in [first, second] {
            for at in piece.clone().step_by(self.layout.page_bytes) {
                let copy = &mut self.scratch[..self.layout.page_bytes.min(piece.end - at)];
                bring((&mut *store, at), copy, at_ps)?;
                store.read_window(&self.home, at, copy);
                value_crc = checksum::crc32c_append(value_crc, copy);
            }
        }
        let preamble = Preamble { shape, value_crc, seq: draft.seq, key: draft.key };
        let bytes = preamble.encode(Stand::new(stream as u8, spot.start));
        let (first, second) = ring.pieces(spot.start, shape.preamble_bytes());
        let (head, rest) = bytes.split_at(first.len());
        store.write_window(&self.home, first.start, head);
        store.write_window(&self.home, second.start, &rest[..second.len()]);
        Ok(())
    }
}
