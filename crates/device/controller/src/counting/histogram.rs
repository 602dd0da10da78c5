//! Histograms of command durations, in buckets that grow by a third and by a half in turn.

/// Buckets with a bound. One more holds longer times.
const BOUNDED: usize = 48;

/// The first bound is 512 ns: two to this power.
const FIRST_LOG2: u32 = 9;

/// Times of commands in nanoseconds. A bucket holds what took its bound or less, and more than the bound before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BOUNDED + 1],
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BOUNDED + 1], sum_ns: 0 }
    }
}

impl Histogram {
    /// One command took so long.
    #[inline]
    pub fn note(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, count)| *mine += count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Each bucket's upper bound in nanoseconds, with how many commands took at most that and more than the bound before.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().take(BOUNDED).enumerate().map(|(at, count)| (bound_ns(at), *count))
    }

    /// Number of commands.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of their times.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
}

/// The bound of bucket `at`: 512, 768, 1024, 1536, … ns, up to 6.4 s.
const fn bound_ns(at: usize) -> u64 {
    let whole = 1 << (FIRST_LOG2 as usize + at / 2);
    if at.is_multiple_of(2) { whole } else { whole + whole / 2 }
}

/// The bucket of a time: the first whose bound is not below it.
#[inline]
fn bucket(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    if below < bound_ns(0) {
        return 0;
    }
    let log2 = below.ilog2();
    let upper_half = (below >> (log2 - 1)) & 1;
    (2 * (log2 - FIRST_LOG2) as usize + 1 + upper_half as usize).min(BOUNDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_is_not_below_it() {
        for at in 0..BOUNDED {
            let bound = bound_ns(at);
            assert_eq!((bucket(bound), bucket(bound + 1)), (at, at + 1), "{bound}");
        }
        assert_eq!((bucket(0), bucket(1), bucket(u64::MAX)), (0, 0, BOUNDED));
    }

    #[test]
    fn buckets_are_counted_up_to_their_bound() {
        let mut histogram = Histogram::default();
        for ns in [1, 512, 513, 768, 1_000_000, u64::MAX / 2] {
            histogram.note(ns);
        }
        let counted: Vec<_> = histogram.buckets().collect();
        assert_eq!(counted[..3], [(512, 2), (768, 2), (1024, 0)]);
        let bounded: u64 = counted.iter().map(|(_, count)| count).sum();
        assert_eq!((bounded, histogram.count()), (5, 6));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(twice.count(), 12);
    }
}
