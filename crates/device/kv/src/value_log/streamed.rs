//! Records longer than a ring: their pages go to flash as they come, and count for nothing until the commit.

use byway_flash::Cause;

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::record::{Preamble, Stand};
use crate::value_log::{Draft, Spot, ValueLog, put_preamble};

impl ValueLog {
    /// Appends a record that is longer than the ring: its whole pages go straight to flash, its ends into the ring.
    ///
    /// The page of the write pointer keeps its slot until the commit, so a crash before it loses nothing.
    #[cold]
    pub(super) fn append_streamed<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        let done = self.stream_pages(store, stream, draft, spot, fill, at_ps);
        let wp = match done {
            Ok(wp) => wp,
            Err(error) => {
                self.streams[stream].close_uncommitted(store, &self.home);
                return Err(error);
            }
        };
        self.count(draft);
        self.streams[stream].commit(store, &self.home, wp);
        let address = self.address(stream, spot.start).ok_or(KvError::DamagedState("the segment table"))?;
        // As in `append_at`: the record is committed whatever becomes of its page now.
        let _ = self.settle(store, stream, at_ps);
        Ok(address)
    }

    /// Writes everything of a long record; where the write pointer goes.
    fn stream_pages<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        mut fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        let shape = draft.shape();
        let value_at = spot.start + shape.preamble_bytes() as u64;
        let front_end = self.open_front(store, stream, draft, spot, value_at, at_ps)?;
        let mut value_crc = self.fill_ring(store, stream, (value_at, front_end), 0, &mut fill, at_ps)?;
        let tail_page = self.streams[stream].page_of(spot.end);
        for page in self.streams[stream].page_of(front_end)..tail_page {
            value_crc =
                self.fill_page(store, stream, page, self.layout.page_bytes, value_crc, &mut fill, at_ps)?;
        }
        let tail_at = self.streams[stream].page_start(tail_page);
        let tail_bytes = (spot.end - tail_at) as usize;
        let mut wp = spot.end;
        if tail_bytes > 0 && self.streams[stream].slot_is_open(tail_page) {
            value_crc = self.fill_page(store, stream, tail_page, tail_bytes, value_crc, &mut fill, at_ps)?;
            wp = self.streams[stream].page_start(tail_page + 1);
            self.counters.wasted_bytes += wp - spot.end;
        } else if tail_bytes > 0 {
            let s = &mut self.streams[stream];
            s.open_pages(store, &self.home, tail_at, spot.end);
            value_crc = self.fill_ring(store, stream, (tail_at, spot.end), value_crc, &mut fill, at_ps)?;
        }
        let ring = self.streams[stream].ring;
        let preamble = Preamble { shape, value_crc, seq: draft.seq, key: draft.key };
        let area = store.state(&self.home);
        put_preamble(area, &ring, spot.start, &preamble, Stand::new(stream as u8, spot.start));
        Ok(wp)
    }

    /// Opens the pages that hold the write pointer and the preamble of a long record; the end of the last of them.
    fn open_front<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        value_at: u64,
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        self.settle(store, stream, at_ps)?;
        self.take_segments(store, stream, draft, spot)?;
        let s = &mut self.streams[stream];
        let front_end = s.page_start(s.page_of(value_at - 1) + 1);
        s.open_pages(store, &self.home, s.wp(), front_end);
        s.ready_to = 0;
        if spot.start > s.wp() {
            self.zero(store, stream, spot.start);
        }
        Ok(front_end)
    }

    /// Fills a part of the ring with value bytes, going on with their checksum.
    fn fill_ring<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        (from, to): (u64, u64),
        crc: u32,
        fill: &mut impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u32, E> {
        let ring = self.streams[stream].ring;
        let area = store.state(&self.home);
        let (first, second) = ring.pieces(from, (to - from) as usize);
        let mut crc = crc;
        for piece in [first, second] {
            if !piece.is_empty() {
                fill(&mut area[piece.clone()], at_ps)?;
                crc = crc32c::crc32c_append(crc, &area[piece]);
            }
        }
        Ok(crc)
    }

    /// Fills a page with value bytes and writes it to flash.
    #[expect(clippy::too_many_arguments, reason = "one step of stream_pages, which has them all")]
    fn fill_page<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        page: u64,
        bytes: usize,
        crc: u32,
        fill: &mut impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u32, E> {
        fill(&mut self.scratch[..bytes], at_ps)?;
        self.scratch[bytes..].fill(0);
        let crc = crc32c::crc32c_append(crc, &self.scratch[..bytes]);
        let target = self.flash_page(stream, page)?;
        store.write_page(&self.home, target, &self.scratch, Cause::Host, at_ps).map_err(KvError::from)?;
        Ok(crc)
    }
}
