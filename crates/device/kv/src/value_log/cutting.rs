//! Ending a stream where a loss of power took it.

use byway_flash::Cause;

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::ValueLog;

impl ValueLog {
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

    /// After a loss of power: has the ring keep pages whose programming did not reach the medium.
    pub(crate) fn distrust_programs<S: PageStore>(&mut self, store: &S, stream: usize) {
        let (segments, home, s) = (&self.segments, &self.home, &mut self.streams[stream]);
        let (id, pages) = (s.id(), self.layout.pages_per_segment());
        s.distrust_programs(|page| match segments.find(id, page / pages) {
            Some(segment) => store.holds_page(home, u64::from(segment) * pages + page % pages),
            // Its segment was freed: the page is not used.
            None => true,
        });
    }

    /// Invalidates a stream's cached segment.
    pub(crate) fn forget_place(&mut self, stream: usize) {
        self.streams[stream].invalidate_cached_segment();
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
    pub(super) fn trim_from<S: PageStore>(
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
    pub(super) fn fill_ring<S: PageStore>(&self, store: &mut S, stream: usize, position: u64, bytes: &[u8]) {
        let ring = &self.streams[stream].ring();
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
}
