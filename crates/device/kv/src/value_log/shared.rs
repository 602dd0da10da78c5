//! Reading records by shared reference, for threads that read at the same time.

use byway_flash::{ExtentView, UNIT_BYTES};
use byway_spec::Key;
use byway_sys::cacheline::prefetch_all;

use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::read::{Place, Sought, whole_value};
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES, Preamble, Shape, Stand};

/// Longest record of a window that is copied to be checked: a value of 4 KiB.
const COPIED_BYTES: usize = 4096 + PREAMBLE_MAX_BYTES;

/// The same of a record for which little room is cleared.
const COPIED_SHORT_BYTES: usize = 256;

/// The bytes of a record where they lie, not verified yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct PeekedRecord<'a> {
    bytes: &'a [u8],
    stand: Stand,
    /// Bytes of flash that reading it takes, in whole units; 0 in protected memory.
    pub(crate) flash_bytes: u64,
}

impl<'a> PeekedRecord<'a> {
    /// Prefetches its bytes.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_all(self.bytes);
    }

    /// Its value, if record and value are what was sought.
    #[inline]
    pub(crate) fn value(&self, sought: &Sought<'_>) -> Option<&'a [u8]> {
        whole_value(self.bytes, self.stand, sought).ok()
    }
}

/// Records where they lie, to look at many of them while nothing is changed.
pub(crate) struct Records<'a> {
    log: &'a ValueLog,
    pages: ExtentView<'a>,
    state: Option<&'a [u8]>,
}

impl<'a> Records<'a> {
    /// A record where it lies, as [`ValueLog::peek_record`] gives it.
    #[inline]
    pub(crate) fn peek(&self, address: u64, shape: Shape) -> Option<PeekedRecord<'a>> {
        let (log, len) = (self.log, shape.record_bytes() as usize);
        let place = log.place_of(address)?;
        if let Some(ring) = log.open_ring(place) {
            let state = self.state.filter(|_| !ring.in_window && !log.spans_pages(address, shape))?;
            let (held, _) = ring.pieces(place.position, len);
            return Some(PeekedRecord { bytes: state.get(held)?, stand: place.stand(), flash_bytes: 0 });
        }
        let bytes = self.pages.peek(address, len)?;
        Some(PeekedRecord { bytes, stand: place.stand(), flash_bytes: unit_bytes(address, len) })
    }
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

    /// Copies as much of a value as `into` takes. Bytes of flash that were read; `None` where the record lies in several pages, is a long
    /// one in a window, cannot be looked at, or is not what its entry says.
    #[inline]
    pub(crate) fn peek_sought<S: PageStore>(
        &self,
        store: &S,
        sought: &Sought<'_>,
        into: &mut [u8],
    ) -> Option<u64> {
        let Some(record) = self.peek_record(store, sought) else {
            return self.peek_window(store, sought, into);
        };
        let value = record.value(sought)?;
        let len = value.len().min(into.len());
        into[..len].copy_from_slice(&value[..len]);
        Some(record.flash_bytes)
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
        Some(PeekedRecord { bytes, stand: place.stand(), flash_bytes })
    }

    /// Whether a record lies in several pages.
    #[inline]
    pub(crate) fn spans_pages(&self, address: u64, shape: Shape) -> bool {
        let in_page = address & (self.layout.page_bytes as u64 - 1);
        in_page + shape.record_bytes() > self.layout.page_bytes as u64
    }

    /// As [`peek_sought`](Self::peek_sought), for a short record in the ring of a window: what is checked is a copy, as others may store
    /// there.
    #[cold]
    fn peek_window<S: PageStore>(&self, store: &S, sought: &Sought<'_>, into: &mut [u8]) -> Option<u64> {
        if sought.shape.record_bytes() <= COPIED_SHORT_BYTES as u64 {
            return self.copy_of_window(store, sought, &mut [0; COPIED_SHORT_BYTES], into);
        }
        self.copy_of_window(store, sought, &mut [0; COPIED_BYTES], into)
    }

    fn copy_of_window<S: PageStore>(
        &self,
        store: &S,
        sought: &Sought<'_>,
        room: &mut [u8],
        into: &mut [u8],
    ) -> Option<u64> {
        let place =
            self.place_of(sought.address).filter(|_| !self.spans_pages(sought.address, sought.shape))?;
        let ring = self.open_ring(place).filter(|ring| ring.in_window)?;
        let copy = room.get_mut(..sought.shape.record_bytes() as usize)?;
        let (held, _) = ring.pieces(place.position, copy.len());
        store.read_window(&self.home, held.start, copy);
        let value = whole_value(copy, place.stand(), sought).ok()?;
        let len = value.len().min(into.len());
        into[..len].copy_from_slice(&value[..len]);
        Some(0)
    }

    /// As [`value_of`](Self::value_of).
    #[inline]
    pub(crate) fn peek_shape<S: PageStore>(&self, store: &S, address: u64, key: &Key) -> Option<Shape> {
        let place = self.place_of(address)?;
        let page_bytes = self.layout.page_bytes as u64;
        let len = (page_bytes - (address & (page_bytes - 1))).min(PREAMBLE_MAX_BYTES as u64) as usize;
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
