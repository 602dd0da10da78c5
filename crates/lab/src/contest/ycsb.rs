//! The core workloads of YCSB, A to F, over keys that are all there.
//!
//! Cooper, Silberstein, Tam, Ramakrishnan, Sears: Benchmarking Cloud Serving Systems with YCSB (SoCC 2010), section 4 and
//! table 2, with the parameters of the core package's workload files. Records are one value; keys are those of the
//! bench, which are as scattered as the package's hashed ones.

use byway_measure::random::Random;
use byway_measure::zipfian::{YCSB_THETA, Zipfian};
use clap::ValueEnum;

use super::key::Keys;
use super::work::{Act, Step};

/// Pairs of a scan, from 1 on (`maxscanlength`).
const SCAN_MAX: u64 = 100;

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "verbatim")]
pub enum Letter {
    /// Half reads, half updates, of zipfian keys.
    A,
    /// 95 reads and 5 updates in a hundred, of zipfian keys.
    B,
    /// Reads of zipfian keys.
    C,
    /// 95 reads in a hundred of keys that were inserted lately, and 5 inserts.
    D,
    /// 95 short scans in a hundred from zipfian keys on, and 5 inserts.
    E,
    /// Half reads, half reads with an update of what was read, of zipfian keys.
    F,
}

impl Letter {
    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "ycsb_a",
            Self::B => "ycsb_b",
            Self::C => "ycsb_c",
            Self::D => "ycsb_d",
            Self::E => "ycsb_e",
            Self::F => "ycsb_f",
        }
    }

    /// Reads, or scans, in a hundred steps.
    fn reads_percent(self) -> u64 {
        match self {
            Self::A | Self::F => 50,
            Self::B | Self::D | Self::E => 95,
            Self::C => 100,
        }
    }

    fn inserts(self) -> bool {
        matches!(self, Self::D | Self::E)
    }
}

/// Steps of a workload.
pub struct Ycsb {
    letter: Letter,
    keys: Keys,
    /// Keys that are there: numbers below it.
    count: u64,
    zipfian: Zipfian,
    value_bytes: u32,
    random: Random,
    made: u32,
}

impl Ycsb {
    /// Steps over the first `count` keys; what is inserted has the numbers from there on.
    pub fn new(letter: Letter, keys: Keys, count: u64, value_bytes: u32, seed: u64) -> Self {
        let random = Random::new(seed ^ letter as u64);
        Self { letter, keys, count, zipfian: Zipfian::new(count, YCSB_THETA), value_bytes, random, made: 0 }
    }

    /// The number of a key that is there.
    fn chosen(&mut self) -> u64 {
        let rank = self.zipfian.rank(&mut self.random);
        match self.letter {
            Letter::D => self.count - 1 - rank,
            // Which keys are hot is decided by a hash (the package's scrambled zipfian).
            _ => Random::new(rank).next_u64() % self.count,
        }
    }

    fn insert(&mut self) -> u64 {
        self.count += 1;
        self.zipfian.grow(self.count);
        self.count - 1
    }
}

impl Iterator for Ycsb {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let reads = self.random.below(100) < self.letter.reads_percent();
        let number = if !reads && self.letter.inserts() { self.insert() } else { self.chosen() };
        let act = match (reads, self.letter) {
            (true, Letter::E) => Act::Scan(self.random.below(SCAN_MAX) as u16 + 1),
            (true, _) => Act::Get,
            (false, Letter::F) => Act::ModifyWrite,
            (false, _) => Act::Put,
        };
        self.made = self.made.wrapping_add(1);
        Some(Step { act, key: self.keys.key(number), value: self.made, value_bytes: self.value_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const KEYS: u64 = 10_000;
    const STEPS: usize = 100_000;

    fn steps(letter: Letter) -> Vec<Step> {
        Ycsb::new(letter, Keys::new(0), KEYS, 100, 1).take(STEPS).collect()
    }

    fn percent(steps: &[Step], is: fn(&Act) -> bool) -> f64 {
        100.0 * steps.iter().filter(|step| is(&step.act)).count() as f64 / steps.len() as f64
    }

    #[test]
    fn each_workload_has_the_mix_of_the_paper() {
        let get = |act: &Act| *act == Act::Get;
        let put = |act: &Act| *act == Act::Put;
        for (letter, gets, puts) in
            [(Letter::A, 50.0, 50.0), (Letter::B, 95.0, 5.0), (Letter::C, 100.0, 0.0), (Letter::D, 95.0, 5.0)]
        {
            let steps = steps(letter);
            assert!((percent(&steps, get) - gets).abs() < 0.6, "{letter:?}");
            assert!((percent(&steps, put) - puts).abs() < 0.6, "{letter:?}");
        }
        let (e, f) = (steps(Letter::E), steps(Letter::F));
        assert!((percent(&e, |act| matches!(act, Act::Scan(1..=100))) - 95.0).abs() < 0.6);
        assert!((percent(&e, put) - 5.0).abs() < 0.6);
        assert!((percent(&f, |act| *act == Act::ModifyWrite) - 50.0).abs() < 0.6);
    }

    #[test]
    fn a_few_keys_are_hot_and_they_are_scattered() {
        let mut counts: HashMap<_, usize> = HashMap::new();
        steps(Letter::C).iter().for_each(|step| *counts.entry(step.key).or_default() += 1);
        let hottest = counts.iter().max_by_key(|(_, count)| **count).map(|(key, count)| (*key, *count));
        let (key, count) = hottest.unwrap_or_default();
        // 1/ζ(10,000; 0.99): a tenth.
        assert!((0.09..0.12).contains(&(count as f64 / STEPS as f64)), "{count}");
        assert_ne!(key, Keys::new(0).key(0));
    }

    #[test]
    fn ycsb_d_reads_existing_keys_and_favours_the_newest() {
        let numbers: HashMap<_, u64> = (0..KEYS + STEPS as u64).map(|n| (Keys::new(0).key(n), n)).collect();
        let (mut there, mut late) = (KEYS, 0);
        let steps = steps(Letter::D);
        for step in &steps {
            let number = numbers[&step.key];
            if step.act == Act::Put {
                assert_eq!(number, there);
                there += 1;
            } else {
                assert!(number < there);
                late += usize::from(there - number <= 100);
            }
        }
        assert!(late * 3 > steps.len(), "{late} reads of the newest hundred");
    }
}
