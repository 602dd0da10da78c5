//! What a write, a read, a truncation and a sync of a file at home do.
//!
//! Whoever calls holds the file's lock. A signal handler may interrupt whoever holds it and come here in its midst: what it writes lies
//! behind what is being written. Whoever brings the file below waits for neither: what is under way then fails as [`HomeError::Leaving`], and is done
//! again by the kernel.

use crate::log::Source;
use byway_tdm_region::Memory;

use crate::resident::home::{Home, HomeError};
use crate::resident::point;
use crate::resident::words::HomeWords;

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

    /// Has a write to its end be nobody else's place, whoever interrupts it; where that is. It is written by [`Resident::write_claimed`].
    ///
    /// # Errors
    /// [`HomeError::Outgrown`] changes nothing.
    #[inline]
    pub fn claim(&self, len_bytes: u64) -> Result<u64, HomeError> {
        let room_bytes = self.home.room_bytes();
        self.words
            .reserve_behind(len_bytes, room_bytes)
            .map_err(|end| HomeError::Outgrown(end.saturating_add(len_bytes)))
    }

    /// Writes where it was claimed.
    ///
    /// # Errors
    /// [`HomeError::Leaving`], [`HomeError::Memory`].
    #[inline]
    pub fn write_claimed(&self, at: u64, len_bytes: u64, source: &mut impl Source) -> Result<(), HomeError> {
        self.put(at, (at, len_bytes), source)
    }

    /// Writes behind its end; says where that was.
    ///
    /// # Errors
    /// [`HomeError::Outgrown`] changes nothing; [`HomeError::Leaving`], [`HomeError::Memory`].
    #[inline]
    pub fn append(&self, len_bytes: u64, source: &mut impl Source) -> Result<u64, HomeError> {
        let at = self.claim(len_bytes)?;
        self.write_claimed(at, len_bytes, source)?;
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
        let was_end = self.words.reserve(at + len_bytes);
        self.put(at.min(was_end), (at, len_bytes), source)
    }

    /// Puts bytes where they are reserved, and zeroes from `from` up to them: what was there in an earlier use of the place shows nowhere.
    /// They are dirty once they are there, as a sync in between has nothing of them.
    #[inline]
    fn put(&self, from: u64, (at, len_bytes): (u64, u64), source: &mut impl Source) -> Result<(), HomeError> {
        let end = at + len_bytes;
        self.part(from, end)?;
        self.home.put_zeroes(from, at)?;
        self.home.put(at, len_bytes, source)?;
        self.words.soil(from, end);
        if self.words.grow() { Ok(()) } else { Err(HomeError::Leaving) }
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
            let was_end = self.words.reserve(size_bytes).min(size_bytes);
            return self.put(was_end, (size_bytes, 0), &mut Nothing);
        }
        if size_bytes < self.words.kept_bytes() {
            // What comes behind it from here on is not to be found under the old size.
            self.home.keep_cut(size_bytes)?;
            self.words.set_cut(size_bytes);
        }
        if self.words.shrink(size_bytes) { Ok(()) } else { Err(HomeError::Leaving) }
    }

    /// Keeps all that was written, whoever wrote it.
    ///
    /// # Errors
    /// [`HomeError::Memory`]: the next sync tries again.
    #[inline]
    pub fn sync(&self) -> Result<(), HomeError> {
        loop {
            // Before the size: a signal handler that wrote in between, and synced that, has kept another one, which stays.
            let kept = self.home.kept_word()?;
            let size = self.size_bytes();
            let kept_bytes = self.words.kept_bytes();
            if self.words.begin_flush() {
                self.words.suspect();
            }
            if let Some((from, to)) = self.words.take_dirty() {
                self.persist(from, to.min(self.words.end()))?;
            }
            let is_kept = size == kept_bytes
                || self.home.keep_grown(kept, size).inspect_err(|_| self.words.suspect())?;
            if is_kept {
                self.words.set_kept(size);
            }
            if self.size_bytes() == size {
                return Ok(());
            }
        }
    }

    /// Has what is dirty kept first if a range that is about to be written lies apart from it.
    #[inline]
    fn part(&self, from: u64, to: u64) -> Result<(), HomeError> {
        let is_apart = |dirty: (u64, u64)| from > dirty.1 + APART_BYTES || dirty.0 > to + APART_BYTES;
        if self.words.dirty().is_some_and(is_apart) { self.clean() } else { Ok(()) }
    }

    /// Has what is dirty kept, and no size.
    #[cold]
    fn clean(&self) -> Result<(), HomeError> {
        let is_inside = self.words.begin_flush();
        if let Some((from, to)) = self.words.take_dirty() {
            self.persist(from, to.min(self.words.end()))?;
        }
        if !is_inside {
            self.words.end_flush();
        }
        Ok(())
    }

    #[inline]
    fn persist(&self, from: u64, to: u64) -> Result<(), HomeError> {
        let flushed = self.home.flush(from, to.saturating_sub(from), point::BYTES);
        self.home.fence(point::BYTES);
        Ok(flushed.inspect_err(|_| self.words.suspect())?)
    }
}

/// No bytes.
struct Nothing;

impl Source for Nothing {
    fn fill(&mut self, _: &mut [u8]) {}
}
