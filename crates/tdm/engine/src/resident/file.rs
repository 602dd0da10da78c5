//! A resident file on the medium: a header line, then the file's bytes.
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | state: nonzero and of this use of the place if the file is valid |
//! | 8–15 | the file's size in 48 bits, and 16 of a checksum over it and the place's identity |
//! | 16–23 | until when the file below may be written from here, in ms since 1970, encoded likewise |
//! | 64– | the file's bytes. Bytes behind its size are undefined |
//!
//! Each word is stored whole. A word of an earlier use of the place does not match.

use std::io;

use crate::log::Source;
use byway_sys::checksum::{crc32c, crc32c_append};
use byway_tdm_region::{Memory, MemoryError, Point};
use thiserror::Error;

use crate::resident::ResidentPlace;
use crate::resident::point;

/// Bytes of the header.
pub const FRONT_BYTES: u64 = 64;

const SIZE_AT: u64 = 8;

const UNTIL_AT: u64 = 16;

/// Time limit of a promotion or demotion, in ms.
const MOVE_MS: u64 = 60_000;

/// "HOME": the lower half of a valid state.
const LIVE: u64 = 0x454d_4f48;

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 512;

/// Why a resident file refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResidentError {
    /// Not a valid place of a resident file.
    #[error("{0:?} is not a place for a resident file")]
    Place(ResidentPlace),
    /// The place is too small for that size.
    #[error("the place of a resident file has no room for {0} bytes")]
    Outgrown(u64),
    /// The word of the size is damaged.
    #[error("the size of a resident file is damaged: {0:#018x}")]
    Size(u64),
    /// The memory's error.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The file is being demoted: the call is not included and must be repeated.
    #[error("the file is being demoted")]
    Demoting,
    /// The file below cannot be written.
    #[error("the file below cannot be written")]
    Lower(#[source] io::Error),
}

/// One resident file. A thread that changes it holds the file's lock.
#[derive(Debug)]
pub struct ResidentFile<'m, M> {
    memory: &'m M,
    place: ResidentPlace,
}

impl<M> Clone for ResidentFile<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for ResidentFile<'_, M> {}

impl<'m, M: Memory> ResidentFile<'m, M> {
    /// The resident file at a place.
    ///
    /// # Errors
    /// [`ResidentError::Place`] if it is outside the memory, not aligned to lines, or without room for a byte.
    #[inline]
    pub fn new(memory: &'m M, place: ResidentPlace) -> Result<Self, ResidentError> {
        let end = place.at.checked_add(place.len_bytes);
        let fits = end.is_some_and(|end| end <= memory.len_bytes());
        let is_whole = place.at.is_multiple_of(FRONT_BYTES) && place.len_bytes.is_multiple_of(FRONT_BYTES);
        if !fits || !is_whole || place.len_bytes <= FRONT_BYTES {
            return Err(ResidentError::Place(place));
        }
        Ok(Self { memory, place })
    }

    /// Its place.
    #[must_use]
    pub const fn place(&self) -> ResidentPlace {
        self.place
    }

    /// Capacity in bytes.
    #[inline]
    #[must_use]
    pub const fn room_bytes(&self) -> u64 {
        self.place.len_bytes - FRONT_BYTES
    }

    /// Copies bytes of the file below, before the header is valid.
    ///
    /// # Errors
    /// [`ResidentError::Outgrown`], [`ResidentError::Memory`].
    pub fn fill(&self, at: u64, mut bytes: &[u8]) -> Result<(), ResidentError> {
        let len = bytes.len() as u64;
        self.check_room(at, len)?;
        self.put(at, len, &mut bytes)?;
        Ok(self.flush(at, len, point::FILLED)?)
    }

    /// Makes the header valid, with the bytes filled in. Durable when this returns.
    ///
    /// # Errors
    /// [`ResidentError::Outgrown`], [`ResidentError::Memory`].
    pub fn begin(&self, size_bytes: u64) -> Result<(), ResidentError> {
        self.check_room(0, size_bytes)?;
        self.memory.store(self.place.at + SIZE_AT, self.size_word(size_bytes))?;
        self.memory.flush(self.place.at, FRONT_BYTES, point::FILLED)?;
        self.memory.fence(point::FILLED);
        self.memory.store(self.place.at, self.live_word())?;
        self.memory.flush(self.place.at, 8, point::LIVE)?;
        self.memory.fence(point::LIVE);
        Ok(())
    }

    /// Makes the header void. Durable when this returns. The file below is complete. Does nothing if the place has another use by now.
    ///
    /// # Errors
    /// [`ResidentError::Memory`].
    pub fn end(&self) -> Result<(), ResidentError> {
        self.memory.exchange(self.place.at, self.live_word(), 0)?;
        self.memory.flush(self.place.at, 8, point::ENDED)?;
        self.memory.fence(point::ENDED);
        Ok(())
    }

    /// Whether the header is valid.
    ///
    /// # Errors
    /// [`ResidentError::Memory`].
    pub fn is_live(&self) -> Result<bool, ResidentError> {
        Ok(self.memory.load(self.place.at)? == self.live_word())
    }

    /// Announces that the file below is about to be written, at this time of the file system's clock. Recovery leaves a file alone that was written
    /// after the announced time. Durable when this returns.
    ///
    /// # Errors
    /// [`ResidentError::Memory`].
    pub fn announce(&self, now_ms: u64) -> Result<(), ResidentError> {
        let at = self.place.at + UNTIL_AT;
        self.memory.store(at, self.until_word(now_ms.saturating_add(MOVE_MS)))?;
        self.memory.flush(at, 8, point::ANNOUNCED)?;
        self.memory.fence(point::ANNOUNCED);
        Ok(())
    }

    /// The announced time until which the file below may be written, in ms since 1970.
    ///
    /// # Errors
    /// [`ResidentError::Memory`].
    pub fn written_until_ms(&self) -> Result<Option<u64>, ResidentError> {
        let word = self.memory.load(self.place.at + UNTIL_AT)?;
        let until_ms = word >> 16;
        Ok((self.until_word(until_ms) == word).then_some(until_ms))
    }

    /// The durable size.
    ///
    /// # Errors
    /// [`ResidentError::Size`] for a damaged word, [`ResidentError::Memory`].
    pub fn kept_size(&self) -> Result<u64, ResidentError> {
        let word = self.kept_word()?;
        let size_bytes = word >> 16;
        if self.size_word(size_bytes) != word || size_bytes > self.room_bytes() {
            return Err(ResidentError::Size(word));
        }
        Ok(size_bytes)
    }

    /// Reads the file's bytes at an offset.
    ///
    /// # Errors
    /// [`ResidentError::Memory`].
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ResidentError> {
        Ok(self.memory.read(self.at(at), into)?)
    }

    /// Makes a smaller size durable.
    pub(super) fn keep_truncation(&self, size_bytes: u64) -> Result<(), MemoryError> {
        self.memory.store(self.place.at + SIZE_AT, self.size_word(size_bytes))?;
        self.memory.flush(self.place.at, FRONT_BYTES, point::TRUNCATION)?;
        self.memory.fence(point::TRUNCATION);
        Ok(())
    }

    /// The word of the durable size.
    #[inline]
    pub(super) fn kept_word(&self) -> Result<u64, MemoryError> {
        self.memory.load(self.place.at + SIZE_AT)
    }

    /// Makes a larger size durable, if the word is still `was`. `false` if it is not.
    #[inline]
    pub(super) fn keep_grown(&self, was: u64, size_bytes: u64) -> Result<bool, MemoryError> {
        let is_kept = self.memory.exchange(self.place.at + SIZE_AT, was, self.size_word(size_bytes))?;
        if is_kept {
            self.memory.flush(self.place.at, FRONT_BYTES, point::SIZE)?;
            self.memory.fence(point::SIZE);
        }
        Ok(is_kept)
    }

    /// Stores bytes at an offset. Not durable yet.
    #[inline]
    pub(super) fn put(&self, at: u64, len_bytes: u64, source: &mut impl Source) -> Result<(), MemoryError> {
        let mut piece = [0; PIECE_BYTES as usize];
        let mut done = 0;
        while done < len_bytes {
            let piece = &mut piece[..(len_bytes - done).min(PIECE_BYTES) as usize];
            source.fill(piece);
            self.memory.write(self.at(at + done), piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Stores zeroes from one offset to another.
    pub(super) fn put_zeroes(&self, from: u64, to: u64) -> Result<(), MemoryError> {
        self.put(from, to.saturating_sub(from), &mut Zeroes)
    }

    #[inline]
    pub(super) fn flush(&self, at: u64, len_bytes: u64, point: Point) -> Result<(), MemoryError> {
        if len_bytes == 0 {
            return Ok(());
        }
        self.memory.flush(self.at(at), len_bytes, point)
    }

    #[inline]
    pub(super) fn fence(&self, point: Point) {
        self.memory.fence(point);
    }

    #[inline]
    pub(super) fn check_room(&self, at: u64, len_bytes: u64) -> Result<(), ResidentError> {
        match at.checked_add(len_bytes) {
            Some(end) if end <= self.room_bytes() => Ok(()),
            end => Err(ResidentError::Outgrown(end.unwrap_or(u64::MAX))),
        }
    }

    #[inline]
    const fn at(&self, offset: u64) -> u64 {
        self.place.at + FRONT_BYTES + offset
    }

    fn live_word(&self) -> u64 {
        LIVE | u64::from(self.sum_of(LIVE)) << 32
    }

    #[inline]
    fn size_word(&self, size_bytes: u64) -> u64 {
        size_bytes << 16 | u64::from(self.sum_of(size_bytes) & 0xffff)
    }

    fn until_word(&self, until_ms: u64) -> u64 {
        let until_ms = until_ms << 16 >> 16;
        until_ms << 16 | u64::from(self.sum_of(!until_ms) & 0xffff)
    }

    #[inline]
    fn sum_of(&self, word: u64) -> u32 {
        crc32c_append(crc32c(&self.place.identity.to_le_bytes()), &word.to_le_bytes())
    }
}

/// A source of zeroes.
struct Zeroes;

impl Source for Zeroes {
    fn fill(&mut self, into: &mut [u8]) {
        into.fill(0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use byway_sys::Mapping;
    use byway_tdm_region::{Domain, Window};

    use super::*;

    const PLACE: ResidentPlace = ResidentPlace { at: 64, len_bytes: 512, identity: 3 };

    fn memory() -> Window {
        Window::new(Mapping::anonymous(4096).unwrap(), Domain::LineFlush)
    }

    #[test]
    fn resident_header_is_valid_from_begin_to_end_for_its_identity() {
        let memory = memory();
        let resident = ResidentFile::new(&memory, PLACE).unwrap();
        assert!(!resident.is_live().unwrap());
        resident.fill(0, b"bytes").unwrap();
        resident.begin(5).unwrap();
        assert!(resident.is_live().unwrap());
        assert_eq!(resident.kept_size().unwrap(), 5);
        let other = ResidentFile::new(&memory, ResidentPlace { identity: 4, ..PLACE }).unwrap();
        assert!(!other.is_live().unwrap());
        other.end().unwrap();
        assert!(resident.is_live().unwrap());
        assert!(matches!(other.kept_size(), Err(ResidentError::Size(_))));
        resident.end().unwrap();
        assert!(!resident.is_live().unwrap());
    }

    #[test]
    fn resident_announced_time_is_read_back_by_its_identity() {
        let memory = memory();
        let resident = ResidentFile::new(&memory, PLACE).unwrap();
        assert_eq!(resident.written_until_ms().unwrap(), None);
        resident.announce(1_000_000).unwrap();
        assert_eq!(resident.written_until_ms().unwrap(), Some(1_060_000));
        let other = ResidentFile::new(&memory, ResidentPlace { identity: 4, ..PLACE }).unwrap();
        assert_eq!(other.written_until_ms().unwrap(), None);
    }

    #[test]
    fn resident_place_outside_memory_or_unaligned_is_refused() {
        let memory = memory();
        let with =
            |at, len_bytes| ResidentFile::new(&memory, ResidentPlace { at, len_bytes, identity: 0 }).is_ok();
        assert!(with(0, 4096) && with(64, 128));
        assert!(!with(64, 4096) && !with(8, 512) && !with(0, 64) && !with(u64::MAX - 63, 128));
    }

    #[test]
    fn resident_file_too_large_is_refused_and_changes_nothing() {
        let memory = memory();
        let resident = ResidentFile::new(&memory, PLACE).unwrap();
        assert!(resident.fill(448, b"x").is_err() && resident.begin(449).is_err());
        assert!(!resident.is_live().unwrap());
        resident.begin(448).unwrap();
    }
}
