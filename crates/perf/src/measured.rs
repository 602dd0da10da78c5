//! What was measured: how many, how fast, how long each took.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::samples::Interval;
use super::statistic::Statistic;

/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The longest latency of the histogram: an hour. Its memory is allocated at the start.
pub(crate) const LONGEST_NS: u64 = 3_600_000_000_000;

/// The commands of one side of a load: those that read, or those that write.
#[derive(Clone, Debug)]
pub struct Side {
    /// Commands that succeeded.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Latency of each in nanoseconds; empty without latencies.
    pub ns: Histogram<u64>,
}

impl Default for Side {
    fn default() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the bounds and the digits are ones that a histogram can have"
        )]
        let ns = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("bounds of a histogram");
        Self { ops: 0, bytes: 0, ns }
    }
}

impl Side {
    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        // Both have the same bounds, which is what adding can fail for.
        let _ = self.ns.add(&other.ns);
    }
}

/// What one thread measured.
#[derive(Clone, Debug, Default)]
pub struct OfThread {
    /// Commands that read.
    pub reads: Side,
    /// Commands that change the device.
    pub writes: Side,
    /// Keys that were not there.
    pub missing: u64,
    /// Time that it measured.
    pub wall: Duration,
    /// Its own processor time.
    pub cpu: Duration,
    /// Its intervals, where they are kept.
    pub series: Vec<Interval>,
}

impl OfThread {
    /// Commands that succeeded.
    pub fn commands(&self) -> u64 {
        self.reads.ops + self.writes.ops
    }
}

/// What all threads measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Each thread, in order of its number.
    pub threads: Vec<OfThread>,
    /// Processor time of the whole process: threads of the device's included.
    pub cpu: Duration,
    /// Whether Ctrl-C ended the measurement.
    pub was_interrupted: bool,
    /// Pieces that were read back and matched.
    pub verified: u64,
}

impl Measured {
    /// Reads and writes of all threads.
    pub fn total(&self) -> OfThread {
        let mut total = OfThread { cpu: self.cpu, ..OfThread::default() };
        for thread in &self.threads {
            total.wall = total.wall.max(thread.wall);
            total.reads.add(&thread.reads);
            total.writes.add(&thread.writes);
            total.missing += thread.missing;
        }
        total
    }
}

/// What JSON says of commands that are alike.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Commands that succeeded.
    pub ops: u64,
    /// The same for each second.
    pub iops: f64,
    /// MiB moved for each second.
    pub mib_per_s: f64,
    /// Latencies, where they were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
}

/// How long commands took, in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// 50th percentile.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// The longest.
    pub max: u64,
}

impl Row {
    /// The commands of a side, where there were any.
    pub fn of(side: &Side, wall: Duration) -> Option<Self> {
        let seconds = wall.as_secs_f64();
        let row = || Self {
            ops: side.ops,
            iops: side.ops as f64 / seconds,
            mib_per_s: side.bytes as f64 / f64::from(1 << 20) / seconds,
            latency_ns: Latency::of(&side.ns),
        };
        (side.ops > 0 && seconds > 0.0).then(row)
    }

    /// Each figure over those of several runs; nothing of no run.
    pub fn over(runs: &[&Self], of: Statistic) -> Option<Self> {
        let figure = |figure: fn(&Self) -> f64| of.of(runs.iter().map(|run| figure(run)));
        let latencies: Vec<&Latency> = runs.iter().filter_map(|run| run.latency_ns.as_ref()).collect();
        (!runs.is_empty()).then(|| Self {
            ops: of.of_whole(runs.iter().map(|run| run.ops)),
            iops: figure(|run| run.iops),
            mib_per_s: figure(|run| run.mib_per_s),
            latency_ns: Latency::over(&latencies, of),
        })
    }
}

impl Latency {
    fn of(ns: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| ns.value_at_quantile(quantile);
        (!ns.is_empty()).then(|| Self {
            min: ns.min(),
            mean: ns.mean(),
            stdev: ns.stdev(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: ns.max(),
        })
    }

    fn over(runs: &[&Self], of: Statistic) -> Option<Self> {
        let figure = |figure: fn(&Self) -> f64| of.of(runs.iter().map(|run| figure(run)));
        let whole = |figure: fn(&Self) -> u64| of.of_whole(runs.iter().map(|run| figure(run)));
        (!runs.is_empty()).then(|| Self {
            min: whole(|run| run.min),
            mean: figure(|run| run.mean),
            stdev: figure(|run| run.stdev),
            p50: whole(|run| run.p50),
            p90: whole(|run| run.p90),
            p95: whole(|run| run.p95),
            p99: whole(|run| run.p99),
            p99_9: whole(|run| run.p99_9),
            p99_99: whole(|run| run.p99_99),
            max: whole(|run| run.max),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_any_length_keep_three_digits_and_add_up() {
        let (mut one, mut other) = (Side::default(), Side::default());
        one.ns.saturating_record(5_000_000);
        other.ns.saturating_record(7_000_000_000);
        other.ns.saturating_record(u64::MAX);
        one.add(&other);
        let latency = Latency::of(&one.ns).unwrap();
        assert!(latency.min.abs_diff(5_000_000) <= 5_000, "{latency:?}");
        assert!(latency.p50.abs_diff(7_000_000_000) <= 7_000_000, "{latency:?}");
        assert!(latency.max >= LONGEST_NS, "{latency:?}");
    }
}
