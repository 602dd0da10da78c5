//! Rates of a file's calls, averaged over 1 s and 15 s.

use crate::sample::Counts;

/// Window of the short average, and interval of evaluation.
pub(crate) const FAST_NS: u64 = 1_000_000_000;

/// Window of the long average.
pub(crate) const SLOW_NS: u64 = 15_000_000_000;

/// Rates per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Reading calls.
    pub reads: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Writing calls.
    pub writes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Syncs.
    pub syncs: f64,
}

impl Rates {
    /// The rates of these counts over that time.
    pub(crate) fn of(counts: Counts, in_ns: u64) -> Self {
        let per_second = 1e9 / in_ns.max(1) as f64;
        Self {
            reads: counts.reads as f64 * per_second,
            read_bytes: counts.read_bytes as f64 * per_second,
            writes: counts.writes as f64 * per_second,
            written_bytes: counts.written_bytes as f64 * per_second,
            syncs: counts.syncs as f64 * per_second,
        }
    }

    fn approach(&mut self, to: &Self, part: f64) {
        let pairs = [
            (&mut self.reads, to.reads),
            (&mut self.read_bytes, to.read_bytes),
            (&mut self.writes, to.writes),
            (&mut self.written_bytes, to.written_bytes),
            (&mut self.syncs, to.syncs),
        ];
        for (value, to) in pairs {
            *value += (to - *value) * part;
        }
    }

    /// Bytes written between two syncs.
    pub(crate) fn bytes_a_sync(&self) -> f64 {
        if self.syncs > 0.0 { self.written_bytes / self.syncs } else { f64::INFINITY }
    }
}

/// Both averages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Averages {
    pub(crate) fast: Rates,
    pub(crate) slow: Rates,
}

impl Averages {
    pub(crate) fn add(&mut self, counts: Counts, in_ns: u64) {
        let rates = Rates::of(counts, in_ns);
        self.fast.approach(&rates, part(in_ns, FAST_NS));
        self.slow.approach(&rates, part(in_ns, SLOW_NS));
    }
}

/// Weight of a sample of that length in an average. Uses divisions only, so that every machine gets the same result.
fn part(in_ns: u64, window_ns: u64) -> f64 {
    in_ns as f64 / (in_ns as f64 + window_ns as f64)
}

impl Counts {
    /// Counts since `before`. Zero if a counter went back: it was spoiled.
    pub(crate) const fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            syncs: self.syncs.saturating_sub(before.syncs),
        }
    }
}
