//! What one thread did in each interval of a measurement, for logs and for charts over time.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::log::{Entry, Kind, ThreadLog};
use super::measured::LONGEST_NS;

/// What one thread did in one interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// When it began, from the beginning of the measurement.
    pub begin_ns: u64,
    /// How long it was: the last one may be shorter than the others.
    pub width_ns: u64,
    /// Commands that read.
    pub reads: SideInterval,
    /// Commands that change the device.
    pub writes: SideInterval,
}

/// The commands of one side in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct SideInterval {
    /// Commands that succeeded.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Sum of their latencies.
    pub sum_ns: u64,
    /// 50th percentile of their latencies.
    pub p50_ns: u64,
    /// 99th percentile of their latencies.
    pub p99_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
}

/// A command that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub now: Instant,
    pub ns: u64,
    pub is_read: bool,
    pub bytes: u64,
    /// Its byte, or the number of its key.
    pub at: u64,
}

/// What is kept of samples.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Length of an interval.
    pub interval: Duration,
    /// Whether intervals are kept for charts.
    pub series: bool,
}

/// The samples of one thread: the interval that runs, and those before it where they are kept.
#[derive(Debug)]
pub struct Samples {
    keep: Keep,
    log: Option<ThreadLog>,
    /// When the measurement began; nothing is kept before.
    since: Option<Instant>,
    next: Instant,
    now: Interval,
    /// Latencies of reads and writes in the interval, where percentiles are wanted.
    ns: [Histogram<u32>; 2],
    series: Vec<Interval>,
}

impl Samples {
    pub fn new(keep: Keep, log: Option<ThreadLog>) -> Self {
        let (now, next) = (Interval::default(), Instant::now());
        Self { keep, log, since: None, next, now, ns: [histogram(), histogram()], series: Vec::new() }
    }

    /// The measurement begins.
    pub fn begin(&mut self, now: Instant) {
        self.since = Some(now);
        self.next = now + self.keep.interval;
    }

    /// A command succeeded.
    #[inline]
    pub fn record(&mut self, sample: Sample) {
        let Some(since) = self.since else { return };
        if sample.now >= self.next {
            self.turn(sample.now, since);
        }
        let side = if sample.is_read { &mut self.now.reads } else { &mut self.now.writes };
        side.ops += 1;
        side.bytes += sample.bytes;
        side.sum_ns = side.sum_ns.saturating_add(sample.ns);
        side.max_ns = side.max_ns.max(sample.ns);
        if self.keep.series {
            self.ns[usize::from(!sample.is_read)].saturating_record(sample.ns);
        }
        if let Some(log) = self.log.as_mut().filter(|log| log.takes_each()) {
            let time_ms = sample.now.duration_since(since).as_millis() as u64;
            log.push(Entry {
                kind: Kind::Latency,
                time_ms,
                value: sample.ns,
                is_read: sample.is_read,
                bytes: sample.bytes,
                at: sample.at,
            });
        }
    }

    /// The interval is over. Those in which nothing finished are left out.
    #[cold]
    fn turn(&mut self, now: Instant, since: Instant) {
        self.close(self.keep.interval.as_nanos() as u64);
        let passed = now.duration_since(since).as_nanos() / self.keep.interval.as_nanos().max(1);
        let begin = self.keep.interval.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX));
        self.now.begin_ns = begin.as_nanos() as u64;
        self.next = since + begin + self.keep.interval;
    }

    /// Keeps the interval, of a width, and empties it.
    fn close(&mut self, width_ns: u64) {
        self.now.width_ns = width_ns;
        if self.keep.series {
            for (side, ns) in [&mut self.now.reads, &mut self.now.writes].into_iter().zip(&mut self.ns) {
                (side.p50_ns, side.p99_ns) = (ns.value_at_quantile(0.5), ns.value_at_quantile(0.99));
                ns.reset();
            }
            self.series.push(self.now);
        }
        if let Some(log) = &mut self.log {
            log.push_interval(&self.now);
        }
        self.now = Interval { begin_ns: self.now.begin_ns + width_ns, ..Interval::default() };
    }

    /// The measurement is over: closes the interval that runs, and sends the log what it has not.
    pub fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            let passed_ns = now.duration_since(since).as_nanos() as u64;
            let width_ns = passed_ns.saturating_sub(self.now.begin_ns);
            if self.now.reads.ops + self.now.writes.ops > 0 && width_ns > 0 {
                self.close(width_ns);
            }
        }
        if let Some(mut log) = self.log.take() {
            log.send();
        }
    }

    /// The intervals that were kept.
    pub fn into_series(self) -> Vec<Interval> {
        self.series
    }
}

fn histogram() -> Histogram<u32> {
    #[expect(clippy::expect_used, reason = "the bounds and the digits are ones that a histogram can have")]
    Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("bounds of a histogram")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_and_empty_ones_are_left_out() {
        let keep = Keep { interval: Duration::from_millis(10), series: true };
        let (mut samples, begun) = (Samples::new(keep, None), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let sample = |ms, ns| Sample { now: at(ms), ns, is_read: true, bytes: 4096, at: 0 };
        samples.record(sample(0, 1));
        samples.begin(begun);
        for (ms, ns) in [(1, 100), (5, 300), (12, 500), (47, 700)] {
            samples.record(sample(ms, ns));
        }
        samples.end(at(49));
        let series = samples.into_series();
        let seen: Vec<_> =
            series.iter().map(|i| (i.begin_ns / 1_000_000, i.width_ns / 1_000_000, i.reads.ops)).collect();
        assert_eq!(seen, [(0, 10, 2), (10, 10, 1), (40, 9, 1)]);
        assert_eq!((series[0].reads.sum_ns, series[0].reads.max_ns, series[0].reads.bytes), (400, 300, 8192));
    }
}
