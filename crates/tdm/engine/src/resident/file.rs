//! A home on the medium: one line in front, then the file's bytes.
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | state: whether the home counts. A word that only this use of the place makes |
//! | 8–15 | the file's size in 48 bits, and 16 of a checksum over it and the place's identity |
//! | 16–23 | until when the file below may be written from here, in milliseconds since 1970, likewise |
//! | 64– | the file's bytes, from its first on. What lies behind its size is anything |
//!
//! Each word is old or new whatever happens. What nobody wrote in this use of the place is no state and no size.

use std::io;

use crate::log::Source;
use byway_sys::checksum::{crc32c, crc32c_append};
use byway_tdm_region::{Memory, MemoryError, Point};
use thiserror::Error;

use crate::resident::HomePlace;
use crate::resident::point;

/// Bytes before a file's.
pub const FRONT_BYTES: u64 = 64;

const SIZE_AT: u64 = 8;

const UNTIL_AT: u64 = 16;

/// Coming home and going below take no longer.
const MOVE_MS: u64 = 60_000;

/// "HOME": what a state's lower half is.
const LIVE: u64 = 0x454d_4f48;

/// Bytes that are copied at a time.
const PIECE_BYTES: u64 = 512;

/// Why something is not done with a home.
#[derive(Debug, Error)]
pub enum HomeError {
    /// A place that holds no home.
    #[error("{0:?} is not a place for a home")]
    Place(HomePlace),
    /// There is no room for a file of that size.
    #[error("a home has no room for {0} bytes")]
    Outgrown(u64),
    /// The word for the size is not one that was written.
    #[error("the size in a home is damaged: {0:#018x}")]
    Size(u64),
    /// What the memory says.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Somebody brings the file below meanwhile, as it was before: nothing of this is in it.
    #[error("the file leaves its home")]
    Leaving,
    /// The file below does not take its bytes.
    #[error("the file below does not take what its home has for it")]
    Lower(#[source] io::Error),
}

/// One file's home. Whoever changes it holds the file's lock.
#[derive(Debug)]
pub struct Home<'m, M> {
    memory: &'m M,
    place: HomePlace,
}

impl<M> Clone for Home<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Home<'_, M> {}

impl<'m, M: Memory> Home<'m, M> {
    /// The home at a place.
    ///
    /// # Errors
    /// [`HomeError::Place`] for one that is not inside the memory, not of whole lines, or too small for a byte.
    #[inline]
    pub fn new(memory: &'m M, place: HomePlace) -> Result<Self, HomeError> {
        let end = place.at.checked_add(place.len_bytes);
        let fits = end.is_some_and(|end| end <= memory.len_bytes());
        let is_whole = place.at.is_multiple_of(FRONT_BYTES) && place.len_bytes.is_multiple_of(FRONT_BYTES);
        if !fits || !is_whole || place.len_bytes <= FRONT_BYTES {
            return Err(HomeError::Place(place));
        }
        Ok(Self { memory, place })
    }

    /// Where it is, and which use of it.
    #[must_use]
    pub const fn place(&self) -> HomePlace {
        self.place
    }

    /// The largest file that it has room for.
    #[inline]
    #[must_use]
    pub const fn room_bytes(&self) -> u64 {
        self.place.len_bytes - FRONT_BYTES
    }

    /// Puts bytes of the file below into a home that does not count yet.
    ///
    /// # Errors
    /// [`HomeError::Outgrown`], [`HomeError::Memory`].
    pub fn fill(&self, at: u64, mut bytes: &[u8]) -> Result<(), HomeError> {
        let len = bytes.len() as u64;
        self.check_room(at, len)?;
        self.put(at, len, &mut bytes)?;
        Ok(self.flush(at, len, point::FILLED)?)
    }

    /// Has the home count from here on, with what it was filled with: kept when this returns.
    ///
    /// # Errors
    /// [`HomeError::Outgrown`], [`HomeError::Memory`].
    pub fn begin(&self, size_bytes: u64) -> Result<(), HomeError> {
        self.check_room(0, size_bytes)?;
        self.memory.store(self.place.at + SIZE_AT, self.size_word(size_bytes))?;
        self.memory.flush(self.place.at, FRONT_BYTES, point::FILLED)?;
        self.memory.fence(point::FILLED);
        self.memory.store(self.place.at, self.live_word())?;
        self.memory.flush(self.place.at, 8, point::LIVE)?;
        self.memory.fence(point::LIVE);
        Ok(())
    }

    /// Has it not count any more: kept when this returns. The file below has all that it had. What another use of the place has put there
    /// stays.
    ///
    /// # Errors
    /// [`HomeError::Memory`].
    pub fn end(&self) -> Result<(), HomeError> {
        self.memory.exchange(self.place.at, self.live_word(), 0)?;
        self.memory.flush(self.place.at, 8, point::ENDED)?;
        self.memory.fence(point::ENDED);
        Ok(())
    }

    /// Whether it counts.
    ///
    /// # Errors
    /// [`HomeError::Memory`].
    pub fn is_live(&self) -> Result<bool, HomeError> {
        Ok(self.memory.load(self.place.at)? == self.live_word())
    }

    /// The file below is about to be touched for its home, at this time of the clock that its own times are by. One that was written later than
    /// this takes was written by somebody else, and what is at home is older: kept when this returns.
    ///
    /// # Errors
    /// [`HomeError::Memory`].
    pub fn announce(&self, now_ms: u64) -> Result<(), HomeError> {
        let at = self.place.at + UNTIL_AT;
        self.memory.store(at, self.until_word(now_ms.saturating_add(MOVE_MS)))?;
        self.memory.flush(at, 8, point::ANNOUNCED)?;
        self.memory.fence(point::ANNOUNCED);
        Ok(())
    }

    /// Until when the file below may have been written from here, if anybody said so.
    ///
    /// # Errors
    /// [`HomeError::Memory`].
    pub fn written_until_ms(&self) -> Result<Option<u64>, HomeError> {
        let word = self.memory.load(self.place.at + UNTIL_AT)?;
        let until_ms = word >> 16;
        Ok((self.until_word(until_ms) == word).then_some(until_ms))
    }

    /// The size that is kept.
    ///
    /// # Errors
    /// [`HomeError::Size`] for a word that nobody wrote, [`HomeError::Memory`].
    pub fn kept_size(&self) -> Result<u64, HomeError> {
        let word = self.kept_word()?;
        let size_bytes = word >> 16;
        if self.size_word(size_bytes) != word || size_bytes > self.room_bytes() {
            return Err(HomeError::Size(word));
        }
        Ok(size_bytes)
    }

    /// Copies the file's bytes from an offset on.
    ///
    /// # Errors
    /// [`HomeError::Memory`].
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), HomeError> {
        Ok(self.memory.read(self.at(at), into)?)
    }

    /// Keeps a size that shrank.
    pub(super) fn keep_cut(&self, size_bytes: u64) -> Result<(), MemoryError> {
        self.memory.store(self.place.at + SIZE_AT, self.size_word(size_bytes))?;
        self.memory.flush(self.place.at, FRONT_BYTES, point::CUT)?;
        self.memory.fence(point::CUT);
        Ok(())
    }

    /// The word for the size that is kept.
    #[inline]
    pub(super) fn kept_word(&self) -> Result<u64, MemoryError> {
        self.memory.load(self.place.at + SIZE_AT)
    }

    /// Keeps a size that grew, if that word is the one still; whether it was.
    #[inline]
    pub(super) fn keep_grown(&self, was: u64, size_bytes: u64) -> Result<bool, MemoryError> {
        let is_kept = self.memory.exchange(self.place.at + SIZE_AT, was, self.size_word(size_bytes))?;
        if is_kept {
            self.memory.flush(self.place.at, FRONT_BYTES, point::SIZE)?;
            self.memory.fence(point::SIZE);
        }
        Ok(is_kept)
    }

    /// Puts bytes at an offset; nothing is kept for certain yet.
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

    /// Puts zeroes from one offset up to another.
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
    pub(super) fn check_room(&self, at: u64, len_bytes: u64) -> Result<(), HomeError> {
        match at.checked_add(len_bytes) {
            Some(end) if end <= self.room_bytes() => Ok(()),
            end => Err(HomeError::Outgrown(end.unwrap_or(u64::MAX))),
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

/// As many zeroes as are asked for.
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

    const PLACE: HomePlace = HomePlace { at: 64, len_bytes: 512, identity: 3 };

    fn memory() -> Window {
        Window::new(Mapping::anonymous(4096).unwrap(), Domain::LineFlush)
    }

    #[test]
    fn a_home_counts_from_its_beginning_to_its_end_and_for_its_own_use_of_the_place_alone() {
        let memory = memory();
        let home = Home::new(&memory, PLACE).unwrap();
        assert!(!home.is_live().unwrap());
        home.fill(0, b"bytes").unwrap();
        home.begin(5).unwrap();
        assert!(home.is_live().unwrap());
        assert_eq!(home.kept_size().unwrap(), 5);
        let other = Home::new(&memory, HomePlace { identity: 4, ..PLACE }).unwrap();
        assert!(!other.is_live().unwrap());
        other.end().unwrap();
        assert!(home.is_live().unwrap());
        assert!(matches!(other.kept_size(), Err(HomeError::Size(_))));
        home.end().unwrap();
        assert!(!home.is_live().unwrap());
    }

    #[test]
    fn until_when_the_file_below_is_written_is_what_was_announced_for_this_use_of_the_place() {
        let memory = memory();
        let home = Home::new(&memory, PLACE).unwrap();
        assert_eq!(home.written_until_ms().unwrap(), None);
        home.announce(1_000_000).unwrap();
        assert_eq!(home.written_until_ms().unwrap(), Some(1_060_000));
        let other = Home::new(&memory, HomePlace { identity: 4, ..PLACE }).unwrap();
        assert_eq!(other.written_until_ms().unwrap(), None);
    }

    #[test]
    fn places_outside_of_the_memory_or_between_lines_hold_no_home() {
        let memory = memory();
        let with = |at, len_bytes| Home::new(&memory, HomePlace { at, len_bytes, identity: 0 }).is_ok();
        assert!(with(0, 4096) && with(64, 128));
        assert!(!with(64, 4096) && !with(8, 512) && !with(0, 64) && !with(u64::MAX - 63, 128));
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_and_changes_nothing() {
        let memory = memory();
        let home = Home::new(&memory, PLACE).unwrap();
        assert!(home.fill(448, b"x").is_err() && home.begin(449).is_err());
        assert!(!home.is_live().unwrap());
        home.begin(448).unwrap();
    }
}
