//! Writes, reads, truncations and syncs of a DAX-resident file.
//!
//! The caller holds the file's lock. A signal handler may interrupt it and write inside: its bytes go behind those being written. The demoter
//! waits for neither; a call that it overtakes fails with [`ResidentError::Demoting`] and is repeated by the kernel.

use crate::log::Source;
use byway_tdm_region::Memory;

use crate::resident::file::{ResidentError, ResidentFile};
use crate::resident::point;
use crate::resident::words::ResidentWords;

/// Distance of two writes that makes flushing the first one worth a fence: the dirty range is one.
const DISTANT_BYTES: u64 = 4096;

/// A DAX-resident file and its shared words.
#[derive(Debug)]
pub struct ResidentIo<'a, M> {
    resident: ResidentFile<'a, M>,
    words: ResidentWords<'a>,
}

impl<'a, M: Memory> ResidentIo<'a, M> {
    /// The file with these words.
    #[inline]
    #[must_use]
    pub const fn new(resident: ResidentFile<'a, M>, words: ResidentWords<'a>) -> Self {
        Self { resident, words }
    }

    /// Its bytes and header in device memory.
    #[must_use]
    pub const fn resident(&self) -> ResidentFile<'a, M> {
        self.resident
    }

    /// Its words.
    #[must_use]
    pub const fn words(&self) -> ResidentWords<'a> {
        self.words
    }

    /// Begins a call: drops reservations of a dead thread. Not for a signal handler inside another call.
    #[inline]
    pub fn enter(&self) {
        self.words.forget_reserved();
    }

    /// Its size.
    #[inline]
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.words.size_bytes().min(self.resident.room_bytes())
    }

    /// Reserves bytes at the end, also against signal handlers; returns the offset for [`ResidentIo::write_claimed`].
    ///
    /// # Errors
    /// [`ResidentError::Outgrown`]: nothing changed.
    #[inline]
    pub fn claim(&self, len_bytes: u64) -> Result<u64, ResidentError> {
        let room_bytes = self.resident.room_bytes();
        self.words
            .reserve_behind(len_bytes, room_bytes)
            .map_err(|end| ResidentError::Outgrown(end.saturating_add(len_bytes)))
    }

    /// Writes reserved bytes.
    ///
    /// # Errors
    /// [`ResidentError::Demoting`], [`ResidentError::Memory`].
    #[inline]
    pub fn write_claimed(
        &self,
        at: u64,
        len_bytes: u64,
        source: &mut impl Source,
    ) -> Result<(), ResidentError> {
        self.put(at, (at, len_bytes), source)
    }

    /// Appends; returns the offset.
    ///
    /// # Errors
    /// [`ResidentError::Outgrown`]: nothing changed; [`ResidentError::Demoting`], [`ResidentError::Memory`].
    #[inline]
    pub fn append(&self, len_bytes: u64, source: &mut impl Source) -> Result<u64, ResidentError> {
        let at = self.claim(len_bytes)?;
        self.write_claimed(at, len_bytes, source)?;
        Ok(at)
    }

    /// Writes at an offset, possibly beyond the end.
    ///
    /// # Errors
    /// As [`ResidentIo::append`].
    #[inline]
    pub fn write(&self, at: u64, len_bytes: u64, source: &mut impl Source) -> Result<(), ResidentError> {
        if len_bytes == 0 {
            return Ok(());
        }
        self.resident.check_room(at, len_bytes)?;
        let was_end = self.words.reserve(at + len_bytes);
        self.put(at.min(was_end), (at, len_bytes), source)
    }

    /// Stores reserved bytes, and zeroes from `from` up to them, as the place may hold bytes of an earlier use. Marked dirty afterwards: a sync in
    /// between has nothing of them.
    #[inline]
    fn put(
        &self,
        from: u64,
        (at, len_bytes): (u64, u64),
        source: &mut impl Source,
    ) -> Result<(), ResidentError> {
        let end = at + len_bytes;
        self.part(from, end)?;
        self.resident.put_zeroes(from, at)?;
        self.resident.put(at, len_bytes, source)?;
        self.words.soil(from, end);
        if self.words.grow() { Ok(()) } else { Err(ResidentError::Demoting) }
    }

    /// Reads at an offset; returns the bytes read.
    ///
    /// # Errors
    /// [`ResidentError::Memory`].
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, ResidentError> {
        let there = self.size_bytes().saturating_sub(at).min(into.len() as u64) as usize;
        self.resident.read(at, &mut into[..there])?;
        Ok(there)
    }

    /// Truncates the file, or extends it by zeroes. Durable when this returns.
    ///
    /// # Errors
    /// As [`ResidentIo::append`].
    pub fn truncate(&self, size_bytes: u64) -> Result<(), ResidentError> {
        self.resident.check_room(0, size_bytes)?;
        let was = self.words.size_bytes();
        if size_bytes > was {
            let was_end = self.words.reserve(size_bytes).min(size_bytes);
            return self.put(was_end, (size_bytes, 0), &mut Nothing);
        }
        if size_bytes < self.words.kept_bytes() {
            // Durable first: later bytes must not appear under the old size.
            self.resident.keep_truncation(size_bytes)?;
            self.words.set_truncated(size_bytes);
        }
        if self.words.shrink(size_bytes) { Ok(()) } else { Err(ResidentError::Demoting) }
    }

    /// Makes all writes durable: data, fence, size, fence; one fence if the file did not grow.
    ///
    /// # Errors
    /// [`ResidentError::Memory`]: the next sync tries again.
    #[inline]
    pub fn sync(&self) -> Result<(), ResidentError> {
        loop {
            // Load the durable size before the size: a signal handler may sync in between, and its size stays.
            let kept = self.resident.kept_word()?;
            let size = self.size_bytes();
            let kept_bytes = self.words.kept_bytes();
            if self.words.begin_flush() {
                self.words.suspect();
            }
            if let Some((from, to)) = self.words.take_dirty() {
                self.persist(from, to.min(self.words.end()))?;
            }
            let is_kept = size == kept_bytes
                || self.resident.keep_grown(kept, size).inspect_err(|_| self.words.suspect())?;
            if is_kept {
                self.words.set_kept(size);
            }
            if self.size_bytes() == size {
                return Ok(());
            }
        }
    }

    /// Flushes the dirty range if the next write is far from it.
    #[inline]
    fn part(&self, from: u64, to: u64) -> Result<(), ResidentError> {
        let is_distant = |dirty: (u64, u64)| from > dirty.1 + DISTANT_BYTES || dirty.0 > to + DISTANT_BYTES;
        if self.words.dirty().is_some_and(is_distant) { self.clean() } else { Ok(()) }
    }

    /// Flushes the dirty range, but not the size.
    #[cold]
    fn clean(&self) -> Result<(), ResidentError> {
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
    fn persist(&self, from: u64, to: u64) -> Result<(), ResidentError> {
        let flushed = self.resident.flush(from, to.saturating_sub(from), point::BYTES);
        self.resident.fence(point::BYTES);
        Ok(flushed.inspect_err(|_| self.words.suspect())?)
    }
}

/// An empty source.
struct Nothing;

impl Source for Nothing {
    fn fill(&mut self, _: &mut [u8]) {}
}
