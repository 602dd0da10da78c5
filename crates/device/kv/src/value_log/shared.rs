//! Reading records by shared reference, for threads that read at the same time.

use byway_flash::{ExtentView, FlashReads, UNIT_BYTES};
use byway_spec::Key;
use byway_sys::checksum;

use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::read::{Place, Sought, whole_value};
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES, Preamble, Shape, Stand};

/// Longest value that is verified in a buffer here where the caller's takes its beginning alone.
const CHECKED_BYTES: usize = 4096;

/// The bytes of a record where they lie, not verified yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct PeekedRecord<'a> {
    bytes: &'a [u8],
    /// Those in a second page.
    rest: &'a [u8],
    stand: Stand,
    /// What of the flash reading it takes, in whole units; nothing in protected memory.
    pub(crate) reads: FlashReads,
}

impl<'a> PeekedRecord<'a> {
    /// The byte at `at`, or the last one.
    #[inline]
    pub(crate) fn byte(&self, at: usize) -> u8 {
        let in_rest = || self.rest.get(at - self.bytes.len()).or(self.rest.last());
        self.bytes.get(at).or_else(in_rest).or(self.bytes.last()).copied().unwrap_or_default()
    }

    /// Its value, if record and value are what was sought. One in two pages is put together in `room`.
    #[inline]
    pub(crate) fn value<'b>(&self, sought: &Sought<'_>, room: &'b mut [u8]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if self.rest.is_empty() {
            return whole_value(self.bytes, self.stand, sought).ok();
        }
        let room = room.get_mut(..self.bytes.len() + self.rest.len())?;
        let (first, second) = room.split_at_mut(self.bytes.len());
        first.copy_from_slice(self.bytes);
        second.copy_from_slice(self.rest);
        whole_value(room, self.stand, sought).ok()
    }
}

/// Records where they lie, to look at many of them while nothing is changed.
pub(crate) struct Records<'a> {
    log: &'a ValueLog,
    pages: ExtentView<'a>,
    state: Option<&'a [u8]>,
}

impl<'a> Records<'a> {
    /// A record where it lies, in one page or two; `None` where it is longer, in a window, or cannot be looked at.
    #[inline]
    pub(crate) fn peek(&self, address: u64, shape: Shape) -> Option<PeekedRecord<'a>> {
        let (log, len) = (self.log, shape.record_bytes() as usize);
        let place = log.place_of(address)?;
        let in_page = log.bytes_to_page_end(address);
        let (bytes, reads) = self.piece(place, len.min(in_page))?;
        let first = PeekedRecord { bytes, rest: &[], stand: place.stand(), reads };
        if len <= in_page {
            return Some(first);
        }
        self.with_second_page(first, log.beyond(address, in_page as u64)?, len - in_page)
    }

    #[inline(never)]
    fn with_second_page(
        &self,
        mut record: PeekedRecord<'a>,
        address: u64,
        len: usize,
    ) -> Option<PeekedRecord<'a>> {
        let place = self.log.place_of(address).filter(|_| len <= self.log.bytes_to_page_end(address))?;
        let (rest, reads) = self.piece(place, len)?;
        record.rest = rest;
        record.reads += reads;
        Some(record)
    }

    /// Bytes of one page where they lie, and what of the flash reading them takes.
    #[inline]
    fn piece(&self, place: Place, len: usize) -> Option<(&'a [u8], FlashReads)> {
        if let Some(ring) = self.log.open_ring(place) {
            let state = self.state.filter(|_| !ring.in_window)?;
            return Some((state.get(ring.pieces(place.position, len).0)?, FlashReads::default()));
        }
        Some((self.pages.peek(place.address, len)?, reads_of(unit_bytes(place.address, len))))
    }
}

/// A read of so many bytes of a page, or of none where they were in protected memory.
#[inline]
fn reads_of(flash_bytes: u64) -> FlashReads {
    FlashReads { pages: u64::from(flash_bytes > 0), bytes: flash_bytes }
}

/// Bytes of the whole units that some bytes lie in.
#[inline]
fn unit_bytes(address: u64, len: usize) -> u64 {
    ((address as usize % UNIT_BYTES + len).div_ceil(UNIT_BYTES) * UNIT_BYTES) as u64
}

impl ValueLog {
    /// Records to look at, where the store lends all of its pages.
    pub(crate) fn records<'a, S: PageStore>(&'a self, store: &'a S) -> Option<Records<'a>> {
        let pages = store.view(&self.home)?;
        Some(Records { log: self, pages, state: store.peek_state(&self.home) })
    }

    /// Copies as much of a value as `into` takes, and says what of the flash was read. `None` where the record cannot be looked at or is not
    /// what its entry says. And where it lies in several pages or in a window, its value is long, and `into` is shorter.
    #[inline]
    pub(crate) fn peek_sought<S: PageStore>(
        &self,
        store: &S,
        sought: &Sought<'_>,
        into: &mut [u8],
    ) -> Option<FlashReads> {
        let Some(record) = self.peek_record(store, sought) else {
            return self.copy_checked(store, sought, into);
        };
        let value = record.value(sought, &mut [])?;
        let len = value.len().min(into.len());
        into[..len].copy_from_slice(&value[..len]);
        Some(record.reads)
    }

    /// A record where it lies; `None` where it lies in several pages or in a window, or cannot be looked at.
    #[inline]
    pub(crate) fn peek_record<'a, S: PageStore>(
        &self,
        store: &'a S,
        sought: &Sought<'_>,
    ) -> Option<PeekedRecord<'a>> {
        if self.spans_pages(sought.address, sought.shape) {
            return None;
        }
        let place = self.place_of(sought.address)?;
        let (bytes, flash_bytes) = self.peek_place(store, place, sought.shape.record_bytes() as usize)?;
        Some(PeekedRecord { bytes, rest: &[], stand: place.stand(), reads: reads_of(flash_bytes) })
    }

    /// Whether a record lies in several pages.
    #[inline]
    pub(crate) fn spans_pages(&self, address: u64, shape: Shape) -> bool {
        shape.record_bytes() > self.bytes_to_page_end(address) as u64
    }

    /// Bytes of the value of a record in the first page of flash that it lies in, and bytes of a page.
    pub(crate) fn pages_of(&self, address: u64, shape: Shape) -> (u32, u32) {
        // Segments are of whole pages: it does not matter whether the record goes on in another one.
        let first_bytes = self.bytes_to_page_end(address + shape.preamble_bytes() as u64);
        (first_bytes as u32, self.layout.page_bytes as u32)
    }

    /// Bytes from an address to the end of its page.
    #[inline]
    pub(super) fn bytes_to_page_end(&self, address: u64) -> usize {
        self.layout.page_bytes - (address as usize & (self.layout.page_bytes - 1))
    }

    /// Copies a record that lies in several pages, or in a window where others may store: what is checked is the copy.
    fn copy_checked<S: PageStore>(
        &self,
        store: &S,
        sought: &Sought<'_>,
        into: &mut [u8],
    ) -> Option<FlashReads> {
        let shape = sought.shape;
        let Some(mut value) = into.get_mut(..shape.value_len() as usize) else {
            return self.copy_beginning(store, sought, into);
        };
        let stand = self.place_of(sought.address)?.stand();
        let (mut preamble, preamble_bytes) = ([0; PREAMBLE_MAX_BYTES], shape.preamble_bytes());
        let (mut passed, mut value_crc, mut found) = (0, 0, None);
        let (mut address, mut reads) = (sought.address, FlashReads::default());
        while passed < preamble_bytes || !value.is_empty() {
            let in_page = self.bytes_to_page_end(address);
            let head = &mut preamble[passed..preamble_bytes.min(passed + in_page)];
            let (tail, rest) = value.split_at_mut((in_page - head.len()).min(value.len()));
            let len = head.len() + tail.len();
            reads += self.copy_piece(store, address, [&mut *head, &mut *tail])?;
            passed += head.len();
            if passed == preamble_bytes && found.is_none() {
                found = Some(Preamble::decode(&preamble, stand).filter(|found| sought.is(found))?);
            }
            value_crc = checksum::crc32c_append(value_crc, tail);
            (address, value) = (self.beyond(address, len as u64)?, rest);
        }
        (found?.value_crc == value_crc).then_some(reads)
    }

    /// The same where `into` is shorter than the value: all of it is copied to a buffer here and verified, if it is not longer than that.
    #[cold]
    fn copy_beginning<S: PageStore>(
        &self,
        store: &S,
        sought: &Sought<'_>,
        into: &mut [u8],
    ) -> Option<FlashReads> {
        let mut room = [0; CHECKED_BYTES];
        let value = room.get_mut(..sought.shape.value_len() as usize)?;
        let reads = self.copy_checked(store, sought, value)?;
        into.copy_from_slice(value.get(..into.len())?);
        Some(reads)
    }

    /// Copies bytes of one page into two places, one behind the other, and says what of the flash that reads.
    fn copy_piece<S: PageStore>(
        &self,
        store: &S,
        address: u64,
        [first, second]: [&mut [u8]; 2],
    ) -> Option<FlashReads> {
        let (place, len) = (self.place_of(address)?, first.len() + second.len());
        if let Some(ring) = self.open_ring(place).filter(|ring| ring.in_window) {
            let (held, _) = ring.pieces(place.position, len);
            store.read_window(&self.home, held.start, first);
            store.read_window(&self.home, held.start + first.len(), second);
            return Some(FlashReads::default());
        }
        let (bytes, flash_bytes) = self.peek_place(store, place, len)?;
        let (head, tail) = bytes.split_at_checked(first.len())?;
        first.copy_from_slice(head);
        second.copy_from_slice(tail);
        Some(reads_of(flash_bytes))
    }

    /// As [`value_of`](Self::value_of).
    #[inline]
    pub(crate) fn peek_shape<S: PageStore>(&self, store: &S, address: u64, key: &Key) -> Option<Shape> {
        let place = self.place_of(address)?;
        let len = self.bytes_to_page_end(address).min(PREAMBLE_MAX_BYTES);
        let (header, _) = self.peek_place(store, place, len)?;
        let found = Preamble::decode(header, place.stand())?;
        (found.key == *key && found.shape.kind() == Kind::Value).then_some(found.shape)
    }

    /// Bytes of one page where they lie, and how many bytes of flash that reads.
    #[inline]
    fn peek_place<'a, S: PageStore>(
        &self,
        store: &'a S,
        place: Place,
        len: usize,
    ) -> Option<(&'a [u8], u64)> {
        if let Some(ring) = self.open_ring(place) {
            let (held, _) = ring.pieces(place.position, len);
            let state = if ring.in_window { None } else { store.peek_state(&self.home) };
            return Some((state?.get(held)?, 0));
        }
        Some((store.peek(&self.home, place.address, len)?, unit_bytes(place.address, len)))
    }
}
