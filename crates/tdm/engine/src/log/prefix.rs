//! The two words in front of a ring: the log's head, and the time until which the file may be written (ms since 1970).
//!
//! Each holds a number of 48 bits and a check of 16 bits. They only rise: a delayed thread cannot undo a later store.

use byway_sys::checksum::{crc32c, crc32c_append};
use byway_tdm_region::{Memory, Point};

use crate::log::point;
use crate::log::record::HEADER_BYTES;
use crate::log::ring::{Position, Ring, RingError};

/// One of the words.
#[derive(Debug, Clone, Copy)]
enum PrefixWord {
    Head,
    Until,
}

impl PrefixWord {
    const fn at(self) -> u64 {
        match self {
            Self::Head => 0,
            Self::Until => 8,
        }
    }

    /// Seed of the check: differs by word and by ring.
    const fn seed(self, identity: u64) -> u64 {
        match self {
            Self::Head => identity,
            Self::Until => !identity,
        }
    }
}

/// `is_ours` for a holder of the file's lock: the ring stays the file's.
pub(super) const fn lock_held() -> bool {
    true
}

impl<M: Memory> Ring<'_, M> {
    /// Empties the ring and sets its head. Durable when this returns.
    ///
    /// # Errors
    /// [`RingError::Memory`].
    pub fn format(&self, head: Position) -> Result<(), RingError> {
        self.memory.store(self.place().at, self.word(PrefixWord::Head, head.0 / HEADER_BYTES))?;
        self.keep(PrefixWord::Head, point::FORMATTED)
    }

    /// Position of the first record.
    ///
    /// # Errors
    /// [`RingError::Head`] for a damaged word.
    pub fn head(&self) -> Result<Position, RingError> {
        let word = self.memory.load(self.place().at)?;
        match self.number(PrefixWord::Head, word) {
            Some(number) => Ok(Position(number * HEADER_BYTES)),
            None => Err(RingError::Head(word)),
        }
    }

    /// Announced time until which the file may be written, in ms since 1970.
    ///
    /// # Errors
    /// [`RingError::Memory`].
    pub fn written_until_ms(&self) -> Result<Option<u64>, RingError> {
        let word = self.memory.load(self.place().at + PrefixWord::Until.at())?;
        Ok(self.number(PrefixWord::Until, word))
    }

    /// Announces a time. Durable when this returns. Does nothing if the ring is no longer the file's.
    pub(super) fn announce(&self, until_ms: u64, is_ours: impl Fn() -> bool) -> Result<(), RingError> {
        self.raise(PrefixWord::Until, until_ms, point::ANNOUNCED, is_ours)
    }

    /// Raises the head: records before it may be overwritten once this returns. Does nothing if the ring is no longer the file's.
    pub(super) fn retire(&self, head: Position, is_ours: impl Fn() -> bool) -> Result<(), RingError> {
        self.raise(PrefixWord::Head, head.0 / HEADER_BYTES, point::RETIRED, is_ours)
    }

    /// The exchange fails if the ring was given to another file meanwhile.
    fn raise(
        &self,
        which: PrefixWord,
        number: u64,
        point: Point,
        is_ours: impl Fn() -> bool,
    ) -> Result<(), RingError> {
        let at = self.place().at + which.at();
        let number = number << 16 >> 16;
        loop {
            let was = self.memory.load(at)?;
            if !is_ours() {
                return Ok(());
            }
            let is_there = self.number(which, was).is_some_and(|was| was >= number);
            if is_there || self.memory.exchange(at, was, self.word(which, number))? {
                // Another thread stored it but may not have flushed it.
                return self.keep(which, point);
            }
        }
    }

    fn keep(&self, which: PrefixWord, point: Point) -> Result<(), RingError> {
        self.memory.flush(self.place().at + which.at(), 8, point)?;
        self.memory.fence(point);
        Ok(())
    }

    /// The number in a word, if its check is right.
    fn number(&self, which: PrefixWord, word: u64) -> Option<u64> {
        let number = word >> 16;
        (self.word(which, number) == word).then_some(number)
    }

    /// Both parts in one word, so that it is stored whole.
    fn word(&self, which: PrefixWord, number: u64) -> u64 {
        let number = number << 16 >> 16;
        let seed = which.seed(self.place().identity);
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
    fn head_is_read_back_by_the_same_identity_only() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        ring.format(Position(96)).unwrap();
        assert_eq!(ring.head().unwrap(), Position(96));
        let other = Ring::new(&memory, RingPlace { identity: 4, ..PLACE }).unwrap();
        assert!(matches!(other.head(), Err(RingError::Head(_))));
    }

    #[test]
    fn announced_time_is_read_back_by_the_same_identity_only() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        ring.format(Position(0)).unwrap();
        assert_eq!(ring.written_until_ms().unwrap(), None);
        ring.announce(1_700_000_000_000, lock_held).unwrap();
        assert_eq!(ring.written_until_ms().unwrap(), Some(1_700_000_000_000));
        assert_eq!(ring.head().unwrap(), Position(0));
        let other = Ring::new(&memory, RingPlace { identity: 4, ..PLACE }).unwrap();
        assert_eq!(other.written_until_ms().unwrap(), None);
    }

    #[test]
    fn head_is_not_lowered_by_a_late_store() {
        let memory = memory();
        let ring = Ring::new(&memory, PLACE).unwrap();
        ring.format(Position(96)).unwrap();
        ring.retire(Position(320), lock_held).unwrap();
        ring.retire(Position(160), lock_held).unwrap();
        assert_eq!(ring.head().unwrap(), Position(320));
        ring.retire(Position(640), || false).unwrap();
        assert_eq!(ring.head().unwrap(), Position(320));
    }
}
