//! Zipfian ranks: rank 0 most often, by Gray and others (Quickly Generating Billion-Record Synthetic Databases, SIGMOD
//! 1994), as YCSB and fio draw them.

use crate::random::Random;

/// YCSB's `ZIPFIAN_CONSTANT`.
pub const YCSB_THETA: f64 = 0.99;

/// Terms of a sum that are added one by one; those behind them follow from an integral.
const SUMMED: u64 = 1 << 12;

/// The distribution over a number of items that may grow.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta: f64,
    /// Weight of the first two ranks.
    first_two: f64,
    eta: f64,
}

impl Zipfian {
    /// A distribution over `items` items, at least one. `theta` is how skewed it is: above 0, and not 1, where the formula has no
    /// value.
    pub fn new(items: u64, theta: f64) -> Self {
        let mut zipfian = Self { items: 0, theta, zeta: 0.0, first_two: 1.0 + 0.5f64.powf(theta), eta: 0.0 };
        zipfian.grow(items.max(1));
        zipfian
    }

    /// Over more items: the sum goes on where it ended.
    pub fn grow(&mut self, items: u64) {
        self.zeta += sum_of_powers(self.items + 1, items, self.theta);
        self.items = self.items.max(items);
        let scale = 1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta);
        self.eta = scale / (1.0 - self.first_two / self.zeta);
    }

    /// A rank, from 0 on.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let share = random.open_unit();
        let scaled = share * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.first_two {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * (share - 1.0) + 1.0).powf(1.0 / (1.0 - self.theta));
        (rank as u64).min(self.items - 1)
    }

    /// The share of all draws that a rank gets.
    pub fn share(&self, rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-self.theta) / self.zeta
    }
}

/// The sum of `k^-theta` for `k` in `first..=last`: beyond [`SUMMED`] terms by Euler and Maclaurin's formula, whose error there is below
/// 1e-12.
fn sum_of_powers(first: u64, last: u64, theta: f64) -> f64 {
    let power = |k: u64, exponent: f64| (k as f64).powf(exponent);
    let split = last.min((first + SUMMED).max(SUMMED));
    let summed: f64 = (first..=split).map(|k| power(k, -theta)).sum();
    if split >= last {
        return summed;
    }
    let integral = (power(last, 1.0 - theta) - power(split, 1.0 - theta)) / (1.0 - theta);
    let ends = (power(last, -theta) - power(split, -theta)) / 2.0;
    let slopes = theta / 12.0 * (power(split, -theta - 1.0) - power(last, -theta - 1.0));
    summed + integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each rank came of `draws`.
    fn counts(items: u64, theta: f64, draws: u64) -> Vec<u64> {
        let (zipfian, mut random) = (Zipfian::new(items, theta), Random::new(11));
        let mut counts = vec![0; items as usize];
        (0..draws).for_each(|_| counts[zipfian.rank(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn the_share_of_a_rank_falls_with_the_power_of_it() {
        let (items, draws) = (1000, 1_000_000);
        for theta in [0.5, YCSB_THETA, 1.2] {
            let (counts, zipfian) = (counts(items, theta, draws), Zipfian::new(items, theta));
            // The first two are exact; the others are approximated by a continuous law.
            for (rank, near) in [(0, 0.02), (1, 0.05), (9, 0.25), (99, 0.25), (499, 0.25)] {
                let (came, wanted) = (counts[rank] as f64, draws as f64 * zipfian.share(rank as u64));
                assert!((came / wanted - 1.0).abs() < near, "{theta}, rank {rank}: {came} of {wanted}");
            }
        }
    }

    #[test]
    fn the_sum_of_many_terms_is_that_of_adding_them() {
        for theta in [0.3, YCSB_THETA, 1.5] {
            let added: f64 = (1..=2_000_000u32).map(|k| f64::from(k).powf(-theta)).sum();
            let sum = sum_of_powers(1, 2_000_000, theta);
            assert!((sum / added - 1.0).abs() < 1e-9, "{theta}: {sum} and {added}");
        }
    }

    #[test]
    fn every_item_can_come_and_none_beyond() {
        assert!(counts(20, YCSB_THETA, 100_000).iter().all(|&count| count > 0));
        assert_eq!(counts(1, YCSB_THETA, 100), [100]);
    }

    #[test]
    fn growing_is_the_same_as_beginning_larger() {
        for items in [500, 50_000] {
            let mut grown = Zipfian::new(10, YCSB_THETA);
            grown.grow(items);
            assert!((grown.zeta - Zipfian::new(items, YCSB_THETA).zeta).abs() < 1e-9, "{items}");
        }
    }
}
