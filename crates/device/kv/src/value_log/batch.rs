//! Batches: records of which all are replayed, or none.
//!
//! A batch is a *batch header* and then its records, without gaps and in one segment. All are staged in the ring and committed by one
//! 8-byte write of the write pointer, so that a kill leaves all or none. After a loss of power, the header says how many bytes of
//! records must be whole.
//!
//! The header is a void record: its key is the length of the records, it has no value, and its field for a value checksum holds a magic
//! number. Other void records are room of refused in-place stores; one without a value has the checksum of no bytes, which is 0. Readers
//! pass over void records, those of older releases too: these open the image once no batch is to be replayed.

use byway_spec::Key;

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::record::{Kind, Preamble, Shape, Stand, pieces_of, record_header_bytes};
use crate::value_log::writing::put_preamble;
use crate::value_log::{Draft, SHARED, Spot, ValueLog};

/// What a batch header has in place of a value checksum: "BTCH".
const BATCH_MAGIC: u32 = 0x4254_4348;
/// Bytes of a batch header's key: the length of the records, little-endian.
const HEADER_KEY_BYTES: usize = 4;
/// Bytes of a batch header.
pub(crate) const BATCH_HEADER_BYTES: u64 = record_header_bytes(HEADER_KEY_BYTES) as u64;

/// The header of a batch whose records have these bytes.
fn batch_header(bytes: u64, seq: u64) -> Result<Preamble, KvError> {
    let key = Key::new(&(bytes as u32).to_le_bytes())?;
    Ok(Preamble { shape: Shape::new(Kind::Void, HEADER_KEY_BYTES, 0), value_crc: BATCH_MAGIC, seq, key })
}

/// Bytes of the records of a batch, if a record is the header of one.
pub(crate) fn batch_bytes(preamble: &Preamble) -> Option<u64> {
    let shape = preamble.shape;
    let is_header = shape.kind() == Kind::Void && shape.value_len() == 0 && preamble.value_crc == BATCH_MAGIC;
    let bytes = preamble.key.as_bytes().try_into().ok().filter(|_| is_header)?;
    Some(u32::from_le_bytes(bytes).into())
}

/// A record of a batch and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRecord<'a> {
    pub(crate) draft: Draft,
    pub(crate) value: &'a [u8],
}

impl ValueLog {
    /// Longest batch in bytes, its header included: the ring less the page that the write pointer is in, and at most one segment.
    pub(crate) fn batch_with_header_max_bytes(&self) -> u64 {
        let in_ring = self.layout.ring_bytes - self.layout.page_bytes;
        (in_ring as u64).min(self.layout.segment_bytes())
    }

    /// Where the next batch goes: to the tail, or to the next segment if it would be in two.
    pub(crate) fn batch_spot(&self, bytes: u64) -> Spot {
        let (tail, shift) = (self.streams[SHARED].tail(), self.layout.segment_shift);
        let is_whole = tail >> shift == (tail + bytes - 1) >> shift;
        let start = if is_whole { tail } else { tail.next_multiple_of(1 << shift) };
        Spot { start, end: start + bytes, ahead: false }
    }

    /// Appends a batch and commits it; the address of its first record. On an error nothing is committed; the stream may have gone on to the
    /// next segment.
    pub(crate) fn append_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        records: &[BatchRecord<'_>],
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        let bytes: u64 = records.iter().map(|record| record.draft.record_bytes()).sum();
        let kind = records.iter().map(|record| record.draft.kind).find(|kind| *kind == Kind::Value);
        let spot =
            self.open_batch(store, BATCH_HEADER_BYTES + bytes, kind.unwrap_or(Kind::Tombstone), at_ps)?;
        if let Err(error) = self.write_batch(store, spot, records, at_ps) {
            self.streams[SHARED].close_uncommitted(store, &self.home);
            return Err(error);
        }
        let address = self.address(SHARED, spot.start).ok_or(KvError::DamagedState("the segment table"))?;
        records.iter().for_each(|record| self.count(SHARED, &record.draft));
        self.streams[SHARED].commit(store, &self.home, spot.end);
        if !self.streams[SHARED].full_pages().is_empty() {
            // As for one record: what is committed stands, and pages that cannot be programmed are tried again.
            let _ = self.settle(store, SHARED, at_ps);
        }
        Ok(address + BATCH_HEADER_BYTES)
    }

    /// Moves the shared stream to where a batch goes, and prepares its pages.
    fn open_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        bytes: u64,
        kind: Kind,
        at_ps: &mut u64,
    ) -> Result<Spot, KvError> {
        let spot = self.batch_spot(bytes);
        self.close_gaps(store, SHARED);
        if spot.start > self.streams[SHARED].wp() {
            self.skip_to_multiple(store, SHARED, self.layout.segment_bytes(), at_ps)?;
        }
        self.prepare(store, SHARED, kind, spot, at_ps)?;
        Ok(spot)
    }

    fn write_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        batch: Spot,
        records: &[BatchRecord<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let seq = records.first().map_or(0, |record| record.draft.seq);
        let mut at = batch.start + BATCH_HEADER_BYTES;
        let (ring, stand) = (self.streams[SHARED].ring(), Stand::new(SHARED as u8, batch.start));
        put_preamble(store.state(&self.home), &ring, batch.start, &batch_header(batch.end - at, seq)?, stand);
        for BatchRecord { draft, value } in records {
            let spot = Spot { start: at, end: at + draft.record_bytes(), ahead: false };
            self.write(store, SHARED, draft, spot, pieces_of::<KvError>(value), at_ps)?;
            at = spot.end;
        }
        Ok(())
    }
}
