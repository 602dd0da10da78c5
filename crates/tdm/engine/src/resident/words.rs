//! Words shared by all writers of a DAX-resident file. They lie in host memory and do not survive power loss.
//!
//! The demoter and calls meet at the size word: every change ends with a step on it, and so does closing it, so one comes first. Release and
//! Acquire: the demoter reads what earlier calls stored. `model/` runs this under loom.

use byway_sys::cacheline::LINE_BYTES;

use crate::resident::atomic::{AtomicU64, Ordering};

/// Words of a DAX-resident file.
pub const RESIDENT_WORDS: usize = 4;

const SIZE: usize = 0;
const RESERVED: usize = 1;
const KEPT: usize = 2;
const DIRTY: usize = 3;

/// A dirty range of the whole file.
const ALL: u64 = u32::MAX as u64;

/// Flag of a size: closed by the demoter, later writes are not included.
const CLOSED: u64 = 1 << 63;

/// Flag of the durable size: a dirty range is being flushed.
const FLUSHING: u64 = 1 << 63;

/// Size, reserved end, durable size and dirty range. Changed under the file's lock, also by a signal handler that interrupted the holder: each
/// change is one step. The demoter does not hold that lock; a closed size no longer changes.
#[derive(Debug, Clone, Copy)]
pub struct ResidentWords<'w>(&'w [AtomicU64; RESIDENT_WORDS]);

impl<'w> ResidentWords<'w> {
    /// The words.
    #[must_use]
    pub const fn new(words: &'w [AtomicU64; RESIDENT_WORDS]) -> Self {
        Self(words)
    }

    /// Begins with a durable file of that size.
    pub fn begin(&self, size_bytes: u64) {
        for word in [SIZE, RESERVED, KEPT] {
            self.set(word, size_bytes);
        }
        self.set(DIRTY, 0);
    }

    /// Marks all of the file dirty: a holder of the lock died.
    pub fn suspect(&self) {
        self.set(DIRTY, ALL);
    }

    /// The size.
    #[inline]
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.get(SIZE) & !CLOSED
    }

    /// Closes the size for the demoter; returns it. A write in flight is included if it has grown the size before.
    pub fn close(&self) -> u64 {
        self.0[SIZE].fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED
    }

    /// Reopens the size: the file stays DAX-resident.
    pub fn reopen(&self) {
        self.0[SIZE].fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// Whether the size is closed.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.get(SIZE) & CLOSED != 0
    }

    /// Whether a sync has nothing to do.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.get(DIRTY) == 0 && self.size_bytes() == self.kept_bytes()
    }

    /// Drops reservations of a dead thread.
    #[inline]
    pub(super) fn forget_reserved(&self) {
        self.set(RESERVED, self.size_bytes());
    }

    /// The end, including reserved bytes.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.size_bytes().max(self.get(RESERVED))
    }

    /// Reserves bytes up to `end`; returns the end before, including reservations.
    #[inline]
    pub(super) fn reserve(&self, end: u64) -> u64 {
        self.0[RESERVED].fetch_max(end, Ordering::AcqRel)
    }

    /// Reserves bytes at the end; returns their offset. The end is the error if they do not fit.
    #[inline]
    pub(super) fn reserve_behind(&self, len_bytes: u64, room_bytes: u64) -> Result<u64, u64> {
        let behind = |end: u64| end.checked_add(len_bytes).filter(|end| *end <= room_bytes);
        self.0[RESERVED].fetch_update(Ordering::AcqRel, Ordering::Acquire, behind)
    }

    /// Grows the size to what is reserved. `false` if it was closed before.
    #[inline]
    #[must_use]
    pub(super) fn grow(&self) -> bool {
        self.0[SIZE].fetch_max(self.get(RESERVED), Ordering::AcqRel) & CLOSED == 0
    }

    /// Shrinks the size. `false` if it was closed before.
    #[must_use]
    pub(super) fn shrink(&self, size_bytes: u64) -> bool {
        let truncated = |was: u64| (was & CLOSED == 0).then_some(size_bytes);
        let is_truncated = self.0[SIZE].fetch_update(Ordering::AcqRel, Ordering::Acquire, truncated).is_ok();
        if is_truncated {
            self.set(RESERVED, size_bytes);
        }
        is_truncated
    }

    #[inline]
    pub(super) fn kept_bytes(&self) -> u64 {
        self.get(KEPT) & !FLUSHING
    }

    /// Sets the durable size, with all dirty bytes below it flushed.
    #[inline]
    pub(super) fn set_kept(&self, size_bytes: u64) {
        self.set(KEPT, size_bytes);
    }

    /// Sets the durable size after a truncation, which flushes nothing.
    pub(super) fn set_truncated(&self, size_bytes: u64) {
        self.set(KEPT, size_bytes | self.get(KEPT) & FLUSHING);
    }

    /// Begins a flush. `true` if another flush is unfinished, in the call that this signal handler interrupted or in a dead thread: its range is lost.
    #[inline]
    #[must_use]
    pub(super) fn begin_flush(&self) -> bool {
        let was = self.get(KEPT);
        self.set(KEPT, was | FLUSHING);
        was & FLUSHING != 0
    }

    /// Ends a flush.
    pub(super) fn end_flush(&self) {
        self.0[KEPT].fetch_and(!FLUSHING, Ordering::AcqRel);
    }

    /// The dirty range: first byte and end.
    #[inline]
    pub(super) fn dirty(&self) -> Option<(u64, u64)> {
        Self::range_of(self.get(DIRTY))
    }

    /// Extends the dirty range, before a write.
    #[inline]
    pub(super) fn soil(&self, from: u64, to: u64) {
        let (first, end) = (from / LINE_BYTES as u64, to.div_ceil(LINE_BYTES as u64).min(ALL));
        let join = |word: u64| {
            let (was_first, was_end) = (word >> 32, word & ALL);
            let first = if word == 0 { first } else { first.min(was_first) };
            Some(first << 32 | end.max(was_end))
        };
        let _ = self.0[DIRTY].fetch_update(Ordering::AcqRel, Ordering::Acquire, join);
    }

    /// Takes the dirty range and clears it.
    #[inline]
    pub(super) fn take_dirty(&self) -> Option<(u64, u64)> {
        Self::range_of(self.0[DIRTY].swap(0, Ordering::AcqRel))
    }

    fn range_of(word: u64) -> Option<(u64, u64)> {
        (word != 0).then_some(((word >> 32) * LINE_BYTES as u64, (word & ALL) * LINE_BYTES as u64))
    }

    #[inline]
    fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn closed_size_does_not_change_until_reopened() {
        let words: [AtomicU64; RESIDENT_WORDS] = Default::default();
        let words = ResidentWords::new(&words);
        words.begin(5);
        assert_eq!(words.reserve(9), 5);
        assert_eq!(words.close(), 5);
        assert!(words.is_closed() && !words.grow() && !words.shrink(1));
        assert_eq!((words.size_bytes(), words.close()), (5, 5));
        words.reopen();
        assert!(!words.is_closed() && words.grow() && words.size_bytes() == 9);
        assert!(words.shrink(1) && words.size_bytes() == 1);
    }

    #[test]
    fn dirty_range_is_whole_lines_and_grows_until_taken() {
        let words: [AtomicU64; RESIDENT_WORDS] = Default::default();
        let words = ResidentWords::new(&words);
        words.begin(0);
        assert_eq!(words.dirty(), None);
        words.soil(70, 71);
        assert_eq!(words.dirty(), Some((64, 128)));
        words.soil(0, 1);
        words.soil(300, 320);
        assert_eq!(words.take_dirty(), Some((0, 320)));
        assert!(words.is_kept());
        words.suspect();
        assert!(!words.is_kept());
    }
}
