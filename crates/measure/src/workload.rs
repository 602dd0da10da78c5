//! The papers' workloads: which keys are put, and how long each value is.
//!
//! A to D are BandSlim's; M is the mixgraph of RocksDB's `db_bench` with every key random and puts alone, whose
//! value sizes follow a generalised Pareto distribution (docs/reference/link-model.md).

use std::fmt;
use std::str::FromStr;

use crate::random::{Random, scramble};

/// Location, shape and scale of the value sizes of workload M (`db_bench` value_theta, value_k, value_sigma).
pub const VALUE_SIZES: Pareto = Pareto { theta: 0.0, k: 0.2615, sigma: 25.45 };
/// Sizes of M above this are taken modulo it.
const MIXED_MAX_BYTES: u64 = 1024;
/// The two sizes of B and C.
const SMALL_LARGE: [u32; 2] = [8, 2048];
/// Longest value a workload has.
const LONGEST_BYTES: usize = 16 << 20;
/// Values begin at one of so many places of the pattern, so that neighbours differ.
const PATTERN_STARTS: usize = 251;

/// One of the papers' workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workload {
    /// One size, sequential keys.
    A {
        /// The size.
        size_bytes: u32,
    },
    /// 8 bytes and 2 KiB at 9:1.
    B,
    /// 8 bytes and 2 KiB at 1:9.
    C,
    /// 8, 16, … 2048 bytes in equal parts, random order.
    D,
    /// Mixgraph: generalised Pareto.
    M,
}

impl Workload {
    /// The workloads that have no parameter.
    pub const MIXED: [Self; 4] = [Self::B, Self::C, Self::D, Self::M];

    /// Its letter.
    pub fn name(self) -> &'static str {
        match self {
            Self::A { .. } => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::M => "M",
        }
    }

    /// The value sizes of `count` puts.
    ///
    /// B, C and D hold their ratio exactly (the remainder goes to the first sizes) in random order; M is drawn.
    pub fn sizes(self, count: usize, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let mut sizes: Vec<u32> = match self {
            Self::A { size_bytes } => return vec![size_bytes; count],
            Self::M => return (0..count).map(|_| VALUE_SIZES.size(&mut random)).collect(),
            Self::B => in_turn(count, &[SMALL_LARGE[0]; 9], &SMALL_LARGE[1..]),
            Self::C => in_turn(count, &SMALL_LARGE[..1], &[SMALL_LARGE[1]; 9]),
            Self::D => in_turn(count, &[8, 16, 32, 64, 128, 256, 512, 1024, 2048], &[]),
        };
        random.shuffle(&mut sizes);
        sizes
    }

    /// The key of put number `index`: four bytes, unique within the workload.
    pub fn key(self, index: u32, seed: u64) -> [u8; 4] {
        match self {
            Self::A { .. } => index.to_be_bytes(),
            _ => scramble(index, seed).to_be_bytes(),
        }
    }
}

/// `count` sizes, the two lists after one another in turn.
fn in_turn(count: usize, first: &[u32], then: &[u32]) -> Vec<u32> {
    first.iter().chain(then).copied().cycle().take(count).collect()
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::A { size_bytes } => write!(f, "A:{size_bytes}"),
            other => f.write_str(other.name()),
        }
    }
}

/// A name that is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload {0:?}: expected A:SIZE (such as A:32), B, C, D or M")]
pub struct UnknownWorkload(String);

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Self, UnknownWorkload> {
        let unknown = || UnknownWorkload(text.to_owned());
        match text {
            "B" | "b" => Ok(Self::B),
            "C" | "c" => Ok(Self::C),
            "D" | "d" => Ok(Self::D),
            "M" | "m" => Ok(Self::M),
            _ => {
                let size = text.strip_prefix("A:").or_else(|| text.strip_prefix("a:")).ok_or_else(unknown)?;
                let size_bytes = byway_console::size::parse_u32(size).map_err(|_| unknown())?;
                Ok(Self::A { size_bytes })
            }
        }
    }
}

/// A generalised Pareto distribution.
pub struct Pareto {
    theta: f64,
    k: f64,
    sigma: f64,
}

impl Pareto {
    /// The value below which a share `1 - u` of all values lies.
    fn inverse(&self, u: f64) -> f64 {
        self.theta + self.sigma * (u.powf(-self.k) - 1.0) / self.k
    }

    /// A value size, rounded up as `db_bench` does.
    pub fn size(&self, random: &mut Random) -> u32 {
        let bytes = self.inverse(random.open_unit()).ceil() as u64;
        (if bytes > MIXED_MAX_BYTES { bytes % MIXED_MAX_BYTES } else { bytes }) as u32
    }
}

/// The bytes of a workload's values: one random pattern, entered at a different place for each put.
pub struct Values {
    pattern: Vec<u8>,
}

impl Values {
    /// Values of at most `max_bytes`.
    pub fn new(max_bytes: u32, seed: u64) -> Self {
        let mut pattern = vec![0; (max_bytes as usize).min(LONGEST_BYTES) + PATTERN_STARTS];
        Random::new(!seed).fill(&mut pattern);
        Self { pattern }
    }

    /// The value of put number `index`, shorter than asked only if it is longer than the longest of all.
    pub fn value(&self, index: usize, size_bytes: u32) -> &[u8] {
        let start = index % PATTERN_STARTS;
        let end = (start + size_bytes as usize).min(self.pattern.len());
        &self.pattern[start..end]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    const COUNT: usize = 90_000;

    fn histogram(workload: Workload) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for size in workload.sizes(COUNT, 0) {
            *counts.entry(size).or_default() += 1;
        }
        counts
    }

    #[test]
    fn b_and_c_are_nine_to_one_and_one_to_nine() {
        assert_eq!(histogram(Workload::B), BTreeMap::from([(8, 81_000), (2048, 9_000)]));
        assert_eq!(histogram(Workload::C), BTreeMap::from([(8, 9_000), (2048, 81_000)]));
    }

    #[test]
    fn d_has_nine_sizes_in_equal_parts_and_random_order() {
        let counts = histogram(Workload::D);
        assert_eq!(counts.len(), 9);
        assert!(counts.values().all(|&count| count == 10_000));
        let sizes = Workload::D.sizes(COUNT, 0);
        assert!(sizes.windows(2).filter(|pair| pair[0] <= pair[1]).count() < COUNT * 2 / 3);
    }

    #[test]
    fn m_has_the_shares_and_the_mean_of_its_distribution() {
        let sizes = Workload::M.sizes(1_000_000, 0);
        let share = |test: fn(u32) -> bool| sizes.iter().filter(|&&size| test(size)).count() as f64 / 1e6;
        // docs/reference/link-model.md: 69.1 % up to 35 bytes, mean 34.8, 4.1 % from 128 bytes on.
        assert!((share(|size| size <= 35) - 0.691).abs() < 0.002);
        assert!((share(|size| size >= 128) - 0.041).abs() < 0.002);
        let mean = sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / 1e6;
        assert!((mean - 34.8).abs() < 0.2, "{mean}");
        assert!(sizes.iter().all(|&size| size <= 1024));
    }

    #[test]
    fn keys_are_unique_and_those_of_a_are_in_sequence() {
        for workload in Workload::MIXED {
            let keys: HashSet<[u8; 4]> = (0..100_000).map(|index| workload.key(index, 0)).collect();
            assert_eq!(keys.len(), 100_000, "{workload}");
        }
        let a = Workload::A { size_bytes: 32 };
        assert_eq!((a.key(0, 9), a.key(258, 9)), ([0, 0, 0, 0], [0, 0, 1, 2]));
    }

    #[test]
    fn one_seed_gives_one_workload_and_another_gives_another() {
        for workload in [Workload::B, Workload::D, Workload::M] {
            assert_eq!(workload.sizes(1000, 3), workload.sizes(1000, 3));
            assert_ne!(workload.sizes(1000, 3), workload.sizes(1000, 4));
            assert_ne!(workload.key(1, 3), workload.key(1, 4));
        }
    }

    #[test]
    fn a_workload_parses_from_what_it_prints() {
        for workload in Workload::MIXED.into_iter().chain([Workload::A { size_bytes: 4096 }]) {
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
        }
        assert_eq!("A:4K".parse::<Workload>().unwrap(), Workload::A { size_bytes: 4096 });
        for text in ["", "E", "A", "A:", "A:x"] {
            assert!(text.parse::<Workload>().unwrap_err().to_string().contains("A:SIZE"), "{text}");
        }
    }

    #[test]
    fn values_have_their_size_and_neighbours_differ() {
        let values = Values::new(2048, 0);
        assert_eq!(values.value(0, 2048).len(), 2048);
        assert_ne!(values.value(0, 32), values.value(1, 32));
        assert_eq!(values.value(5, 32), Values::new(64, 0).value(5, 32));
    }
}
