//! Threads that read what a run lock guards, beside each other, while no thread holds the lock.
//!
//! Each reader sets a mark on a cache line of its own, so readers share no line that is written. A thread that acquires
//! the lock waits for the marks that are set; a reader that finds the lock held reads nothing. This is the big-reader
//! lock of Linux 2.4 (`brlock`) with the run lock as its writer.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, pause};

/// Words of known readers.
const WORDS: usize = 2;

/// Most readers of one lock: a bit each.
pub const MAX_READERS: usize = WORDS * u64::BITS as usize;

/// A mark, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Mark(AtomicU32);

/// The marks of all readers of a lock.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Bit `n`: reader `n` may read. Written under the lock.
    known: [AtomicU64; WORDS],
    marks: Box<[Mark]>,
}

/// The right to read what a run lock guards, until it is dropped.
#[derive(Debug)]
pub struct Reading<'a>(&'a Mark);

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was read was read before the next holder stores anything.
        self.0.0.store(0, Ordering::Release);
    }
}

impl Readers {
    /// Marks of at most `count` readers.
    pub(crate) fn new(count: usize) -> Self {
        let marks = (0..count.min(MAX_READERS)).map(|_| Mark(AtomicU32::new(0))).collect();
        Self { known: [AtomicU64::new(0), AtomicU64::new(0)], marks }
    }

    /// Lets a reader read. The caller holds the lock, so that each later holder knows of it.
    pub(crate) fn add(&self, reader: usize) {
        if reader < self.marks.len() {
            self.known[reader / 64].fetch_or(1 << (reader % 64), Ordering::Relaxed);
        }
    }

    /// Lets a reader that does not read now read no more: no thread that acquires the lock looks at its mark. The caller holds the lock.
    pub(crate) fn remove(&self, reader: usize) {
        if reader < self.marks.len() {
            self.known[reader / 64].fetch_and(!(1 << (reader % 64)), Ordering::Relaxed);
        }
    }

    /// How many readers may read.
    pub(crate) fn count(&self) -> u32 {
        self.known.iter().map(|known| known.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// Sets the mark of a reader; `None` if it is set already, or was not added. The caller then checks that the lock is free.
    #[inline]
    pub(crate) fn begin(&self, reader: usize) -> Option<Reading<'_>> {
        let mark = self.marks.get(reader)?;
        let is_known = self.known[reader / 64].load(Ordering::Relaxed) >> (reader % 64) & 1 == 1;
        if !is_known || mark.0.swap(1, Ordering::Relaxed) == 1 {
            return None;
        }
        // With the fence in `wait_for`: the holder sees the mark, or the reader sees that the lock is held.
        fence(Ordering::SeqCst);
        Some(Reading(mark))
    }

    /// Waits until no mark is set. The caller has just acquired the lock, so no reader begins.
    #[inline]
    pub(crate) fn wait(&self) {
        let known = [0, 1].map(|at: usize| self.known[at].load(Ordering::Relaxed));
        if known != [0; WORDS] {
            self.wait_for(known);
        }
    }

    fn wait_for(&self, known: [u64; WORDS]) {
        fence(Ordering::SeqCst);
        for (marks, mut known) in self.marks.chunks(64).zip(known) {
            while known != 0 {
                if let Some(mark) = marks.get(known.trailing_zeros() as usize) {
                    mark.wait();
                }
                known &= known - 1;
            }
        }
    }
}

impl Mark {
    #[inline]
    fn wait(&self) {
        let mut round = 0;
        // Acquire: the reader has read all it wanted.
        while self.0.load(Ordering::Acquire) == 1 {
            pause(round);
            round = round.saturating_add(1);
        }
    }
}
