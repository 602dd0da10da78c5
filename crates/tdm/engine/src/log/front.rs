//! The words in front of a ring: where its log begins, and until when the file may be written by it, in milliseconds since 1970.
//!
//! Each is a number of 48 bits and 16 that say it was put there. They only rise: who was late, and may have stood still on the way, takes
//! nothing back that somebody else has said since.

use byway_sys::checksum::{crc32c, crc32c_append};
use byway_tdm_region::{Memory, Point};

use crate::log::point;
use crate::log::record::HEADER_BYTES;
use crate::log::ring::{Position, Ring, RingError};

/// One of them.
#[derive(Debug, Clone, Copy)]
enum Front {
    Head,
    Until,
}

impl Front {
    const fn at(self) -> u64 {
        match self {
            Self::Head => 0,
            Self::Until => 8,
        }
    }

    /// What tells it from the other, and from those of other rings.
    const fn seed(self, identity: u64) -> u64 {
        match self {
            Self::Head => identity,
            Self::Until => !identity,
        }
    }
}

/// For whoever holds the file's lock: the ring stays the file's meanwhile.
pub(super) const fn held() -> bool {
    true
}

impl<M: Memory> Ring<'_, M> {
    /// Makes it empty, beginning at `head`: kept when this returns.
    ///
    /// # Errors
    /// [`RingError::Memory`].
    pub fn format(&self, head: Position) -> Result<(), RingError> {
        self.memory.store(self.place().at, self.word(Front::Head, head.0 / HEADER_BYTES))?;
        self.keep(Front::Head, point::FORMATTED)
    }

    /// Where the log begins.
    ///
    /// # Errors
    /// [`RingError::Head`] for a word that nobody wrote.
    pub fn head(&self) -> Result<Position, RingError> {
        let word = self.memory.load(self.place().at)?;
        match self.number(Front::Head, word) {
            Some(number) => Ok(Position(number * HEADER_BYTES)),
            None => Err(RingError::Head(word)),
        }
    }

    /// Until when the file may be written by this log, in milliseconds since 1970, if anybody said so.
    ///
    /// # Errors
    /// [`RingError::Memory`].
    pub fn written_until_ms(&self) -> Result<Option<u64>, RingError> {
        let word = self.memory.load(self.place().at + Front::Until.at())?;
        Ok(self.number(Front::Until, word))
    }

    /// Says so: kept when this returns. Nothing is done if the ring is not the file's any more.
    pub(super) fn announce(&self, until_ms: u64, is_ours: impl Fn() -> bool) -> Result<(), RingError> {
        self.raise(Front::Until, until_ms, point::ANNOUNCED, is_ours)
    }

    /// Has the log begin at `head`, or behind it: all before may be written over once this returns. Nothing is done if the ring is not the file's any
    /// more.
    pub(super) fn retire(&self, head: Position, is_ours: impl Fn() -> bool) -> Result<(), RingError> {
        self.raise(Front::Head, head.0 / HEADER_BYTES, point::RETIRED, is_ours)
    }

    /// A word that was seen while the ring was the file's is exchanged for no other ring's.
    fn raise(
        &self,
        front: Front,
        number: u64,
        point: Point,
        is_ours: impl Fn() -> bool,
    ) -> Result<(), RingError> {
        let at = self.place().at + front.at();
        let number = number << 16 >> 16;
        loop {
            let was = self.memory.load(at)?;
            if !is_ours() {
                return Ok(());
            }
            let is_there = self.number(front, was).is_some_and(|was| was >= number);
            if is_there || self.memory.exchange(at, was, self.word(front, number))? {
                // Whoever stored it may not have come as far.
                return self.keep(front, point);
            }
        }
    }

    fn keep(&self, front: Front, point: Point) -> Result<(), RingError> {
        self.memory.flush(self.place().at + front.at(), 8, point)?;
        self.memory.fence(point);
        Ok(())
    }

    /// The number that a word is.
    fn number(&self, front: Front, word: u64) -> Option<u64> {
        let number = word >> 16;
        (self.word(front, number) == word).then_some(number)
    }

    /// One word, so that it is old or new whatever happens.
    fn word(&self, front: Front, number: u64) -> u64 {
        let number = number << 16 >> 16;
        let seed = front.seed(self.place().identity);
        let sum = crc32c_append(crc32c(&seed.to_le_bytes()), &number.to_le_bytes());
        number << 16 | u64::from(sum & 0xffff)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::log::ring::RingPlace;
    use crate::log::ring::tests::{PLACE, memory};

    #[test]
    fn the_beginning_is_what_was_put_there_and_only_by_this_use_of_the_place() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        ring.format(Position(96)).unwrap();
        assert_eq!(ring.head().unwrap(), Position(96));
        let other = Ring::new(&memory, RingPlace { identity: 4, ..PLACE }).unwrap();
        assert!(matches!(other.head(), Err(RingError::Head(_))));
    }

    #[test]
    fn until_when_a_file_is_written_is_what_was_announced_by_this_use_of_the_place() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        ring.format(Position(0)).unwrap();
        assert_eq!(ring.written_until_ms().unwrap(), None);
        ring.announce(1_700_000_000_000, held).unwrap();
        assert_eq!(ring.written_until_ms().unwrap(), Some(1_700_000_000_000));
        assert_eq!(ring.head().unwrap(), Position(0));
        let other = Ring::new(&memory, RingPlace { identity: 4, ..PLACE }).unwrap();
        assert_eq!(other.written_until_ms().unwrap(), None);
    }

    #[test]
    fn a_beginning_is_taken_back_by_nobody_who_comes_late() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        ring.format(Position(96)).unwrap();
        ring.retire(Position(320), held).unwrap();
        ring.retire(Position(160), held).unwrap();
        assert_eq!(ring.head().unwrap(), Position(320));
        ring.retire(Position(640), || false).unwrap();
        assert_eq!(ring.head().unwrap(), Position(320));
    }
}
