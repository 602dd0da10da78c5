//! Batches: records of which all are replayed, or none.
//!
//! A batch is a *batch header* and then its records, without gaps and in one segment. All are staged in the ring and committed by one
//! 8-byte write of the write pointer, so that a kill leaves all or none. After a loss of power, the header says how many bytes of
//! records must be whole.
//!
//! A sector that was lost may read as zeroes, and those as padding. So that a record of a batch whose header was lost is not taken
//! for one by itself, a *link* stands before the first record that begins in each further sector: it says how far before it the header is.
//! Link and record begin in one sector, or the link's last byte, which is not zero, is the first of the record's sector.
//!
//! Header and link are void records without a value: what they say is in the key, and their field for a value checksum holds a magic
//! number. Other void records are room of refused in-place stores; one without a value has the checksum of no bytes, which is 0. Readers
//! pass over void records, those of older releases too: these open the image once no batch is to be replayed.

use byway_spec::Key;

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::record::{Kind, Preamble, Shape, Stand, pieces_of, record_header_bytes};
use crate::value_log::writing::put_preamble;
use crate::value_log::{Draft, SHARED, Spot, ValueLog};

/// What headers and links have in place of a value checksum: "BTCH" and "BTCL".
const HEADER_MAGIC: u32 = 0x4254_4348;
const LINK_MAGIC: u32 = 0x4254_434c;
/// Bytes of the key of a header, the length of the records; and of a link, the distance and at least one byte that is not zero.
const WORD_BYTES: usize = 4;
/// Bytes of a batch header.
const HEADER_BYTES: u64 = record_header_bytes(WORD_BYTES) as u64;
/// Bytes of a link, or one more.
const LINK_BYTES: u64 = record_header_bytes(WORD_BYTES) as u64;
/// Bytes that reach a medium together.
const SECTOR_BYTES: u64 = 512;
/// Bytes of records for which there is a link, at least.
const BYTES_PER_LINK: u64 = SECTOR_BYTES - (LINK_BYTES + 1);
/// Links of a batch beside those: where it begins and ends.
const LINKS_BESIDE: u64 = 2;

/// Most bytes of log that so many records of these bytes take as a batch.
pub(crate) fn batch_log_bytes(records: usize, bytes: u64) -> u64 {
    let links = (records as u64).min(bytes / BYTES_PER_LINK + LINKS_BESIDE);
    HEADER_BYTES + bytes + links * (LINK_BYTES + 1)
}

/// A part of a batch that is no record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchPart {
    /// The header of a batch whose records, with their links, have these bytes.
    Header { bytes: u64 },
    /// A link, so many bytes behind the beginning of its header.
    Link { distance: u64 },
}

impl BatchPart {
    /// What a record says, if it is a part of a batch.
    pub(crate) fn of(preamble: &Preamble) -> Option<Self> {
        let (shape, key) = (preamble.shape, preamble.key.as_bytes());
        let is_part = shape.kind() == Kind::Void && shape.value_len() == 0;
        let (word, _) = key.split_first_chunk::<WORD_BYTES>().filter(|_| is_part)?;
        let [a, b, c, _] = *word;
        match preamble.value_crc {
            HEADER_MAGIC => Some(Self::Header { bytes: u32::from_le_bytes(*word).into() }),
            LINK_MAGIC => Some(Self::Link { distance: u32::from_le_bytes([a, b, c, 0]).into() }),
            _ => None,
        }
    }

    /// The record of a part, of which a link has `more_bytes` bytes more than the shortest.
    fn preamble(self, seq: u64, more_bytes: usize) -> Result<Preamble, KvError> {
        let (value_crc, word) = match self {
            Self::Header { bytes } => (HEADER_MAGIC, (bytes as u32).to_le_bytes()),
            Self::Link { distance } => {
                let [a, b, c, _] = (distance as u32).to_le_bytes();
                (LINK_MAGIC, [a, b, c, u8::MAX])
            }
        };
        let mut key = [u8::MAX; WORD_BYTES + 1];
        key[..WORD_BYTES].copy_from_slice(&word);
        let key = Key::new(&key[..WORD_BYTES + more_bytes])?;
        Ok(Preamble { shape: Shape::new(Kind::Void, key.len(), 0), value_crc, seq, key })
    }
}

/// Where the next record of a batch goes.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    start: u64,
    next: u64,
    /// The sector in which a record or the header begins last.
    sector: u64,
}

/// Places of a link, if there is one, and of the record behind it.
#[derive(Clone, Copy, Debug)]
struct Placed {
    link: Option<Spot>,
    record: Spot,
}

impl Cursor {
    fn behind_header(start: u64) -> Self {
        Self { start, next: start + HEADER_BYTES, sector: start / SECTOR_BYTES }
    }

    fn place(&mut self, record_bytes: u64) -> Placed {
        let at = self.next;
        let needs_link = at / SECTOR_BYTES != self.sector;
        // A record never begins where a sector does: its link would be in the sector before.
        let link_bytes = LINK_BYTES + u64::from((at + LINK_BYTES).is_multiple_of(SECTOR_BYTES));
        let link = needs_link.then_some(Spot { start: at, end: at + link_bytes, ahead: false });
        let start = link.map_or(at, |link| link.end);
        (self.next, self.sector) = (start + record_bytes, start / SECTOR_BYTES);
        Placed { link, record: Spot { start, end: self.next, ahead: false } }
    }
}

/// A record of a batch and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRecord<'a> {
    pub(crate) draft: Draft,
    pub(crate) value: &'a [u8],
    /// Its address, once the batch is appended.
    pub(crate) address: u64,
}

impl ValueLog {
    /// Largest sum of the bytes of a batch's records: with its header and links it stays in the ring, beside the page that the write pointer is
    /// in, and in one segment.
    pub(crate) fn batch_max_bytes(&self) -> u64 {
        let in_ring = (self.layout.ring_bytes - self.layout.page_bytes) as u64;
        let most = in_ring.min(self.layout.segment_bytes());
        (most - HEADER_BYTES - LINKS_BESIDE * (LINK_BYTES + 1)) * BYTES_PER_LINK / SECTOR_BYTES
    }

    /// Where the next batch of so many bytes of log goes: to the tail, or to the next segment if it would be in two.
    pub(crate) fn batch_spot(&self, bytes: u64) -> Spot {
        let (tail, shift) = (self.streams[SHARED].tail(), self.layout.segment_shift);
        let is_whole = tail >> shift == (tail + bytes - 1) >> shift;
        let start = if is_whole { tail } else { tail.next_multiple_of(1 << shift) };
        Spot { start, end: start + bytes, ahead: false }
    }

    /// Appends a batch and commits it; its records get their addresses. On an error nothing is committed; the stream may have gone on to
    /// the next segment.
    pub(crate) fn append_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        records: &mut [BatchRecord<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let spot = self.open_batch(store, records, at_ps)?;
        if let Err(error) = self.write_batch(store, spot, records, at_ps) {
            self.streams[SHARED].close_uncommitted(store, &self.home);
            return Err(error);
        }
        records.iter().for_each(|record| self.count(SHARED, &record.draft, record.address));
        self.streams[SHARED].commit(store, &self.home, spot.end);
        if !self.streams[SHARED].full_pages().is_empty() {
            // As for one record: what is committed stands, and pages that cannot be programmed are tried again.
            let _ = self.settle(store, SHARED, at_ps);
        }
        Ok(())
    }

    /// Moves the shared stream to where a batch goes, and prepares its pages.
    fn open_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        records: &[BatchRecord<'_>],
        at_ps: &mut u64,
    ) -> Result<Spot, KvError> {
        let bytes = records.iter().map(|record| record.draft.record_bytes()).sum();
        let Spot { start, .. } = self.batch_spot(batch_log_bytes(records.len(), bytes));
        self.close_gaps(store, SHARED);
        if start > self.streams[SHARED].wp() {
            self.skip_to_multiple(store, SHARED, self.layout.segment_bytes(), at_ps)?;
        }
        let mut cursor = Cursor::behind_header(start);
        for record in records {
            cursor.place(record.draft.record_bytes());
        }
        let spot = Spot { start, end: cursor.next, ahead: false };
        let has_values = records.iter().any(|record| record.draft.kind == Kind::Value);
        let kind = if has_values { Kind::Value } else { Kind::Tombstone };
        self.prepare(store, SHARED, kind, spot, at_ps)?;
        Ok(spot)
    }

    fn write_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        batch: Spot,
        records: &mut [BatchRecord<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let address = self.address(SHARED, batch.start).ok_or(KvError::DamagedState("the segment table"))?;
        let seq = records.first().map_or(0, |record| record.draft.seq);
        let mut cursor = Cursor::behind_header(batch.start);
        let header = BatchPart::Header { bytes: batch.end - cursor.next };
        self.write_part(store, batch.start, &header.preamble(seq, 0)?);
        for BatchRecord { draft, value, address: place } in records {
            let Placed { link, record } = cursor.place(draft.record_bytes());
            if let Some(spot) = link {
                let link = BatchPart::Link { distance: spot.start - cursor.start };
                let more_bytes = (spot.end - spot.start - LINK_BYTES) as usize;
                self.write_part(store, spot.start, &link.preamble(seq, more_bytes)?);
            }
            self.write(store, SHARED, draft, record, pieces_of::<KvError>(value), at_ps)?;
            *place = address + (record.start - batch.start);
        }
        Ok(())
    }

    fn write_part<S: PageStore>(&self, store: &mut S, at: u64, preamble: &Preamble) {
        let (ring, stand) = (self.streams[SHARED].ring(), Stand::new(SHARED as u8, at));
        put_preamble(store.state(&self.home), &ring, at, preamble, stand);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_record_of_a_batch_begins_behind_something_of_the_batch_in_its_sector(
            start in 0u64..2000,
            lens in proptest::collection::vec(21u64..1500, 1..100),
        ) {
            let mut cursor = Cursor::behind_header(start);
            let mut begins = vec![start];
            for len in &lens {
                let placed = cursor.place(*len);
                // What the scanner meets first in the record's sector, if the sector before was lost.
                let sector = placed.record.start / SECTOR_BYTES * SECTOR_BYTES;
                let is_linked = placed.link.is_some_and(|link| link.end > sector);
                prop_assert!(is_linked || begins.iter().any(|begin| *begin >= sector), "{placed:?}");
                begins.push(placed.record.start);
            }
            let bytes = lens.iter().sum();
            prop_assert!(cursor.next - start <= batch_log_bytes(lens.len(), bytes));
        }
    }
}
