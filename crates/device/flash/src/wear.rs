//! How worn blocks are: the order of all blocks by erases.

use std::collections::BTreeSet;

use crate::geometry::BlockId;

/// Erases that a block may be behind the mean: this part of it, and at least so many, as blocks that are all treated
/// alike differ by a few. A few that are ahead are no reason to move the data of all others.
const LIMIT_PART: f64 = 24.0;
const LIMIT_LEAST: f64 = 2.0;

/// Erases ahead of the mean up to which a block is taken for data that was moved once and may be moved again.
const AHEAD: f64 = 1.0;

/// Blocks looked at for one that is too young.
const CANDIDATES: usize = 16;

/// Erases of the blocks in use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WearSummary {
    /// Of the block erased least often.
    pub min: u32,
    /// Over all blocks.
    pub mean: f64,
    /// Of the block erased most often.
    pub max: u32,
    /// Standard deviation over all blocks.
    pub deviation: f64,
}

impl WearSummary {
    /// Distance of the most and the least worn block, in parts of the mean; nothing erased gives 0.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.mean > 0.0 { f64::from(self.max - self.min) / self.mean } else { 0.0 }
    }

    /// Coefficient of variation: the standard deviation in parts of the mean; 0 if no block was erased. Unlike
    /// [`spread`](Self::spread) it is meaningful while blocks have few erases, of which one more is a large part.
    #[must_use]
    pub fn variation(&self) -> f64 {
        if self.mean > 0.0 { self.deviation / self.mean } else { 0.0 }
    }
}

/// All blocks in use, by erases. Its sums are kept, not made: a controller with a host that wants to hear of warnings asks
/// after each run.
#[derive(Debug, Default)]
pub(crate) struct WearOrder {
    blocks: BTreeSet<(u32, BlockId)>,
    erases: u64,
    /// Sum of the squares of what each was erased.
    squares: u128,
}

impl WearOrder {
    pub(crate) fn insert(&mut self, block: BlockId, erases: u32) {
        if self.blocks.insert((erases, block)) {
            self.erases += u64::from(erases);
            self.squares += square(erases);
        }
    }

    /// Removes a block with `erases` erases.
    pub(crate) fn remove(&mut self, block: BlockId, erases: u32) {
        if self.blocks.remove(&(erases, block)) {
            self.erases -= u64::from(erases);
            self.squares -= square(erases);
        }
    }

    pub(crate) fn summary(&self) -> WearSummary {
        let (Some((min, _)), Some((max, _))) = (self.blocks.first(), self.blocks.last()) else {
            return WearSummary::default();
        };
        WearSummary { min: *min, mean: self.mean(), max: *max, deviation: self.deviation() }
    }

    /// By whole numbers as far as it goes: the difference of two means of squares would leave nothing of a small one.
    fn deviation(&self) -> f64 {
        let count = self.blocks.len() as u128;
        let deviation = count * self.squares - u128::from(self.erases).pow(2);
        if count == 0 { 0.0 } else { (deviation as f64).sqrt() / count as f64 }
    }

    fn mean(&self) -> f64 {
        if self.blocks.is_empty() { 0.0 } else { self.erases as f64 / self.blocks.len() as f64 }
    }

    /// The least worn blocks, where the others are too far ahead of them. A few: if none of them holds data that keeps
    /// it young, they are about to be used.
    pub(crate) fn too_young(&self) -> impl Iterator<Item = BlockId> {
        let mean = self.mean();
        let oldest = mean - LIMIT_LEAST.max(mean / LIMIT_PART);
        let young = self.blocks.iter().take(CANDIDATES);
        young.take_while(move |(erases, _)| f64::from(*erases) < oldest).map(|(_, block)| *block)
    }

    /// Whether a block with `erases` erases is too worn, compared with the others, for long-lived data.
    pub(crate) fn is_too_old(&self, erases: u32) -> bool {
        f64::from(erases) > self.mean() + AHEAD
    }
}

fn square(erases: u32) -> u128 {
    u128::from(erases).pow(2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// From every block's erases.
    fn made(erases: &[u32]) -> (f64, f64) {
        let mean = erases.iter().map(|one| f64::from(*one)).sum::<f64>() / erases.len() as f64;
        let squares: f64 = erases.iter().map(|one| (f64::from(*one) - mean).powi(2)).sum();
        (mean, (squares / erases.len() as f64).sqrt())
    }

    proptest! {
        #[test]
        fn kept_sums_match_the_blocks(
            first in prop::collection::vec(0..200_000_u32, 1..60),
            erased in prop::collection::vec(0..60_usize, 0..200),
        ) {
            let mut order = WearOrder::default();
            let mut erases = first;
            for (block, count) in (0..).zip(&erases) {
                order.insert(BlockId(block), *count);
            }
            for block in erased {
                let block = block % erases.len();
                order.remove(BlockId(block as u32), erases[block]);
                erases[block] += 1;
                order.insert(BlockId(block as u32), erases[block]);
            }
            let (summary, (mean, deviation)) = (order.summary(), made(&erases));
            prop_assert_eq!((summary.min, summary.max), (*erases.iter().min().unwrap(), *erases.iter().max().unwrap()));
            prop_assert!((summary.mean - mean).abs() <= 1e-9 * mean);
            prop_assert!((summary.deviation - deviation).abs() <= 1e-9 * mean, "{} {}", summary.deviation, deviation);
        }
    }
}
