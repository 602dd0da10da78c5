//! Histograms of sampled call times, in the policy's buckets.

use byway_tdm_policy::{BUCKETS, Histogram, bucket_of};

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::counters::add;

/// Words of a histogram: its buckets and the sum.
const HISTOGRAM_WORDS: usize = BUCKETS + 1;

/// Words of a file's histograms.
pub(super) const TIMES: usize = 6 * HISTOGRAM_WORDS;

/// Part of a call that has a histogram of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Timed {
    /// The kernel's part of a write, at any level.
    LowerWrite,
    /// A real sync with little else to write back.
    LowerSync,
    /// What ABSORB adds to a write; a whole write at DAX.
    LevelWrite,
    /// A sync at the file's level.
    LevelSync,
    /// A read by the kernel.
    LowerRead,
    /// A read from device memory.
    LevelRead,
}

/// A file's histograms.
#[derive(Debug, Clone, Copy)]
pub struct Times<'b>(pub(super) &'b [AtomicU64; TIMES]);

impl Times<'_> {
    /// Adds a call of that many nanoseconds.
    #[inline]
    pub fn record(&self, what: Timed, ns: u64) {
        let first = what as usize * HISTOGRAM_WORDS;
        add(&self.0[first + bucket_of(ns)], 1);
        add(&self.0[first + BUCKETS], ns);
    }

    /// A histogram.
    #[must_use]
    pub fn get(&self, what: Timed) -> Histogram {
        let first = what as usize * HISTOGRAM_WORDS;
        let word = |at: usize| self.0[first + at].load(Ordering::Relaxed);
        Histogram { buckets: std::array::from_fn(word), total_ns: word(BUCKETS) }
    }

    /// Clears them.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_kind_do_not_count_for_another() {
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
