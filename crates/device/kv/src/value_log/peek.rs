//! Looking at records where they lie, on behalf of compaction: without a copy of their pages, most of which is dead.
//!
//! What is looked at is not verified by the flash. So it counts only as far as the checksums of a record bear it out.

use byway_flash::Cause;
use byway_sys::checksum;

use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::{PREAMBLE_MAX_BYTES, Preamble, Stand};

impl ValueLog {
    /// The header of the record at a position of a stream, if it is on flash, can be looked at and is whole.
    #[inline]
    pub(super) fn peek_preamble<S: PageStore>(
        &self,
        store: &S,
        stream: usize,
        position: u64,
    ) -> Option<Preamble> {
        let page_bytes = self.layout.page_bytes as u64;
        let stand = Stand::new(stream as u8, position);
        let in_page = (page_bytes - position % page_bytes).min(PREAMBLE_MAX_BYTES as u64) as usize;
        let head = self.peek_at(store, stream, position, in_page)?;
        if let Some(preamble) = Preamble::decode(head, stand) {
            return Some(preamble);
        }
        if in_page == PREAMBLE_MAX_BYTES {
            return None;
        }
        let mut bytes = [0; PREAMBLE_MAX_BYTES];
        bytes[..in_page].copy_from_slice(head);
        let rest = PREAMBLE_MAX_BYTES - in_page;
        bytes[in_page..].copy_from_slice(self.peek_at(store, stream, position + in_page as u64, rest)?);
        Preamble::decode(&bytes, stand)
    }

    /// Copies the value of a record at an address into `into`, if it lies in one page, can be looked at and is whole.
    pub(crate) fn peek_value<S: PageStore>(
        &self,
        store: &S,
        address: u64,
        preamble: &Preamble,
        into: &mut Vec<u8>,
    ) -> bool {
        let (shape, page_bytes) = (preamble.shape, self.layout.page_bytes as u64);
        if address % page_bytes + shape.record_bytes() > page_bytes {
            return false;
        }
        let (at, len) = (address + shape.preamble_bytes() as u64, shape.value_len() as usize);
        let Some(value) = store.peek(&self.home, at, len) else { return false };
        into.clear();
        into.extend_from_slice(value);
        // The copy: what it was made of may change.
        checksum::crc32c(into) == preamble.value_crc
    }

    /// Prefetches the header of a record at a position of a stream.
    #[inline]
    pub(super) fn prefetch_header<S: PageStore>(&self, store: &S, stream: usize, position: u64) {
        if let Some(address) = self.taken_address(stream, position) {
            store.prefetch(&self.home, address, PREAMBLE_MAX_BYTES);
        }
    }

    /// Prefetches a record of `len_bytes` at a position of a stream, unless the dead notes have it: a live one will be copied.
    #[inline]
    pub(super) fn prefetch_if_alive<S: PageStore>(
        &self,
        store: &S,
        stream: usize,
        position: u64,
        len_bytes: u64,
    ) {
        if let Some(address) = self.taken_address(stream, position)
            && self.segments.knows_dead(address)
            && !self.segments.is_noted_dead(address)
        {
            self.prefetch(store, address, len_bytes);
        }
    }

    /// Counts a page of a stream that is looked at as read; `None` where it cannot be lent.
    pub(super) fn lend_stream_page<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        page: u64,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Option<()> {
        let address = self.taken_address(stream, page * self.layout.page_bytes as u64)?;
        self.work.pages_read += 1;
        store.lend(&self.home, address, &mut self.scratch, cause, at_ps).ok().map(drop)
    }

    /// Bytes of one page of a stream where they lie on flash.
    #[inline]
    fn peek_at<'a, S: PageStore>(
        &self,
        store: &'a S,
        stream: usize,
        position: u64,
        len: usize,
    ) -> Option<&'a [u8]> {
        store.peek(&self.home, self.taken_address(stream, position)?, len)
    }

    /// The address of a position whose segment is taken, asked for out of the order in which they are written.
    #[inline]
    fn taken_address(&self, stream: usize, position: u64) -> Option<u64> {
        let segment = self.segments.find(stream as u8, position >> self.layout.segment_shift)?;
        let within = position & (self.layout.segment_bytes() - 1);
        Some(u64::from(segment) << self.layout.segment_shift | within)
    }
}
