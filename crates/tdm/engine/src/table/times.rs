//! How long calls of a file took, of those that were timed: counted as counters are, in the buckets that the policy compares.

use byway_tdm_policy::{BUCKETS, Histogram, bucket_of};

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::counters::add;

/// The buckets of one kind of call, and how long all of them took together.
const HISTOGRAM_WORDS: usize = BUCKETS + 1;

/// Words of times.
pub(super) const TIMES: usize = 6 * HISTOGRAM_WORDS;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Timed {
    /// The kernel's part of a write, at any level.
    LowerWrite,
    /// A sync below that has its own bytes to bring down and no others'.
    LowerSync,
    /// What absorbing adds to a write; at home all of it.
    LevelWrite,
    /// A sync at its level, as a whole.
    LevelSync,
    /// A read that the kernel does.
    LowerRead,
    /// A read at home.
    LevelRead,
}

/// A file's times.
#[derive(Debug, Clone, Copy)]
pub struct Times<'b>(pub(super) &'b [AtomicU64; TIMES]);

impl Times<'_> {
    /// Counts a call that took so long.
    #[inline]
    pub fn record(&self, what: Timed, ns: u64) {
        let first = what as usize * HISTOGRAM_WORDS;
        add(&self.0[first + bucket_of(ns)], 1);
        add(&self.0[first + BUCKETS], ns);
    }

    /// All that were counted.
    #[must_use]
    pub fn get(&self, what: Timed) -> Histogram {
        let first = what as usize * HISTOGRAM_WORDS;
        let word = |at: usize| self.0[first + at].load(Ordering::Relaxed);
        Histogram { buckets: std::array::from_fn(word), total_ns: word(BUCKETS) }
    }

    /// As of a file of which none was timed.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_timed_of_one_kind_is_not_of_another() {
        let words = [const { AtomicU64::new(0) }; TIMES];
        let times = Times(&words);
        times.record(Timed::LowerSync, 200_000);
        times.record(Timed::LevelSync, u64::MAX);
        let mut expected = Histogram::default();
        expected.record(200_000);
        assert_eq!(times.get(Timed::LowerSync), expected);
        assert_eq!(times.get(Timed::LevelSync).count(), 1);
        assert_eq!(times.get(Timed::LowerWrite), Histogram::default());
        times.clear();
        assert_eq!(times.get(Timed::LowerSync), Histogram::default());
    }
}
