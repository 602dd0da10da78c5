//! Leases: the next stretch of a window's stream, to which one thread appends by itself.
//!
//! The log prepares the stretch: its segment is taken, its pages are tagged, what the ring held there is on the medium. A record is
//! committed by being there: its position, length and checksums make it the next record of the stream. The write pointer follows when
//! the log [passes](ValueLog::pass_leased) the lease's records, and at an opening after a kill ([`ValueLog::roll_forward`]).

use byway_spec::Key;
use byway_sys::checksum;

use crate::error::KvError;
use crate::index::entry::Entry;
use crate::layout::FIRST_WINDOW;
use crate::sealed;
use crate::store::PageStore;
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES, Preamble, Shape, Stand};
use crate::value_log::ring::Ring;
use crate::value_log::{Draft, Spot, Stream, ValueLog};

/// Pages that a lease reaches into: the write pointer's and the next.
const LEASE_PAGES: u64 = 2;

/// A stretch of a stream.
pub(crate) struct Lease {
    stream: u8,
    ring: Ring,
    /// Position of the next record.
    at: u64,
    /// No record goes on beyond this.
    end: u64,
    /// Added to a position, modulo 2⁶⁴, it gives the address.
    to_address: u64,
}

impl Lease {
    /// Whether a record of so many bytes fits.
    #[inline]
    pub(crate) fn has_room(&self, record_bytes: u64) -> bool {
        self.at + record_bytes <= self.end
    }

    /// Takes no more records.
    pub(crate) fn close(&mut self) {
        self.end = self.at;
    }

    /// Appends a record that [has room](Self::has_room): `write` writes bytes of the windows' memory. Its entry.
    #[inline]
    pub(crate) fn append(
        &mut self,
        (key, value): (&Key, &[u8]),
        seq: u64,
        mut write: impl FnMut(usize, &[u8]),
    ) -> Entry {
        let shape = Shape::new(Kind::Value, key.len(), value.len() as u32);
        let preamble = Preamble { shape, value_crc: checksum::crc32c(value), seq, key: *key };
        let header = preamble.encode(Stand::new(self.stream, self.at));
        self.put(self.at + shape.preamble_bytes() as u64, value, &mut write);
        // The header comes last: without it a kill leaves no record here.
        self.put(self.at, &header[..shape.preamble_bytes()], &mut write);
        let entry = Entry::new(key, shape, self.at.wrapping_add(self.to_address), seq);
        self.at += shape.record_bytes();
        entry
    }

    #[inline]
    fn put(&self, position: u64, bytes: &[u8], write: &mut impl FnMut(usize, &[u8])) {
        let (first, second) = self.ring.pieces(position, bytes.len());
        let (head, rest) = bytes.split_at(first.len());
        write(first.start, head);
        if !rest.is_empty() {
            write(second.start, rest);
        }
    }
}

impl ValueLog {
    /// Bytes that a lease has at most.
    pub(crate) fn lease_bytes(&self) -> u64 {
        LEASE_PAGES * self.layout.page_bytes as u64
    }

    /// A lease of a window's stream that takes no record.
    pub(crate) fn no_lease(&mut self, stream: usize) -> Lease {
        self.segments.set_leased(stream, true);
        let s = &self.streams[stream];
        Lease { stream: s.id(), ring: s.ring(), at: s.wp(), end: s.wp(), to_address: 0 }
    }

    /// Leases the next stretch of a window's stream.
    ///
    /// # Errors
    /// [`KvError::Full`] where there is no segment for it, errors of the flash.
    pub(crate) fn lease<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        at_ps: &mut u64,
    ) -> Result<Lease, KvError> {
        self.close_gaps(store, stream);
        let (s, shift) = (&self.streams[stream], self.layout.segment_shift);
        let at = s.wp();
        let end = s.page_start(s.page_of(at) + LEASE_PAGES).min(((at >> shift) + 1) << shift);
        self.prepare(store, stream, Kind::Value, Spot { start: at, end, ahead: false }, at_ps)?;
        let address = self.address(stream, at).ok_or(KvError::DamagedState("the segment table"))?;
        let ring = self.streams[stream].ring();
        Ok(Lease { stream: stream as u8, ring, at, end, to_address: address.wrapping_sub(at) })
    }

    /// Moves the write pointer past the records of a lease, whose values have so many bytes.
    pub(crate) fn pass_leased<S: PageStore>(&mut self, store: &mut S, lease: &Lease, value_bytes: u64) {
        self.streams[usize::from(lease.stream)].commit(store, &self.home, lease.at);
        self.counters.copied_bytes += value_bytes;
    }

    /// Gives up what is left of a stream's lease, whose records were [passed](Self::pass_leased).
    pub(crate) fn end_lease<S: PageStore>(&mut self, store: &mut S, stream: usize) {
        self.segments.set_leased(stream, false);
        self.streams[stream].close_uncommitted(store, &self.home);
    }

    /// Appends a record to a window's stream that no host stores into, behind the records of its lease. Its address.
    pub(crate) fn append_behind_lease<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        draft: &Draft,
        value: &[u8],
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        self.close_gaps(store, stream);
        let start = self.streams[stream].wp();
        let spot = Spot { start, end: start + draft.record_bytes(), ahead: false };
        let spot = self.keep_whole(stream, spot, 0);
        let mut rest = value;
        let home = self.home.clone();
        let bring = |(store, at): (&mut S, usize), piece: &mut [u8], _: &mut u64| {
            let (head, tail) = rest.split_at(piece.len());
            store.write_window(&home, at, head);
            rest = tail;
            Ok::<(), KvError>(())
        };
        let address = self.append_to_window(store, stream, draft, spot, bring, at_ps)?;
        self.counters.copied_bytes += u64::from(draft.value_len);
        // A page that cannot be programmed now is tried again before its slot is needed.
        let _ = self.settle(store, stream, at_ps);
        Ok(address)
    }

    /// Moves write pointers on past whole records behind them: those of leases that a kill ended.
    pub(crate) fn roll_forward<S: PageStore>(&mut self, store: &mut S) -> Result<(), KvError> {
        for stream in FIRST_WINDOW..self.streams.len() {
            let (wp, block_at) = (self.streams[stream].wp(), self.streams[stream].block_at());
            let end = self.whole_to(store, stream, wp);
            if end > wp && !store.is_following() {
                store.commit_u64(&self.home, block_at, sealed::seal(end, block_at));
            }
            if end > wp {
                self.streams[stream] = Stream::load_at(&self.layout, store.state(&self.home), stream, end)?;
            }
        }
        Ok(())
    }

    /// Whether a stream that another process appends to by a lease has a record behind what was read.
    #[inline]
    pub(super) fn has_unread_lease<S: PageStore>(&self, store: &S, stream: usize) -> bool {
        self.follows_leases && stream >= FIRST_WINDOW && self.has_header_behind(store, stream)
    }

    #[inline(never)]
    fn has_header_behind<S: PageStore>(&self, store: &S, stream: usize) -> bool {
        let (s, mut header) = (&self.streams[stream], [0; PREAMBLE_MAX_BYTES]);
        let (first, second) = s.ring().pieces(s.wp(), header.len());
        for part in [first, second] {
            store.refresh_windows(&self.home, part);
        }
        self.copy_from_window(store, stream, s.wp(), &mut header);
        // The header comes last, so the value is there.
        Preamble::decode(&header, Stand::new(s.id(), s.wp()))
            .is_some_and(|found| found.shape.kind() == Kind::Value)
    }

    /// The end of the whole records from a position of a window's ring on.
    pub(super) fn whole_to<S: PageStore>(&self, store: &mut S, stream: usize, from: u64) -> u64 {
        let mut end = from;
        while let Some(bytes) = self.whole_record_at(store, stream, end) {
            end += bytes;
        }
        end
    }

    /// Length of the record at a position of a window's ring, if there is one and it is whole.
    fn whole_record_at<S: PageStore>(&self, store: &mut S, stream: usize, at: u64) -> Option<u64> {
        let mut header = [0; PREAMBLE_MAX_BYTES];
        self.copy_from_window(store, stream, at, &mut header);
        let preamble = Preamble::decode(&header, Stand::new(stream as u8, at))?;
        let (s, bytes) = (&self.streams[stream], preamble.shape.record_bytes());
        if preamble.shape.kind() != Kind::Value || bytes > s.ring().bytes() {
            return None;
        }
        let state = store.state(&self.home);
        if !(s.page_of(at)..=s.page_of(at + bytes - 1)).all(|page| s.has_tag(state, page)) {
            return None;
        }
        let mut value = vec![0; preamble.shape.value_len() as usize];
        self.copy_from_window(store, stream, at + preamble.shape.preamble_bytes() as u64, &mut value);
        (checksum::crc32c(&value) == preamble.value_crc).then_some(bytes)
    }

    fn copy_from_window<S: PageStore>(&self, store: &S, stream: usize, position: u64, into: &mut [u8]) {
        let (first, second) = self.streams[stream].ring().pieces(position, into.len());
        let (head, rest) = into.split_at_mut(first.len());
        store.read_window(&self.home, first.start, head);
        store.read_window(&self.home, second.start, rest);
    }
}
