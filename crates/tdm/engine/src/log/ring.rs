//! A ring of one file's records in device memory.
//!
//! The first line holds the head; records follow. Positions count up for ever; a record lies at its position modulo the ring's capacity.

use byway_sys::checksum::crc32c_append;
use byway_tdm_region::{Memory, MemoryError, Point};
use thiserror::Error;

use crate::log::point;
use crate::log::record::{HEADER_BYTES, Header, Kind, LEN_MAX_BYTES, record_bytes};

/// Bytes before the records.
const FRONT_BYTES: u64 = 64;

/// Bytes copied, checksummed and stored at a time, so that the checksum matches what is stored even if the program changes its buffer.
const ROOM_BYTES: usize = 1024;

/// Position in a log, in bytes since its first use; a multiple of 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// Place of a ring or resident file in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlace {
    /// Offset of its first byte, a multiple of 64.
    pub at: u64,
    /// Length in bytes, a multiple of 64.
    pub len_bytes: u64,
    /// Random identity of this use of the place: records of earlier uses do not match.
    pub identity: u64,
}

impl RingPlace {
    /// No place.
    pub const NOWHERE: Self = Self { at: 0, len_bytes: 0, identity: 0 };
}

/// Why a ring refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RingError {
    /// Not a valid place of a ring.
    #[error("{0:?} is not a place for a ring")]
    Place(RingPlace),
    /// No space behind the tail, or data longer than the ring takes.
    #[error("the ring has no room for {len_bytes} bytes more")]
    Full {
        /// Bytes of data.
        len_bytes: u64,
    },
    /// The word of the head is damaged.
    #[error("the beginning of the ring is damaged: {0:#018x}")]
    Head(u64),
    /// The memory's error.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Bytes to be logged, read piece by piece from a slice or an iovec.
pub trait Source {
    /// Fills `into` with the next bytes.
    fn fill(&mut self, into: &mut [u8]);
}

impl Source for &[u8] {
    fn fill(&mut self, into: &mut [u8]) {
        let (first, rest) = self.split_at(into.len());
        into.copy_from_slice(first);
        *self = rest;
    }
}

/// A record to be appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appended {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) len_bytes: u64,
}

/// Head and tail of a log, and the position up to which it is durable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) head: Position,
    pub(super) tail: Position,
    pub(super) synced: Position,
}

/// One file's log. A thread that appends holds the file's lock.
#[derive(Debug)]
pub struct Ring<'m, M> {
    pub(super) memory: &'m M,
    place: RingPlace,
}

impl<M> Clone for Ring<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Ring<'_, M> {}

impl<'m, M: Memory> Ring<'m, M> {
    /// The ring at a place.
    ///
    /// # Errors
    /// [`RingError::Place`] for one that is not inside the memory, not aligned, or too small for a record.
    pub fn new(memory: &'m M, place: RingPlace) -> Result<Self, RingError> {
        let end = place.at.checked_add(place.len_bytes);
        let fits = end.is_some_and(|end| end <= memory.len_bytes());
        let is_aligned = place.at.is_multiple_of(64) && place.len_bytes.is_multiple_of(64);
        if !fits || !is_aligned || place.len_bytes < 2 * FRONT_BYTES {
            return Err(RingError::Place(place));
        }
        Ok(Self { memory, place })
    }

    /// Capacity for records, in bytes.
    #[must_use]
    pub const fn room_bytes(&self) -> u64 {
        self.place.len_bytes - FRONT_BYTES
    }

    /// Its place.
    #[must_use]
    pub const fn place(&self) -> RingPlace {
        self.place
    }

    /// Appends a record at `extent.tail`; returns the position behind it. Not durable yet.
    pub(super) fn append(
        &self,
        extent: Extent,
        what: Appended,
        source: &mut impl Source,
    ) -> Result<Position, RingError> {
        let next = Position(extent.tail.0 + record_bytes(what.len_bytes));
        if what.len_bytes > LEN_MAX_BYTES || next.0 - extent.head.0 > self.room_bytes() {
            return Err(RingError::Full { len_bytes: what.len_bytes });
        }
        let unsynced = extent.tail.0.saturating_sub(extent.synced.0) / HEADER_BYTES;
        let header = Header {
            position: extent.tail.0,
            offset: what.offset,
            len_bytes: what.len_bytes as u32,
            kind: what.kind,
            synced_before: u32::try_from(unsynced).unwrap_or(u32::MAX),
        };
        match header.record_bytes() <= ROOM_BYTES as u64 {
            true => self.put_whole(&header, source)?,
            false => self.put_in_pieces(&header, source)?,
        }
        self.memory.drain(point::STREAMED);
        Ok(next)
    }

    /// Makes the range from `from` to `to` durable, whichever threads stored it.
    pub(super) fn persist(&self, from: Position, to: Position, point: Point) -> Result<(), RingError> {
        if !self.memory.streams() {
            self.in_parts(from.0, to.0 - from.0, |at, len, _| self.memory.flush(at, len, point))?;
        }
        self.memory.fence(point);
        Ok(())
    }

    /// The 32 bytes at a position.
    pub(super) fn header_at(&self, position: u64) -> Result<[u8; HEADER_BYTES as usize], RingError> {
        let mut bytes = [0; HEADER_BYTES as usize];
        self.memory.read(self.at(position), &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes from a position on.
    pub(super) fn copy(&self, position: u64, into: &mut [u8]) -> Result<(), RingError> {
        let len = into.len() as u64;
        self.in_parts(position, len, |at, len, from| {
            self.memory.read(at, &mut into[from as usize..(from + len) as usize])
        })
    }

    /// Stores a short record at once.
    #[inline]
    fn put_whole(&self, header: &Header, source: &mut impl Source) -> Result<(), RingError> {
        let mut room = [0; ROOM_BYTES];
        let (front, data) = room.split_at_mut(HEADER_BYTES as usize);
        let data = &mut data[..header.len_bytes as usize];
        source.fill(data);
        let (bytes, sum) = header.encode(self.place.identity);
        front.copy_from_slice(&with_sum(bytes, crc32c_append(sum, data)));
        self.put(header.position, &room[..header.record_bytes() as usize])
    }

    /// Stores a long record piece by piece, its header last.
    fn put_in_pieces(&self, header: &Header, source: &mut impl Source) -> Result<(), RingError> {
        let (bytes, mut sum) = header.encode(self.place.identity);
        let end = header.position + header.record_bytes();
        let mut left_bytes = header.len_bytes as usize;
        let mut room = [0; ROOM_BYTES];
        for position in (header.position + HEADER_BYTES..end).step_by(ROOM_BYTES) {
            let len = left_bytes.min(ROOM_BYTES);
            source.fill(&mut room[..len]);
            sum = crc32c_append(sum, &room[..len]);
            let padded = len.next_multiple_of(HEADER_BYTES as usize);
            room[len..padded].fill(0);
            self.put(position, &room[..padded])?;
            left_bytes -= len;
        }
        self.put(header.position, &with_sum(bytes, sum))
    }

    fn put(&self, position: u64, bytes: &[u8]) -> Result<(), RingError> {
        self.in_parts(position, bytes.len() as u64, |at, len, from| {
            self.memory.stream(at, &bytes[from as usize..(from + len) as usize])
        })
    }

    /// Splits a range at the ring's end: offset in memory, length, offset in the range.
    fn in_parts(
        &self,
        position: u64,
        len_bytes: u64,
        mut each: impl FnMut(u64, u64, u64) -> Result<(), MemoryError>,
    ) -> Result<(), RingError> {
        let first = len_bytes.min(self.room_bytes() - position % self.room_bytes());
        if first > 0 {
            each(self.at(position), first, 0)?;
        }
        if first < len_bytes {
            each(self.place.at + FRONT_BYTES, len_bytes - first, first)?;
        }
        Ok(())
    }

    fn at(&self, position: u64) -> u64 {
        self.place.at + FRONT_BYTES + position % self.room_bytes()
    }
}

/// A header with its checksum filled in.
fn with_sum(mut bytes: [u8; HEADER_BYTES as usize], sum: u32) -> [u8; HEADER_BYTES as usize] {
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use byway_sys::Mapping;
    use byway_tdm_region::{Domain, Window};

    use super::*;

    pub(in crate::log) const PLACE: RingPlace = RingPlace { at: 64, len_bytes: 512, identity: 3 };

    pub(in crate::log) fn memory() -> Window {
        Window::new(Mapping::anonymous(4096).unwrap(), Domain::LineFlush)
    }

    #[test]
    fn ring_outside_memory_or_unaligned_is_refused() {
        let memory = memory();
        let with = |at, len_bytes| Ring::new(&memory, RingPlace { at, len_bytes, identity: 0 }).is_ok();
        assert!(with(0, 4096));
        assert!(!with(64, 4096) && !with(8, 512) && !with(0, 64) && !with(u64::MAX - 63, 128));
    }

    #[test]
    fn write_without_room_is_refused_and_changes_nothing() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        let zero = Position(0);
        let extent = Extent { head: zero, tail: zero, synced: zero };
        let what = Appended { kind: Kind::Write, offset: 0, len_bytes: 417 };
        let data = [1; 417];
        assert!(matches!(ring.append(extent, what, &mut &data[..]), Err(RingError::Full { len_bytes: 417 })));
        let what = Appended { len_bytes: 416, ..what };
        assert_eq!(ring.append(extent, what, &mut &data[..]).unwrap(), Position(448));
    }
}
