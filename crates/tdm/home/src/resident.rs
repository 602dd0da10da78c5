//! What a write, a read, a truncation and a sync of a file at home do.
//!
//! Whoever calls holds the file's lock. A signal handler may interrupt whoever holds it and come here in its midst: what it writes lies
//! behind what is being written.

use byway_tdm_log::Source;
use byway_tdm_region::Memory;

use crate::home::{Home, HomeError};
use crate::point;
use crate::words::HomeWords;

/// Bytes between two writes that are worth a fence of the first: what is written back at a sync is one range.
const APART_BYTES: u64 = 4096;

/// A file at home.
#[derive(Debug)]
pub struct Resident<'a, M> {
    home: Home<'a, M>,
    words: HomeWords<'a>,
}

impl<'a, M: Memory> Resident<'a, M> {
    /// The file whose home that is.
    #[inline]
    #[must_use]
    pub const fn new(home: Home<'a, M>, words: HomeWords<'a>) -> Self {
        Self { home, words }
    }

    /// Its home.
    #[must_use]
    pub const fn home(&self) -> Home<'a, M> {
        self.home
    }

    /// Its words.
    #[must_use]
    pub const fn words(&self) -> HomeWords<'a> {
        self.words
    }

    /// Begins something. Not for who interrupts it.
    #[inline]
    pub fn enter(&self) {
        self.words.forget_reserved();
    }

    /// Its size.
    #[inline]
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.words.size_bytes().min(self.home.room_bytes())
    }

    /// Writes behind its end; says where that was.
    ///
    /// # Errors
    /// [`HomeError::Outgrown`] changes nothing; [`HomeError::Memory`].
    #[inline]
    pub fn append(&self, len_bytes: u64, source: &mut impl Source) -> Result<u64, HomeError> {
        let at = self.words.end();
        self.write(at, len_bytes, source)?;
        Ok(at)
    }

    /// Writes at an offset, which may lie behind its end.
    ///
    /// # Errors
    /// As [`Resident::append`].
    #[inline]
    pub fn write(&self, at: u64, len_bytes: u64, source: &mut impl Source) -> Result<(), HomeError> {
        if len_bytes == 0 {
            return Ok(());
        }
        self.home.check_room(at, len_bytes)?;
        let (was_end, end) = (self.words.end(), at + len_bytes);
        self.words.reserve(end);
        let from = at.min(was_end);
        self.part(from, end)?;
        // What was there in an earlier use of the place shows nowhere.
        self.home.put_zeroes(was_end, at)?;
        self.home.put(at, len_bytes, source)?;
        self.words.grow();
        Ok(())
    }

    /// Copies bytes from an offset on, as far as there are any; says how many.
    ///
    /// # Errors
    /// [`HomeError::Memory`].
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, HomeError> {
        let there = self.size_bytes().saturating_sub(at).min(into.len() as u64) as usize;
        self.home.read(at, &mut into[..there])?;
        Ok(there)
    }

    /// Cuts it to a size, or has it grow to it by zeroes.
    ///
    /// # Errors
    /// As [`Resident::append`].
    pub fn cut(&self, size_bytes: u64) -> Result<(), HomeError> {
        self.home.check_room(0, size_bytes)?;
        let was = self.words.size_bytes();
        if size_bytes > was {
            self.words.reserve(size_bytes);
            self.part(was, size_bytes)?;
            self.home.put_zeroes(was, size_bytes)?;
            self.words.grow();
            return Ok(());
        }
        if size_bytes < self.words.kept_bytes() {
            // What comes behind it from here on is not to be found under the old size.
            self.home.keep_size(size_bytes, point::CUT)?;
            self.words.set_kept(size_bytes);
        }
        self.words.shrink(size_bytes);
        Ok(())
    }

    /// Keeps all that was written, whoever wrote it.
    ///
    /// # Errors
    /// [`HomeError::Memory`]: the next sync tries again.
    #[inline]
    pub fn sync(&self) -> Result<(), HomeError> {
        let size = self.size_bytes();
        let grew = size != self.words.kept_bytes();
        let dirty = self.words.take_dirty();
        if let Some((from, to)) = dirty {
            self.persist(from, to.min(size))?;
        }
        if grew {
            self.home.keep_size(size, point::SIZE).inspect_err(|_| self.words.suspect())?;
            self.words.set_kept(size);
        }
        Ok(())
    }

    /// Notes that a range is about to be written. One that lies apart from what is dirty has that kept first.
    #[inline]
    fn part(&self, from: u64, to: u64) -> Result<(), HomeError> {
        if let Some((dirty_from, dirty_to)) = self.words.dirty()
            && (from > dirty_to + APART_BYTES || dirty_from > to + APART_BYTES)
            && let Some((from, to)) = self.words.take_dirty()
        {
            self.persist(from, to.min(self.words.end()))?;
        }
        self.words.soil(from, to);
        Ok(())
    }

    #[inline]
    fn persist(&self, from: u64, to: u64) -> Result<(), HomeError> {
        let flushed = self.home.flush(from, to.saturating_sub(from), point::BYTES);
        self.home.fence(point::BYTES);
        Ok(flushed.inspect_err(|_| self.words.suspect())?)
    }
}
