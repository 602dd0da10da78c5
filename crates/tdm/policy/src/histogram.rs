//! Histograms of call times, counted by clients in shared memory.

/// Buckets: two for each doubling, from 64 ns to 0.5 s.
pub const BUCKETS: usize = 48;

/// log2 of the first bound.
const FIRST: u32 = 6;

/// Bucket of a time.
#[must_use]
pub const fn bucket_of(ns: u64) -> usize {
    if ns < 1 << FIRST {
        return 0;
    }
    let doubling = ns.ilog2();
    let half = (ns >> (doubling - 1)) & 1;
    let bucket = 1 + 2 * (doubling - FIRST) as usize + half as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// Upper bound of a bucket; the last has none.
#[must_use]
pub const fn bucket_top_ns(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS {
        return u64::MAX;
    }
    let half = (bucket % 2) as u64;
    // Even buckets end at a doubling, odd ones half way to the next.
    (2 + half) << (FIRST as usize - 1 + bucket / 2)
}

/// Times of sampled calls since the file was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    /// Calls of each bucket.
    pub buckets: [u64; BUCKETS],
    /// Sum of their times.
    pub total_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], total_ns: 0 }
    }
}

impl Histogram {
    /// Adds a call.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Adds calls of equal time.
    pub fn record_many(&mut self, ns: u64, calls: u64) {
        let bucket = &mut self.buckets[bucket_of(ns)];
        *bucket = bucket.saturating_add(calls);
        self.total_ns = self.total_ns.saturating_add(ns.saturating_mul(calls));
    }

    /// Number of calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum: u64, calls| sum.saturating_add(*calls))
    }

    /// Calls since `before`. None if a counter went back: it was spoiled.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = Self { total_ns: self.total_ns.saturating_sub(before.total_ns), ..Self::default() };
        for (into, (now, then)) in since.buckets.iter_mut().zip(self.buckets.iter().zip(&before.buckets)) {
            *into = now.saturating_sub(*then);
        }
        since
    }
}

/// Calls kept before older ones are scaled down.
const REMEMBERED: u64 = 4096;

/// Least calls for a percentile.
pub(crate) const ENOUGH: u64 = 100;

/// Distribution of the last few thousand calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recent {
    buckets: [u64; BUCKETS],
    count: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0 }
    }
}

impl Recent {
    pub(crate) fn add(&mut self, new: &Histogram) {
        for (into, calls) in self.buckets.iter_mut().zip(&new.buckets) {
            *into = into.saturating_add(*calls);
        }
        self.recount();
        while self.count > REMEMBERED {
            self.buckets.iter_mut().for_each(|calls| *calls /= 2);
            self.recount();
        }
    }

    fn recount(&mut self) {
        self.count = self.buckets.iter().fold(0, |sum: u64, calls| sum.saturating_add(*calls));
    }

    /// Lower bound of the 99th percentile, with enough calls.
    pub(crate) fn p99_least_ns(&self) -> Option<f64> {
        self.p99().map(|bucket| if bucket == 0 { 0.0 } else { bucket_top_ns(bucket - 1) as f64 })
    }

    /// Upper bound of the 99th percentile.
    pub(crate) fn p99_most_ns(&self) -> Option<f64> {
        self.p99().map(|bucket| bucket_top_ns(bucket) as f64)
    }

    fn p99(&self) -> Option<usize> {
        if self.count < ENOUGH {
            return None;
        }
        let wanted = self.count - self.count / 100;
        let mut stats = 0;
        self.buckets.iter().position(|calls| {
            stats += calls;
            stats >= wanted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_in_the_first_bucket_that_ends_behind_it() {
        for ns in (0..20).chain([63, 64, 95, 96, 127, 128, 191, 192, 1_000_000, 400_000_000, u64::MAX]) {
            let bucket = bucket_of(ns);
            assert!(ns < bucket_top_ns(bucket) || bucket == BUCKETS - 1, "{ns} in {bucket}");
            assert!(bucket == 0 || ns >= bucket_top_ns(bucket - 1), "{ns} in {bucket}");
        }
    }

    #[test]
    fn the_slowest_hundredth_is_left_out_of_a_percentile() {
        let mut recent = Recent::default();
        let mut timed = Histogram::default();
        timed.record_many(1000, 990);
        timed.record_many(1_000_000, 10);
        recent.add(&timed);
        assert_eq!(recent.p99(), Some(bucket_of(1000)));
        timed = Histogram::default();
        timed.record(1_000_000);
        recent.add(&timed);
        assert_eq!(recent.p99(), Some(bucket_of(1_000_000)));
    }
}
