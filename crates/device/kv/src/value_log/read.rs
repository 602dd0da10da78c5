//! Reading records back by address, with their checksums.

use byway_flash::Cause;

use crate::error::KvError;
use crate::index::entry::Entry;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::{PREAMBLE_MAX_BYTES, Preamble, Stand};
use crate::value_log::segment::Use;

/// The part of a value that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) from: u64,
    pub(crate) to: u64,
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
}

impl ValueLog {
    /// Reads a part of the value that an entry points to and hands it over in pieces.
    ///
    /// A value that is read whole, or lies in one page, is checked against its checksum; a part of a longer one by
    /// the checksums of its flash pages alone.
    #[inline]
    pub(crate) fn read_value<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        entry: &Entry,
        wanted: Wanted,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let bytes = entry.shape().record_bytes();
        let in_page = entry.address() & (self.layout.page_bytes as u64 - 1);
        if in_page + bytes > self.layout.page_bytes as u64 {
            return self.read_long(store, entry, wanted, into, at_ps);
        }
        let stand = self.stand(entry)?;
        let record = self.load(store, entry.address(), bytes as usize, Cause::Host, at_ps)?;
        let value = whole_value(record, stand, entry).map_err(|why| damaged(entry, why))?;
        match value.get(wanted.from as usize..wanted.to as usize) {
            Some(part) if !part.is_empty() => into(part, at_ps),
            _ => Ok(()),
        }
    }

    /// Bytes of one page: from the ring while it holds them, else from flash.
    #[inline]
    pub(crate) fn load<'a, S: PageStore>(
        &'a mut self,
        store: &'a mut S,
        address: u64,
        len: usize,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<&'a [u8], KvError> {
        if let Some(Use::Log { stream, ordinal }) = self.segments.use_of(address >> self.layout.segment_shift)
            && let Some(stream) = self.streams.get(usize::from(stream))
        {
            let within = address & (self.layout.segment_bytes() - 1);
            let position = ordinal << self.layout.segment_shift | within;
            if stream.holds(stream.page_of(position)) {
                let (held, _) = stream.ring.pieces(position, len);
                if !stream.ring.in_window {
                    return Ok(&store.state(&self.home)[held]);
                }
                store.read_window(&self.home, held.start, &mut self.scratch[..len]);
                return Ok(&self.scratch[..len]);
            }
        }
        let bytes = &mut self.scratch[..len];
        store.read(&self.home, address, bytes, cause, at_ps)?;
        Ok(bytes)
    }

    /// Where the record of an entry stands in its stream.
    #[inline]
    fn stand(&self, entry: &Entry) -> Result<Stand, KvError> {
        let segment = entry.address() >> self.layout.segment_shift;
        let Some(Use::Log { stream, ordinal }) = self.segments.use_of(segment) else {
            return Err(damaged(entry, "its segment holds no records"));
        };
        let within = entry.address() & (self.layout.segment_bytes() - 1);
        Ok(Stand::new(stream, ordinal << self.layout.segment_shift | within))
    }

    /// Reads a record that spans pages.
    #[cold]
    fn read_long<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        entry: &Entry,
        wanted: Wanted,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let shape = entry.shape();
        let mut passage = Passage {
            stand: self.stand(entry)?,
            preamble_bytes: shape.preamble_bytes(),
            value_len: u64::from(shape.value_len()),
            wanted,
            preamble: [0; PREAMBLE_MAX_BYTES],
            passed: 0,
            crc: 0,
            whole: true,
        };
        let page_bytes = self.layout.page_bytes as u64;
        let (mut address, asked_ps) = (entry.address(), *at_ps);
        while !passage.is_over() {
            let left = shape.record_bytes() - passage.passed;
            let piece = left.min(page_bytes - (address & (page_bytes - 1)));
            if passage.can_leave_out(piece) {
                passage.leave_out(piece);
            } else {
                // The pages are asked for all at once, and handed over in their order as they come.
                let mut there_ps = asked_ps;
                let bytes = self.load(store, address, piece as usize, Cause::Host, &mut there_ps)?;
                *at_ps = there_ps.max(*at_ps);
                passage.take(bytes, entry, into, at_ps)?;
            }
            address = self.beyond(address, piece).ok_or_else(|| damaged(entry, "it breaks off"))?;
        }
        passage.finish().map_err(|why| damaged(entry, why).into())
    }

    /// The address `piece` bytes further on in the same stream.
    fn beyond(&self, address: u64, piece: u64) -> Option<u64> {
        let next = address + piece;
        if next & (self.layout.segment_bytes() - 1) != 0 {
            return Some(next);
        }
        // A record may end with its segment: then nothing follows, and nobody asks for it.
        Some(self.segments.after(address).unwrap_or(u64::MAX))
    }
}

impl Passage {
    fn is_over(&self) -> bool {
        self.passed >= self.preamble_bytes as u64 + self.wanted.to.max(self.must_reach())
    }

    /// A value whose wanted part is nearly all of it is read to its end, so that it is checked.
    fn must_reach(&self) -> u64 {
        if self.whole && self.wanted.from == 0 && self.wanted.to == self.value_len {
            self.value_len
        } else {
            0
        }
    }

    fn can_leave_out(&self, piece: u64) -> bool {
        let value_passed = self.passed.checked_sub(self.preamble_bytes as u64);
        value_passed.is_some_and(|passed| passed + piece <= self.wanted.from)
    }

    fn leave_out(&mut self, piece: u64) {
        self.passed += piece;
        self.whole = false;
    }

    fn take<E: From<KvError>>(
        &mut self,
        bytes: &[u8],
        entry: &Entry,
        into: &mut impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let missing = (self.preamble_bytes as u64).saturating_sub(self.passed) as usize;
        let (head, value) = bytes.split_at(missing.min(bytes.len()));
        let at = self.passed as usize;
        if missing > 0 {
            self.preamble[at..at + head.len()].copy_from_slice(head);
            self.passed += head.len() as u64;
            if head.len() == missing {
                self.check_preamble(entry)?;
            }
        }
        let value_at = self.passed.saturating_sub(self.preamble_bytes as u64);
        self.crc = crc32c::crc32c_append(self.crc, value);
        self.passed += value.len() as u64;
        let clip = |to: u64| to.saturating_sub(value_at).min(value.len() as u64) as usize;
        let part = &value[clip(self.wanted.from)..clip(self.wanted.to).max(clip(self.wanted.from))];
        if part.is_empty() { Ok(()) } else { into(part, at_ps) }
    }

    fn check_preamble(&self, entry: &Entry) -> Result<(), KvError> {
        match Preamble::decode(&self.preamble, self.stand) {
            Some(found) if found.key == entry.key() && found.shape == entry.shape() => Ok(()),
            Some(_) => Err(damaged(entry, "another record stands there")),
            None => Err(damaged(entry, "its header does not match its checksum")),
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

/// The value of a record that lies in one piece, if record and value are what the entry says.
#[inline]
fn whole_value<'a>(record: &'a [u8], stand: Stand, entry: &Entry) -> Result<&'a [u8], &'static str> {
    let preamble = Preamble::decode(record, stand).ok_or("its header does not match its checksum")?;
    if preamble.key != entry.key() || preamble.shape != entry.shape() {
        return Err("another record stands there");
    }
    let value = record.get(preamble.shape.preamble_bytes()..).unwrap_or_default();
    if crc32c::crc32c(value) != preamble.value_crc {
        return Err("its value does not match its checksum");
    }
    Ok(value)
}

pub(crate) fn damaged(entry: &Entry, why: &'static str) -> KvError {
    KvError::DamagedRecord { key: entry.key(), address: entry.address(), why }
}
