//! The words that all who write a file at home share: in memory of the host, gone with its power.
//!
//! Whoever brings the file below meets those who are inside of calls at one word, its size. Every change ends by a step there, and closing it is a step there, so one
//! of the two comes first. Release and Acquire: whoever closes it reads from the home what was stored before the steps that came first. `src/model` has the model
//! checker try that.

use byway_sys::cacheline::LINE_BYTES;

use crate::resident::atomic::{AtomicU64, Ordering};

/// Words that a file has while device memory is its home.
pub const HOME_WORDS: usize = 4;

const SIZE: usize = 0;
const RESERVED: usize = 1;
const KEPT: usize = 2;
const DIRTY: usize = 3;

/// From the first line of a file to its last, however long it is.
const ALL: u64 = u32::MAX as u64;

/// In a size: somebody brings the file below, of that size, and what is written from here on is not in it.
const LEAVES: u64 = 1 << 63;

/// In what is kept: somebody has taken what is dirty, and it is not kept yet.
const FLUSHES: u64 = 1 << 63;

/// What a file is now, and what of that is kept. Changed under the file's lock; by a signal handler that interrupted whoever holds it too,
/// so that each word is changed in one step and none is read twice. Who brings it below has another lock: a size that is closed is changed no more.
#[derive(Debug, Clone, Copy)]
pub struct HomeWords<'w>(&'w [AtomicU64; HOME_WORDS]);

impl<'w> HomeWords<'w> {
    /// The words that these are.
    #[must_use]
    pub const fn new(words: &'w [AtomicU64; HOME_WORDS]) -> Self {
        Self(words)
    }

    /// Begins with a file of that size, all of it kept.
    pub fn begin(&self, size_bytes: u64) {
        for word in [SIZE, RESERVED, KEPT] {
            self.set(word, size_bytes);
        }
        self.set(DIRTY, 0);
    }

    /// Whoever held the lock died with it: anything may have been written since it was kept.
    pub fn suspect(&self) {
        self.set(DIRTY, ALL);
    }

    /// The file's size.
    #[inline]
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.get(SIZE) & !LEAVES
    }

    /// Closes it at the size that it has, for who brings it below; that size. Whatever was written before is in it, whoever is still inside of a
    /// call: his write is over where it has grown, and not otherwise.
    pub fn close(&self) -> u64 {
        self.0[SIZE].fetch_or(LEAVES, Ordering::AcqRel) & !LEAVES
    }

    /// It stays at home after all.
    pub fn reopen(&self) {
        self.0[SIZE].fetch_and(!LEAVES, Ordering::AcqRel);
    }

    /// Whether it is closed.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.get(SIZE) & LEAVES != 0
    }

    /// Whether a sync has something to do.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.get(DIRTY) == 0 && self.size_bytes() == self.kept_bytes()
    }

    /// Forgets what somebody reserved and died.
    #[inline]
    pub(super) fn forget_reserved(&self) {
        self.set(RESERVED, self.size_bytes());
    }

    /// Where the file ends, with what is being written behind it.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.size_bytes().max(self.get(RESERVED))
    }

    /// Somebody writes up to there; where the file ended before, with what others write.
    #[inline]
    pub(super) fn reserve(&self, end: u64) -> u64 {
        self.0[RESERVED].fetch_max(end, Ordering::AcqRel)
    }

    /// Somebody writes so much to the end, and nobody else does there: where that is, if there is room.
    #[inline]
    pub(super) fn reserve_behind(&self, len_bytes: u64, room_bytes: u64) -> Result<u64, u64> {
        let behind = |end: u64| end.checked_add(len_bytes).filter(|end| *end <= room_bytes);
        self.0[RESERVED].fetch_update(Ordering::AcqRel, Ordering::Acquire, behind)
    }

    /// What was reserved is written; whether it is part of the file, which was not closed before.
    #[inline]
    #[must_use]
    pub(super) fn grow(&self) -> bool {
        self.0[SIZE].fetch_max(self.get(RESERVED), Ordering::AcqRel) & LEAVES == 0
    }

    /// The file was cut; whether it was, as it was not closed before.
    #[must_use]
    pub(super) fn shrink(&self, size_bytes: u64) -> bool {
        let cut = |was: u64| (was & LEAVES == 0).then_some(size_bytes);
        let is_cut = self.0[SIZE].fetch_update(Ordering::AcqRel, Ordering::Acquire, cut).is_ok();
        if is_cut {
            self.set(RESERVED, size_bytes);
        }
        is_cut
    }

    #[inline]
    pub(super) fn kept_bytes(&self) -> u64 {
        self.get(KEPT) & !FLUSHES
    }

    /// A size was kept, and all that was dirty below it.
    #[inline]
    pub(super) fn set_kept(&self, size_bytes: u64) {
        self.set(KEPT, size_bytes);
    }

    /// A size was kept by a cut, which flushes nothing.
    pub(super) fn set_cut(&self, size_bytes: u64) {
        self.set(KEPT, size_bytes | self.get(KEPT) & FLUSHES);
    }

    /// What is dirty is about to be taken. Whether somebody is in the midst of that already: below the signal handler that asks, or dead. What he took is nowhere
    /// to be found.
    #[inline]
    #[must_use]
    pub(super) fn begin_flush(&self) -> bool {
        let was = self.get(KEPT);
        self.set(KEPT, was | FLUSHES);
        was & FLUSHES != 0
    }

    /// What was taken is kept.
    pub(super) fn end_flush(&self) {
        self.0[KEPT].fetch_and(!FLUSHES, Ordering::AcqRel);
    }

    /// What is dirty: from where up to where.
    #[inline]
    pub(super) fn dirty(&self) -> Option<(u64, u64)> {
        Self::range_of(self.get(DIRTY))
    }

    /// A range is about to be written.
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

    /// What is dirty, which is nothing from here on.
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
    fn a_size_that_is_closed_neither_grows_nor_shrinks_until_the_file_stays() {
        let words: [AtomicU64; HOME_WORDS] = Default::default();
        let words = HomeWords::new(&words);
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
    fn what_is_dirty_is_in_whole_lines_and_grows_until_it_is_taken() {
        let words: [AtomicU64; HOME_WORDS] = Default::default();
        let words = HomeWords::new(&words);
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
