//! Records longer than a ring: their pages go to flash as they come, and count for nothing until the commit.
//!
//! The value is fed piece by piece, each up to the end of a page. A put feeds all pieces at once; compaction rests
//! between two, while other streams go on.

use byway_flash::FlashError;
use byway_sys::checksum;

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::record::{Preamble, Stand};
use crate::value_log::writing::put_preamble;
use crate::value_log::{Draft, Spot, ValueLog, cause_of};

/// A long record on its way into a stream, which takes no other until this one is committed or given up.
pub(crate) struct LongAppend {
    stream: usize,
    draft: Draft,
    spot: Spot,
    /// Where the next piece of the value goes.
    at: u64,
    /// The end of the pages that hold the write pointer and the preamble.
    front_end: u64,
    value_crc: u32,
    /// Where the write pointer goes.
    wp: u64,
}

impl LongAppend {
    /// Bytes of the next piece; 0 when the value is whole.
    pub(crate) fn wants(&self, page_bytes: usize) -> usize {
        let page_end = (self.at + 1).next_multiple_of(page_bytes as u64);
        (page_end.min(self.spot.end) - self.at) as usize
    }

    /// The record, as it will be appended.
    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Gives the record another sequence number.
    pub(crate) fn renumber(&mut self, seq: u64) {
        self.draft.seq = seq;
    }

    /// Checksum of the value so far.
    pub(crate) fn value_crc(&self) -> u32 {
        self.value_crc
    }
}

impl ValueLog {
    /// Appends a record that is longer than the ring: its whole pages go straight to flash, its ends into the ring.
    #[cold]
    pub(super) fn append_streamed<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        mut fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<u64, E> {
        let mut long = self.begin_long_at(store, stream, draft, spot, at_ps)?;
        let mut piece = vec![0; self.layout.page_bytes];
        loop {
            let bytes = &mut piece[..long.wants(self.layout.page_bytes)];
            if bytes.is_empty() {
                return Ok(self.commit_long(store, &long, at_ps)?);
            }
            let fed = fill(bytes, at_ps).and_then(|()| Ok(self.feed_long(store, &mut long, bytes, at_ps)?));
            if let Err(error) = fed {
                self.give_up_long(store, &long);
                return Err(error);
            }
        }
    }

    /// Whether a record is too long for the ring of a stream.
    pub(crate) fn is_long(&mut self, stream: usize, draft: &Draft) -> bool {
        let s = &self.streams[stream];
        !s.fits(s.wp() + draft.shape().record_bytes())
    }

    /// Begins a long record at the write pointer of a stream.
    pub(crate) fn begin_long<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        at_ps: &mut u64,
    ) -> Result<LongAppend, KvError> {
        let spot = self.place(store, stream, draft);
        self.begin_long_at(store, stream, draft, spot, at_ps)
    }

    /// Opens the pages that hold the write pointer and the preamble. The first keeps its slot until the commit, so a
    /// crash before it loses nothing.
    fn begin_long_at<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        spot: Spot,
        at_ps: &mut u64,
    ) -> Result<LongAppend, KvError> {
        self.settle(store, stream, at_ps)?;
        self.take_segments(store, stream, draft.kind, spot)?;
        let value_at = spot.start + draft.shape().preamble_bytes() as u64;
        let s = &self.streams[stream];
        let front_end = s.page_start(s.page_of(value_at - 1) + 1);
        self.order_slots(store, stream, s.wp(), front_end)?;
        let s = &mut self.streams[stream];
        s.open_pages(store, &self.home, s.wp(), front_end);
        s.unprepare();
        if spot.start > s.wp() {
            self.zero(store, stream, spot.start);
        }
        Ok(LongAppend { stream, draft: *draft, spot, at: value_at, front_end, value_crc: 0, wp: spot.end })
    }

    /// Writes the next piece of a long record's value, of as many bytes as it [wants](LongAppend::wants).
    pub(crate) fn feed_long<S: PageStore>(
        &mut self,
        store: &mut S,
        long: &mut LongAppend,
        bytes: &[u8],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let end = long.at + bytes.len() as u64;
        let s = &mut self.streams[long.stream];
        let page = s.page_of(long.at);
        if end <= long.front_end {
            self.feed_ring(store, long, bytes);
        } else if bytes.len() == self.layout.page_bytes {
            self.feed_page(store, long.stream, page, bytes, at_ps)?;
        } else if s.slot_is_open(page) {
            long.wp = s.page_start(page + 1);
            self.counters.wasted_bytes += long.wp - end;
            self.uncharged_bytes[long.stream] += long.wp - end;
            let mut padded = std::mem::take(&mut self.scratch);
            padded[..bytes.len()].copy_from_slice(bytes);
            padded[bytes.len()..].fill(0);
            let fed = self.feed_page(store, long.stream, page, &padded, at_ps);
            self.scratch = padded;
            fed?;
        } else {
            self.order_slots(store, long.stream, long.at, end)?;
            self.streams[long.stream].open_pages(store, &self.home, long.at, end);
            self.feed_ring(store, long, bytes);
        }
        long.value_crc = checksum::crc32c_append(long.value_crc, bytes);
        long.at = end;
        Ok(())
    }

    /// Commits a long record whose value is whole; its address.
    pub(crate) fn commit_long<S: PageStore>(
        &mut self,
        store: &mut S,
        long: &LongAppend,
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        let (draft, start) = (&long.draft, long.spot.start);
        let address = self.address(long.stream, start).ok_or(KvError::DamagedState("the segment table"))?;
        let preamble =
            Preamble { shape: draft.shape(), value_crc: long.value_crc, seq: draft.seq, key: draft.key };
        let s = &mut self.streams[long.stream];
        put_preamble(store.state(&self.home), &s.ring(), start, &preamble, Stand::new(s.id(), start));
        s.commit(store, &self.home, long.wp);
        self.count(long.stream, draft, start);
        // As in `append_at`: the record is committed whatever becomes of its page now.
        let _ = self.settle(store, long.stream, at_ps);
        Ok(address)
    }

    /// Gives up a long record: nothing refers to it.
    pub(crate) fn give_up_long<S: PageStore>(&mut self, store: &mut S, long: &LongAppend) {
        self.streams[long.stream].close_uncommitted(store, &self.home);
    }

    fn feed_ring<S: PageStore>(&self, store: &mut S, long: &LongAppend, bytes: &[u8]) {
        let (first, second) = self.streams[long.stream].ring().pieces(long.at, bytes.len());
        let (head, rest) = bytes.split_at(first.len());
        let area = store.state(&self.home);
        area[first].copy_from_slice(head);
        area[second].copy_from_slice(rest);
    }

    fn feed_page<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        page: u64,
        bytes: &[u8],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let target = self.flash_page(stream, page)?;
        let written: Result<(), FlashError> =
            store.write_page(&self.home, target, bytes, cause_of(stream), at_ps);
        self.work.pages_written += 1;
        Ok(written?)
    }
}
