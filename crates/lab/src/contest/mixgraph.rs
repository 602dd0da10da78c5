//! The mixgraph of RocksDB's `db_bench`: 85 gets, 14 puts and one short scan in a hundred, with the skewed keys and the
//! value sizes that Facebook's traces were fitted by.
//!
//! Cao, Dong, Vemuri, Du: Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at Facebook (FAST
//! 2020), section 7; parameters of the "prefix_dist" run as the RocksDB wiki gives them (RocksDB Trace, Replay,
//! Analyzer, and Workload Generation), with the key skew of its "all_dist" run within a range.

use byway_measure::random::Random;
use byway_measure::workload::VALUE_SIZES;

use super::key::Key;
use super::work::{Act, Step};

/// Ranges of neighbouring keys, each as hot as the two-term exponential says (`keyrange_num`).
const RANGES: usize = 30;
/// The two-term exponential of the ranges' heat (`keyrange_dist_a` to `keyrange_dist_d`).
const HEAT: [f64; 4] = [14.18, -2.917, 0.0164, -0.08082];
/// The power law of keys within a range (`key_dist_a`, `key_dist_b`).
const SKEW: [f64; 2] = [0.002_312, 0.3467];
/// Shape and scale of the Pareto distribution of scan lengths (`iter_k`, `iter_sigma`).
const SCANS: [f64; 2] = [2.517, 14.236];
/// Scans longer than this are cut by it (`mix_max_scan_len`).
const SCAN_MAX: u64 = 10_000;
/// Gets, puts and scans of a hundred steps (`mix_get_ratio`, `mix_put_ratio`, `mix_seek_ratio`).
pub const PERCENT: [u64; 3] = [85, 14, 1];

/// Steps over keys that are all there.
pub struct Mixgraph<'a> {
    /// All keys, in order: neighbours are of one range.
    sorted: &'a [Key],
    /// Where each range begins, of all its predecessors' heat.
    starts: [u64; RANGES],
    heat: u64,
    random: Random,
    made: u32,
}

impl<'a> Mixgraph<'a> {
    /// Steps over these keys.
    pub fn new(sorted: &'a [Key], seed: u64) -> Self {
        let (starts, heat) = ranges();
        Self { sorted, starts, heat, random: Random::new(seed), made: 0 }
    }

    /// Which of the keys, in order, is asked for.
    fn rank(&mut self) -> usize {
        // One number decides the range and the key in it, as `db_bench` has it.
        let drawn = self.random.next_u64() >> 1;
        let range = self.starts.partition_point(|&start| start <= drawn % self.heat).saturating_sub(1);
        let size = (self.sorted.len() / RANGES).max(1) as u64;
        let u = (drawn % size) as f64 / size as f64;
        let seed = (u / SKEW[0]).powf(1.0 / SKEW[1]).ceil() as u64;
        (size * range as u64 + Random::new(seed).next_u64() % size) as usize
    }

    fn scan(&mut self) -> u16 {
        let [k, sigma] = SCANS;
        let length = (sigma * (self.random.open_unit().powf(-k) - 1.0) / k).ceil() as u64;
        (length % SCAN_MAX) as u16
    }
}

impl Iterator for Mixgraph<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let rank = self.rank().min(self.sorted.len().checked_sub(1)?);
        self.made = self.made.wrapping_add(1);
        let act = match self.random.below(100) {
            drawn if drawn < PERCENT[0] => Act::Get,
            drawn if drawn < PERCENT[0] + PERCENT[1] => Act::Put,
            _ => Act::Scan(self.scan()),
        };
        let value_bytes = if act == Act::Put { VALUE_SIZES.size(&mut self.random) } else { 0 };
        Some(Step { act, key: *self.sorted.get(rank)?, value: self.made, value_bytes })
    }
}

/// Where each range begins, and the heat of all: hot and cold ranges in an order that is always the same.
fn ranges() -> ([u64; RANGES], u64) {
    let [a, b, c, d] = HEAT;
    let share = |range: usize| a * (b * range as f64).exp() + c * (d * range as f64).exp();
    // The coldest range has at least one part.
    let parts = (1.0 / share(RANGES)).floor() + 1.0;
    let mut heat: [u64; RANGES] = std::array::from_fn(|index| (parts * share(RANGES - index)).floor() as u64);
    let sum = heat.iter().sum();
    Random::new(sum).shuffle(&mut heat);
    let mut behind = 0;
    let starts = heat.map(|heat| {
        behind += heat;
        behind - heat
    });
    (starts, sum)
}

#[cfg(test)]
mod tests {
    use super::super::key::Keys;
    use super::*;

    const STEPS: usize = 200_000;

    fn steps() -> Vec<Step> {
        let sorted = Keys::new(1).sorted(30_000);
        Mixgraph::new(&sorted, 5).take(STEPS).collect()
    }

    #[test]
    fn mixgraph_has_85_percent_gets_14_puts_and_1_scans() {
        let steps = steps();
        let share = |is: fn(&Act) -> bool| {
            100.0 * steps.iter().filter(|step| is(&step.act)).count() as f64 / STEPS as f64
        };
        assert!((share(|act| *act == Act::Get) - 85.0).abs() < 0.5);
        assert!((share(|act| *act == Act::Put) - 14.0).abs() < 0.5);
        assert!((share(|act| matches!(act, Act::Scan(_))) - 1.0).abs() < 0.2);
    }

    #[test]
    fn values_have_the_mean_of_their_law_and_scans_are_mostly_short() {
        let steps = steps();
        let puts: Vec<u32> =
            steps.iter().filter(|step| step.act == Act::Put).map(|step| step.value_bytes).collect();
        let mean = puts.iter().map(|&size| f64::from(size)).sum::<f64>() / puts.len() as f64;
        // σ/(1−k) of the generalised Pareto distribution, and half a byte for rounding up.
        assert!((mean - 25.45 / (1.0 - 0.2615) - 0.5).abs() < 1.0, "{mean}");
        let short = steps.iter().filter(|step| matches!(step.act, Act::Scan(0..=30))).count();
        let scans = steps.iter().filter(|step| matches!(step.act, Act::Scan(_))).count();
        assert!(short * 2 > scans, "{short} of {scans}");
    }

    #[test]
    fn the_hottest_range_has_most_of_the_steps_and_lies_together() {
        let sorted = Keys::new(1).sorted(30_000);
        let mut hits = [0usize; RANGES];
        for step in steps() {
            let rank = sorted.binary_search(&step.key).unwrap_or(usize::MAX);
            hits[rank / (sorted.len() / RANGES)] += 1;
        }
        let hottest = hits.iter().max().copied().unwrap_or(0);
        // The exponential at range 1 is 0.782 of a sum of 0.988; rounding down takes more of the others.
        assert!((0.78..0.83).contains(&(hottest as f64 / STEPS as f64)), "{hits:?}");
        assert!(hits.iter().all(|&hits| hits > 0), "{hits:?}");
    }
}
