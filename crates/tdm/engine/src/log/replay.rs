//! Replay of the records that survived.

use byway_sys::checksum::crc32c_append;
use byway_tdm_region::Memory;

use crate::log::record::{Entry, HEADER_BYTES, Header, Kind};
use crate::log::ring::{Position, Ring, RingError};

/// Why a replay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayEnd {
    /// No whole record follows: the log's end, or records never acknowledged.
    Clean,
    /// A record that a later one proves to have been acknowledged is broken.
    Damaged {
        /// Position of the later record.
        proof: Position,
    },
}

/// Result of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Records replayed.
    pub records: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// Position behind the last one.
    pub end: Position,
    /// Why it ended.
    pub why: ReplayEnd,
}

impl<M: Memory> Ring<'_, M> {
    /// Passes every record from the head to the first broken one to `each`, in order.
    ///
    /// # Errors
    /// A damaged head, an error of the memory, or an error of `each`, which ends the replay.
    pub fn replay<E: From<RingError>>(
        &self,
        mut each: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<Replayed, E> {
        let head = self.head()?;
        let mut found = Replayed { records: 0, data_bytes: 0, end: head, why: ReplayEnd::Clean };
        let mut data = Vec::new();
        let limit = head.0 + self.room_bytes();
        while let Some(header) = self.record_at(found.end.0, limit, &mut data)? {
            each(match header.kind {
                Kind::Write => Entry::Write { at: header.offset, data: &data },
                Kind::Truncate => Entry::Truncate { size_bytes: header.offset },
            })?;
            found.records += 1;
            found.data_bytes += u64::from(header.len_bytes);
            found.end = Position(found.end.0 + header.record_bytes());
        }
        if let Some(proof) = self.proof_of_damage(found.end, limit, &mut data)? {
            found.why = ReplayEnd::Damaged { proof };
        }
        Ok(found)
    }

    /// The record at a position with its data, if it is whole and ends before `limit`.
    fn record_at(&self, position: u64, limit: u64, data: &mut Vec<u8>) -> Result<Option<Header>, RingError> {
        if position + HEADER_BYTES > limit {
            return Ok(None);
        }
        let bytes = self.header_at(position)?;
        let Some((header, sum, wanted)) = Header::decode(&bytes, self.place().identity, position) else {
            return Ok(None);
        };
        if position + header.record_bytes() > limit {
            return Ok(None);
        }
        data.resize(header.len_bytes as usize, 0);
        self.copy(position + HEADER_BYTES, data)?;
        Ok((crc32c_append(sum, data) == wanted).then_some(header))
    }

    /// A whole record behind `end` that was written after the log was synced beyond `end`.
    fn proof_of_damage(
        &self,
        end: Position,
        limit: u64,
        data: &mut Vec<u8>,
    ) -> Result<Option<Position>, RingError> {
        let mut position = end.0 + HEADER_BYTES;
        while position + HEADER_BYTES <= limit {
            if let Some(header) = self.record_at(position, limit, data)? {
                let synced = position.saturating_sub(u64::from(header.synced_before) * HEADER_BYTES);
                if synced > end.0 {
                    return Ok(Some(Position(position)));
                }
            }
            position += HEADER_BYTES;
        }
        Ok(None)
    }
}
