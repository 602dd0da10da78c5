//! What was measured of one engine in one kind of work, pass by pass.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::stopwatch::Taken;

/// Significant digits of times that are kept.
const TIME_DIGITS: u8 = 3;
/// Longest time recorded exactly: a minute.
const TIME_MAX_NS: u64 = 60_000_000_000;

/// A row of the bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KvRow {
    /// Engine, with its configuration.
    pub engine: String,
    /// Kind of work.
    pub op: String,
    /// Bytes of the values that were loaded.
    pub value_size: u32,
    /// Operations of a pass; keys in a listing.
    pub count: u64,
    /// Operations a second: the median of passes.
    pub ops_per_s: f64,
    /// Processor time of all threads of the process for each operation, in microseconds: the median of passes.
    pub cpu_us_per_op: f64,
    /// Median time of an operation, of a thousand keys in a listing, in microseconds.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// Its 99.9th percentile.
    pub p999_us: f64,
    /// What an acknowledged put has survived.
    pub guarantee: String,
    /// Puts that are acknowledged together.
    pub acknowledged_together: u64,
    /// Client threads, each with a session or queue of its own.
    pub threads: u32,
    /// Passes that the medians are of.
    pub passes: u32,
    /// Operations a second of each round whose steps were not timed one by one, pass after pass.
    #[serde(default)]
    pub rounds_per_s: Vec<f64>,
}

/// The passes of one engine in one kind of work.
#[derive(Clone, Debug)]
pub struct Score {
    passes: Vec<Pass>,
    rounds_per_s: Vec<f64>,
    times: Histogram<u64>,
}

/// What one pass took.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    ops: u64,
    all: Taken,
    plain_ops: u64,
    plain: Taken,
}

impl Score {
    /// Nothing yet.
    pub fn new() -> Self {
        let times = Histogram::new_with_max(TIME_MAX_NS, TIME_DIGITS);
        Self {
            passes: Vec::new(),
            rounds_per_s: Vec::new(),
            times: times.unwrap_or_else(|_| unreachable!("a histogram can be so")),
        }
    }

    /// Begins a pass.
    pub fn begin(&mut self) {
        self.passes.push(Pass::default());
    }

    /// Adds a round of the pass. A round that is `plain` was not slowed by reading the clock at every step.
    pub fn add(&mut self, ops: u64, taken: Taken, plain: bool) {
        let Some(pass) = self.passes.last_mut() else { return };
        pass.ops += ops;
        pass.all += taken;
        if plain {
            pass.plain_ops += ops;
            pass.plain += taken;
            self.rounds_per_s.push(ops as f64 / taken.wall.as_secs_f64());
        }
    }

    /// Where times of single operations are kept.
    pub fn times(&mut self) -> &mut Histogram<u64> {
        &mut self.times
    }

    /// Operations a second and processor time of each: medians over the passes.
    pub fn medians(&self) -> (f64, f64) {
        let mut rates: Vec<f64> = self.passes.iter().map(Pass::ops_per_s).collect();
        let mut cpus: Vec<f64> = self.passes.iter().map(Pass::cpu_us_per_op).collect();
        (median(&mut rates), median(&mut cpus))
    }

    /// Operations a second of each plain round.
    pub fn rounds_per_s(&self) -> &[f64] {
        &self.rounds_per_s
    }

    /// Passes.
    pub fn passes(&self) -> u32 {
        self.passes.len() as u32
    }

    /// Operations of a pass.
    pub fn ops(&self) -> u64 {
        self.passes.last().map_or(0, |pass| pass.ops)
    }

    /// A time that so many of a hundred operations did not exceed, in microseconds.
    pub fn time_us(&self, percent: f64) -> f64 {
        self.times.value_at_percentile(percent) as f64 / 1e3
    }
}

impl Pass {
    fn ops_per_s(&self) -> f64 {
        match self.plain_ops {
            0 => self.ops as f64 / self.all.wall.as_secs_f64(),
            ops => ops as f64 / self.plain.wall.as_secs_f64(),
        }
    }

    fn cpu_us_per_op(&self) -> f64 {
        self.all.cpu.as_secs_f64() * 1e6 / self.ops.max(1) as f64
    }
}

/// The median; of an even number, the mean of the middle two.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    let upper = numbers.get(numbers.len() / 2).copied().unwrap_or(0.0);
    let lower = numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
    (upper + lower) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn taken(wall_ms: u64, cpu_ms: u64) -> Taken {
        Taken { wall: Duration::from_millis(wall_ms), cpu: Duration::from_millis(cpu_ms) }
    }

    #[test]
    fn a_row_is_the_median_of_passes_and_a_pass_is_all_of_its_rounds() {
        let mut score = Score::new();
        for wall_ms in [100, 300, 200] {
            score.begin();
            score.add(1000, taken(wall_ms / 2, 10), true);
            score.add(1000, taken(wall_ms / 2, 30), true);
        }
        let (ops_per_s, cpu_us) = score.medians();
        assert_eq!((ops_per_s.round(), cpu_us.round()), (10_000.0, 20.0));
        assert_eq!((score.ops(), score.passes()), (2000, 3));
        assert_eq!(score.rounds_per_s()[..2], [20_000.0, 20_000.0]);
    }

    #[test]
    fn rates_are_of_rounds_without_a_clock_and_processor_time_of_all() {
        let mut score = Score::new();
        score.begin();
        score.add(1000, taken(500, 400), false);
        score.add(1000, taken(100, 200), true);
        assert_eq!(score.medians(), (10_000.0, 300.0));
    }

    #[test]
    fn times_are_recorded_over_nine_decades() {
        let mut score = Score::new();
        [100, 100, 30_000_000_000].into_iter().for_each(|ns| score.times().saturating_record(ns));
        assert!((score.time_us(50.0) - 0.1).abs() < 0.001);
        assert!((score.time_us(99.9) / 30e6 - 1.0).abs() < 0.001);
    }

    #[test]
    fn the_median_of_two_is_between_them() {
        assert_eq!(median(&mut [3.0, 1.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
