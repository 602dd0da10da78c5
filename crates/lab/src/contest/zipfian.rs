//! Zipfian ranks: rank 0 most often, by Gray and others (Quickly Generating Billion-Record Synthetic Databases, SIGMOD
//! 1994), with the constant that YCSB has.

use byway_measure::random::Random;

/// How skewed: YCSB's `ZIPFIAN_CONSTANT`.
const THETA: f64 = 0.99;

/// The distribution over a number of items that may grow.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
}

impl Zipfian {
    /// A distribution over `items` items, at least one.
    pub fn new(items: u64) -> Self {
        let mut zipfian = Self { items: 0, zeta: 0.0 };
        zipfian.grow(items.max(1));
        zipfian
    }

    /// Over more items: the sum goes on where it ended.
    pub fn grow(&mut self, items: u64) {
        self.zeta += (self.items + 1..=items).map(|rank| 1.0 / (rank as f64).powf(THETA)).sum::<f64>();
        self.items = self.items.max(items);
    }

    /// A rank, from 0 on.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let share = random.open_unit();
        let scaled = share * self.zeta;
        let second = 0.5f64.powf(THETA);
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + second {
            return 1.min(self.items - 1);
        }
        let eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - THETA)) / (1.0 - (1.0 + second) / self.zeta);
        let rank = self.items as f64 * (eta * (share - 1.0) + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each rank came of `draws`.
    fn counts(items: u64, draws: u64) -> Vec<u64> {
        let (zipfian, mut random) = (Zipfian::new(items), Random::new(11));
        let mut counts = vec![0; items as usize];
        (0..draws).for_each(|_| counts[zipfian.rank(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn the_share_of_a_rank_falls_with_the_power_of_it() {
        let (items, draws) = (1000, 1_000_000);
        let counts = counts(items, draws);
        let zeta: f64 = (1..=items).map(|rank| 1.0 / (rank as f64).powf(THETA)).sum();
        // The first two are exact; the others are approximated by a continuous law.
        for (rank, near) in [(0, 0.02), (1, 0.02), (9, 0.25), (99, 0.25), (499, 0.25)] {
            let wanted = draws as f64 / ((rank + 1) as f64).powf(THETA) / zeta;
            let came = counts[rank] as f64;
            assert!((came / wanted - 1.0).abs() < near, "rank {rank}: {came} of {wanted}");
        }
    }

    #[test]
    fn every_item_can_come_and_none_beyond() {
        assert!(counts(20, 100_000).iter().all(|&count| count > 0));
        assert_eq!(counts(1, 100), [100]);
    }

    #[test]
    fn growing_is_the_same_as_beginning_larger() {
        let mut grown = Zipfian::new(10);
        grown.grow(500);
        assert!((grown.zeta - Zipfian::new(500).zeta).abs() < 1e-9);
    }
}
