//! Putting a record's bytes into the ring, and full pages onto flash.

use std::ops::Range;

use byway_sys::checksum;

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::record::{Preamble, RECORD_HEADER_BYTES, Stand};
use crate::value_log::ring::Ring;
use crate::value_log::{Draft, Spot, ValueLog, cause_of};

impl ValueLog {
    /// Writes a record into the ring. Nothing refers to it yet.
    #[inline(always)]
    pub(super) fn write<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        mut fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let shape = draft.shape();
        let ring = self.streams[stream].ring();
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
    pub(super) fn program<S: PageStore>(
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
        let (held, _) = s.ring().pieces(s.page_start(page), self.layout.page_bytes);
        if s.ring().in_window {
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
    pub(super) fn flash_page(&mut self, stream: usize, page: u64) -> Result<u64, KvError> {
        let position = self.streams[stream].page_start(page);
        let address = self.address(stream, position).ok_or(KvError::DamagedState("the segment table"))?;
        Ok(address / self.layout.page_bytes as u64)
    }

    /// Empties the gaps between the write pointer and `to`.
    pub(super) fn zero<S: PageStore>(&mut self, store: &mut S, stream: usize, to: u64) {
        let s = &self.streams[stream];
        for (from, to) in s.gaps(s.wp(), to) {
            let (first, second) = s.ring().pieces(from, (to - from) as usize);
            for piece in [first, second] {
                self.zero_piece(store, s.ring().in_window, piece);
            }
            self.counters.wasted_bytes += to - from;
            self.uncharged_bytes[stream] += to - from;
        }
    }

    /// Charges empty room to packing, once pages are programmed that have it: no more than a page's at a time.
    pub(super) fn charge_packing<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        let bytes = self.uncharged_bytes[stream].min(self.layout.page_bytes as u64);
        if bytes > 0 {
            self.uncharged_bytes[stream] -= bytes;
            store.charge_packing(cause_of(stream), bytes);
        }
    }

    pub(super) fn zero_piece<S: PageStore>(&self, store: &mut S, in_window: bool, piece: Range<usize>) {
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
}

#[inline(always)]
pub(super) fn put_preamble(area: &mut [u8], ring: &Ring, start: u64, preamble: &Preamble, stand: Stand) {
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
