//! Reading records back by address, with their checksums.

use byway_flash::{Cause, FlashError};
use byway_sys::checksum;

use crate::error::KvError;
use crate::index::entry::Entry;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES, Preamble, Shape, Stand};
use crate::value_log::ring::Ring;
use crate::value_log::segment::Use;
use byway_spec::Key;

/// The part of a value that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// A part before it was read, and the record's header checked: pages before this part are not read again.
    pub(crate) continues: bool,
}

impl Wanted {
    /// A part of which nothing was read before.
    #[inline]
    pub(crate) const fn part(from: u64, to: u64) -> Self {
        Self { from, to, continues: false }
    }
}

/// A record to be read: its position, and the expected key and shape.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'a> {
    pub(crate) key: &'a Key,
    pub(crate) address: u64,
    pub(crate) shape: Shape,
}

impl Sought<'_> {
    /// Whether a preamble is that of the record.
    #[inline]
    pub(super) fn is(&self, found: &Preamble) -> bool {
        found.key == *self.key && found.shape == self.shape
    }
}

/// Most bytes of a record that are asked for.
const EXPECTED_BYTES: u64 = 1536;

/// Where bytes of a record are: in the extent, and in their stream.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) address: u64,
    stream: u8,
    pub(super) position: u64,
}

impl Place {
    #[inline]
    pub(super) fn stand(self) -> Stand {
        Stand::new(self.stream, self.position)
    }
}

/// Whether flash or the caller verifies the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verified {
    ByFlash,
    /// By the checksums of the record.
    ByCaller,
}

/// A record on its way through: preamble first, then value bytes.
struct Passage {
    stand: Stand,
    preamble_bytes: usize,
    value_len: u64,
    wanted: Wanted,
    preamble: [u8; PREAMBLE_MAX_BYTES],
    /// Record bytes that came, or were left out, so far.
    passed: u64,
    /// Checksum of the value bytes; only of use when none was left out.
    crc: u32,
    whole: bool,
    /// Pages may be reused while it is read: only its own checksum says that they are all its own.
    may_be_reused: bool,
    /// Why its header is not that of the entry.
    refused: Option<&'static str>,
}

impl ValueLog {
    /// Reads a part of the value that an entry points to and hands it over in pieces.
    ///
    /// A value that is read whole, or lies in one page, is checked against its checksum, and so handed over from where
    /// it lies; a part of a longer one is checked by the checksums of its flash pages alone.
    pub(crate) fn read_value<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        entry: &Entry,
        wanted: Wanted,
        cause: Cause,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let key = entry.key();
        let sought = Sought { key: &key, address: entry.address(), shape: entry.shape() };
        self.read_sought(store, &sought, wanted, cause, into, at_ps)
    }

    /// As [`read_value`](Self::read_value).
    #[inline]
    pub(crate) fn read_sought<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        sought: &Sought<'_>,
        wanted: Wanted,
        cause: Cause,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let bytes = sought.shape.record_bytes();
        if self.spans_pages(sought.address, sought.shape) {
            return self.read_long(store, sought, wanted, cause, into, at_ps);
        }
        let place = self.place_of(sought.address).ok_or_else(|| foreign(sought))?;
        let record = self.load(store, place, bytes as usize, (Verified::ByCaller, cause), at_ps)?;
        match whole_value(record, place.stand(), sought) {
            Ok(value) => hand_over(value, wanted, into, at_ps),
            Err(why) => self.read_again(store, sought, (place, why), wanted, into, at_ps),
        }
    }

    /// The shape of a value's record at `address`, if that can be looked at without reading, and is of `key`.
    #[inline]
    pub(crate) fn value_of<S: PageStore>(&mut self, store: &mut S, address: u64, key: &Key) -> Option<Shape> {
        self.prefetch_typical(store, address);
        let place = self.place_of(address)?;
        let len = self.bytes_to_page_end(address).min(PREAMBLE_MAX_BYTES);
        let found = if self.is_open(place) {
            let header = self.load(store, place, len, (Verified::ByCaller, Cause::Host), &mut 0).ok()?;
            Preamble::decode(header, place.stand())?
        } else {
            Preamble::decode(store.peek(&self.home, address, len)?, place.stand())?
        };
        if found.key != *key || found.shape.kind() != Kind::Value {
            return None;
        }
        self.prefetch_rest(store, address, found.shape, self.typical_bytes);
        self.typical_bytes = found.shape.record_bytes();
        Some(found.shape)
    }

    /// Prefetches a record, of which `asked_bytes` were prefetched before its length was known.
    #[inline]
    pub(crate) fn prefetch_rest<S: PageStore>(
        &self,
        store: &S,
        address: u64,
        shape: Shape,
        asked_bytes: u64,
    ) {
        let len_bytes = shape.record_bytes();
        if len_bytes > asked_bytes {
            self.prefetch(store, address, len_bytes);
        }
    }

    /// Prefetches the first bytes of a record, at most `EXPECTED_BYTES`: the processor prefetches the rest by itself.
    #[inline]
    pub(crate) fn prefetch<S: PageStore>(&self, store: &S, address: u64, len_bytes: u64) {
        store.prefetch(&self.home, address, len_bytes.min(EXPECTED_BYTES) as usize);
    }

    /// Prefetches a record of unknown length: as many bytes as the last value had.
    #[inline]
    pub(crate) fn prefetch_typical<S: PageStore>(&self, store: &S, address: u64) {
        self.prefetch(store, address, self.typical_bytes.max(PREAMBLE_MAX_BYTES as u64));
    }

    /// Reads a record that was not what its entry says by verified reads: they name the damage if it is the flash's.
    #[cold]
    fn read_again<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        sought: &Sought<'_>,
        (place, why): (Place, &'static str),
        wanted: Wanted,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        if self.is_open(place) {
            return Err(damaged(sought, why).into());
        }
        let len = sought.shape.record_bytes() as usize;
        let record = self.load(store, place, len, (Verified::ByFlash, Cause::Host), at_ps)?;
        let value = whole_value(record, place.stand(), sought).map_err(|why| damaged(sought, why))?;
        hand_over(value, wanted, into, at_ps)
    }

    /// Bytes of one page: from the ring while it holds them, else from flash.
    // Without `always` a get calls it: 32 instructions more.
    #[inline(always)]
    fn load<'a, S: PageStore>(
        &'a mut self,
        store: &'a mut S,
        place: Place,
        len: usize,
        (verified, cause): (Verified, Cause),
        at_ps: &mut u64,
    ) -> Result<&'a [u8], KvError> {
        if self.is_open(place) {
            let ring = self.streams[usize::from(place.stream)].ring();
            let (held, _) = ring.pieces(place.position, len);
            if !ring.in_window {
                return Ok(&store.state(&self.home)[held]);
            }
            store.read_window(&self.home, held.start, &mut self.scratch[..len]);
            return Ok(&self.scratch[..len]);
        }
        self.work.pages_read += 1;
        let room = &mut self.scratch[..len];
        match verified {
            Verified::ByCaller => Ok(store.lend(&self.home, place.address, room, cause, at_ps)?),
            Verified::ByFlash => {
                store.read(&self.home, place.address, room, cause, at_ps)?;
                Ok(room)
            }
        }
    }

    /// Whether the page of a place is still in its stream's ring.
    #[inline]
    fn is_open(&self, place: Place) -> bool {
        self.open_ring(place).is_some()
    }

    /// The ring that still holds the page of a place.
    #[inline]
    pub(super) fn open_ring(&self, place: Place) -> Option<Ring> {
        let stream = self.streams.get(usize::from(place.stream))?;
        stream.holds(stream.page_of(place.position)).then(|| stream.ring())
    }

    /// Reads `len` bytes of a stream from `position` on, on behalf of compaction; whether they are a record's is for the caller to see.
    pub(crate) fn read_span<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: u8,
        position: u64,
        len: usize,
        into: &mut Vec<u8>,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        into.clear();
        let (shift, page_bytes) = (self.layout.segment_shift, self.layout.page_bytes as u64);
        while into.len() < len {
            let position = position + into.len() as u64;
            let piece = (len - into.len()).min((page_bytes - position % page_bytes) as usize);
            let Some(segment) = self.segments.find(stream, position >> shift) else {
                return Err(FlashError::OutOfRange {
                    at_bytes: position,
                    len_bytes: piece as u64,
                    extent_bytes: 0,
                }
                .into());
            };
            let address = u64::from(segment) << shift | position & (self.layout.segment_bytes() - 1);
            let place = Place { address, stream, position };
            into.extend_from_slice(self.load(
                store,
                place,
                piece,
                (Verified::ByCaller, Cause::LogCompaction),
                at_ps,
            )?);
        }
        Ok(())
    }

    /// The stream of an address and the position in it, if its segment holds records.
    pub(super) fn place_in_stream(&self, address: u64) -> Option<(usize, u64)> {
        self.place_of(address).map(|place| (usize::from(place.stream), place.position))
    }

    /// The place of an address, if its segment holds records.
    #[inline]
    pub(super) fn place_of(&self, address: u64) -> Option<Place> {
        let Use::Log { stream, ordinal } = self.segments.use_of(address >> self.layout.segment_shift)? else {
            return None;
        };
        let within = address & (self.layout.segment_bytes() - 1);
        Some(Place { address, stream, position: ordinal << self.layout.segment_shift | within })
    }

    /// Reads a record that spans pages.
    #[cold]
    fn read_long<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        sought: &Sought<'_>,
        wanted: Wanted,
        cause: Cause,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let shape = sought.shape;
        let place = self.place_of(sought.address).ok_or_else(|| foreign(sought))?;
        let mut passage = Passage {
            stand: place.stand(),
            preamble_bytes: shape.preamble_bytes(),
            value_len: u64::from(shape.value_len()),
            wanted,
            preamble: [0; PREAMBLE_MAX_BYTES],
            passed: 0,
            crc: 0,
            whole: true,
            may_be_reused: store.is_following(),
            refused: None,
        };
        let page_bytes = self.layout.page_bytes as u64;
        let (mut address, asked_ps) = (sought.address, *at_ps);
        // Nothing else verifies a part.
        let verified = if passage.must_reach() > 0 { Verified::ByCaller } else { Verified::ByFlash };
        while !passage.is_over() {
            let left = shape.record_bytes() - passage.passed;
            let piece = left.min(page_bytes - (address & (page_bytes - 1)));
            if passage.can_leave_out(piece) {
                passage.leave_out(piece);
            } else {
                // The pages are asked for all at once, and handed over in their order as they come.
                let mut there_ps = asked_ps;
                let place = self.place_of(address).ok_or_else(|| foreign(sought))?;
                let bytes = self.load(store, place, piece as usize, (verified, cause), &mut there_ps)?;
                *at_ps = there_ps.max(*at_ps);
                passage.take(bytes, sought, into, at_ps)?;
                if let Some(why) = passage.refused {
                    return Err(self.long_damage(store, sought, why).into());
                }
            }
            address = self.beyond(address, piece).ok_or_else(|| damaged(sought, "it breaks off"))?;
        }
        passage.finish().map_err(|why| self.long_damage(store, sought, why).into())
    }

    /// What is wrong with a record that spans pages: a page that verified reads refuse, or the record itself.
    #[cold]
    fn long_damage<S: PageStore>(
        &mut self,
        store: &mut S,
        sought: &Sought<'_>,
        why: &'static str,
    ) -> KvError {
        let page_bytes = self.layout.page_bytes as u64;
        let (mut address, mut left) = (sought.address, sought.shape.record_bytes());
        while left > 0
            && let Some(place) = self.place_of(address)
        {
            let piece = left.min(page_bytes - (address & (page_bytes - 1)));
            if let Err(error) =
                self.load(store, place, piece as usize, (Verified::ByFlash, Cause::Host), &mut 0)
            {
                return error;
            }
            left -= piece;
            let Some(next) = self.beyond(address, piece) else { break };
            address = next;
        }
        damaged(sought, why)
    }

    /// The address `piece` bytes further on in the same stream.
    pub(super) fn beyond(&self, address: u64, piece: u64) -> Option<u64> {
        let next = address.checked_add(piece)?;
        if next & (self.layout.segment_bytes() - 1) != 0 {
            return Some(next);
        }
        // A record may end with its segment: then nothing follows, and nothing is read.
        Some(self.segments.after(address).unwrap_or(u64::MAX))
    }
}

impl Passage {
    fn is_over(&self) -> bool {
        self.passed >= self.preamble_bytes as u64 + self.wanted.to.max(self.must_reach())
    }

    /// A value whose wanted part is nearly all of it is read to its end, so that it is checked.
    fn must_reach(&self) -> u64 {
        let is_all_wanted = self.wanted.from == 0 && self.wanted.to == self.value_len;
        if self.whole && (is_all_wanted || self.may_be_reused) { self.value_len } else { 0 }
    }

    fn can_leave_out(&self, piece: u64) -> bool {
        let preamble_bytes = self.preamble_bytes as u64;
        let is_checked = self.wanted.continues || self.passed >= preamble_bytes;
        !self.may_be_reused && is_checked && self.passed + piece <= preamble_bytes + self.wanted.from
    }

    fn leave_out(&mut self, piece: u64) {
        self.passed += piece;
        self.whole = false;
    }

    fn take<E>(
        &mut self,
        bytes: &[u8],
        sought: &Sought<'_>,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let missing = (self.preamble_bytes as u64).saturating_sub(self.passed) as usize;
        let (head, value) = bytes.split_at(missing.min(bytes.len()));
        let at = self.passed as usize;
        if missing > 0 {
            self.preamble[at..at + head.len()].copy_from_slice(head);
            self.passed += head.len() as u64;
            // Its beginning was left out where the header was checked before.
            if head.len() == missing && self.whole {
                self.refused = self.refusal(sought);
            }
        }
        if self.refused.is_some() {
            return Ok(());
        }
        let value_at = self.passed.saturating_sub(self.preamble_bytes as u64);
        self.crc = checksum::crc32c_append(self.crc, value);
        self.passed += value.len() as u64;
        let clip = |to: u64| to.saturating_sub(value_at).min(value.len() as u64) as usize;
        let part = &value[clip(self.wanted.from)..clip(self.wanted.to).max(clip(self.wanted.from))];
        if part.is_empty() { Ok(()) } else { into(part, at_ps) }
    }

    fn refusal(&self, sought: &Sought<'_>) -> Option<&'static str> {
        match Preamble::decode(&self.preamble, self.stand) {
            Some(found) if sought.is(&found) => None,
            Some(_) => Some("another record stands there"),
            None => Some("its header does not match its checksum"),
        }
    }

    fn finish(&self) -> Result<(), &'static str> {
        let complete = self.whole && self.passed == self.preamble_bytes as u64 + self.value_len;
        let crc = Preamble::decode(&self.preamble, self.stand).map(|preamble| preamble.value_crc);
        if complete && crc != Some(self.crc) {
            return Err("its value does not match its checksum");
        }
        Ok(())
    }
}

/// The value of a record that lies in one piece, if record and value are what was sought.
#[inline]
pub(super) fn whole_value<'a>(
    record: &'a [u8],
    stand: Stand,
    sought: &Sought<'_>,
) -> Result<&'a [u8], &'static str> {
    Preamble::value_in(record, stand, sought.key, sought.shape).ok_or_else(|| mismatch(record, stand, sought))
}

/// Why bytes are not the record that was sought.
#[cold]
fn mismatch(record: &[u8], stand: Stand, sought: &Sought<'_>) -> &'static str {
    match Preamble::decode(record, stand) {
        Some(found) if sought.is(&found) => "its value does not match its checksum",
        Some(_) => "another record stands there",
        None => "its header does not match its checksum",
    }
}

#[inline]
fn hand_over<E>(
    value: &[u8],
    wanted: Wanted,
    into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
    at_ps: &mut u64,
) -> Result<(), E> {
    match value.get(wanted.from as usize..wanted.to as usize) {
        Some(part) if !part.is_empty() => into(part, at_ps),
        _ => Ok(()),
    }
}

#[cold]
fn foreign(sought: &Sought<'_>) -> KvError {
    damaged(sought, "its segment holds no records")
}

#[cold]
pub(crate) fn damaged(sought: &Sought<'_>, why: &'static str) -> KvError {
    KvError::DamagedRecord { key: *sought.key, address: sought.address, why }
}
