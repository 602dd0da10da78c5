//! Which full block garbage collection takes next, without looking at all of them.
//!
//! Full blocks that have something to gain stand in lists by live units. A block joins a list at its end whenever its
//! live data changes, so the head of a list is the block of that count that was left alone longest: the only one of
//! its list that either policy could choose.

use std::str::FromStr;

use thiserror::Error;

use crate::geometry::BlockId;

/// How the next block to collect is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum GcPolicy {
    /// The block with least live data: best where every address is as likely to be overwritten.
    #[default]
    Greedy,
    /// Least live data weighed against how long the block was left alone: age × (1 − u) / 2u (Rosenblum and
    /// Ousterhout, 1992). Better where some addresses are overwritten far more often.
    CostBenefit,
}

impl GcPolicy {
    /// Every policy.
    pub const ALL: [Self; 2] = [Self::Greedy, Self::CostBenefit];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::CostBenefit => "cost-benefit",
        }
    }
}

/// A name that no policy has.
#[derive(Debug, Error)]
#[error("expected greedy or cost-benefit")]
pub struct UnknownGcPolicy;

impl FromStr for GcPolicy {
    type Err = UnknownGcPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownGcPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownGcPolicy)
    }
}

/// Lists there are at most; blocks with more units share lists.
const LISTS_MAX: u32 = 4096;

/// What greedy takes for as little as the least: this part of a block more.
const NEAR_LEAST: u32 = 32;

/// Blocks that hold nothing which are looked at for the least worn one.
const EMPTY_LOOKED_AT: usize = 16;

const NONE: u32 = u32::MAX;

/// Full blocks by live units.
#[derive(Debug)]
pub(crate) struct Victims {
    /// A block with `live` units is in list `live >> shift`.
    shift: u32,
    units_per_block: u32,
    lists: Vec<Ends>,
    /// A bit for each list that holds a block.
    occupied: Vec<u64>,
    blocks: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    before: u32,
    after: u32,
    /// Its list, or `NONE`.
    list: u32,
    /// When its live data changed last, on the clock of pages programmed.
    changed_at: u64,
}

impl Victims {
    pub(crate) fn new(blocks: u32, units_per_block: u32) -> Self {
        let mut shift = 0;
        while units_per_block >> shift >= LISTS_MAX {
            shift += 1;
        }
        let lists = (units_per_block >> shift) as usize + 1;
        Self {
            shift,
            units_per_block,
            lists: vec![Ends { head: NONE, tail: NONE }; lists],
            occupied: vec![0; lists.div_ceil(64)],
            blocks: vec![Place { before: NONE, after: NONE, list: NONE, changed_at: 0 }; blocks as usize],
        }
    }

    /// Notes that a full block has `live` units from `now` on. One that is wholly live is no victim.
    #[inline]
    pub(crate) fn update(&mut self, block: BlockId, live: u32, now: u64) {
        self.remove(block);
        self.blocks[block.0 as usize].changed_at = now;
        if live < self.units_per_block {
            self.append(block, live >> self.shift);
        }
    }

    /// Takes a block out: it is no longer full.
    #[inline]
    pub(crate) fn remove(&mut self, block: BlockId) {
        let place = self.blocks[block.0 as usize];
        if place.list == NONE {
            return;
        }
        let list = place.list as usize;
        match place.before {
            NONE => self.lists[list].head = place.after,
            before => self.blocks[before as usize].after = place.after,
        }
        match place.after {
            NONE => self.lists[list].tail = place.before,
            after => self.blocks[after as usize].before = place.before,
        }
        if self.lists[list].head == NONE {
            self.occupied[list / 64] &= !(1 << (list % 64));
        }
        self.blocks[block.0 as usize].list = NONE;
    }

    #[inline]
    fn append(&mut self, block: BlockId, list: u32) {
        let at = list as usize;
        let before = self.lists[at].tail;
        match before {
            NONE => self.lists[at].head = block.0,
            before => self.blocks[before as usize].after = block.0,
        }
        self.lists[at].tail = block.0;
        self.occupied[at / 64] |= 1 << (at % 64);
        let place = &mut self.blocks[block.0 as usize];
        (place.before, place.after, place.list) = (before, NONE, list);
    }

    /// The block to collect next at time `now`, if collecting any gains something. Between blocks with nearly as
    /// little live data as the least, greedy lets `wear` decide: the younger one goes first.
    pub(crate) fn choose(
        &self,
        policy: GcPolicy,
        now: u64,
        wear: impl Fn(BlockId) -> u32,
    ) -> Option<BlockId> {
        match policy {
            GcPolicy::Greedy => {
                let (least, _) = self.heads().next()?;
                let near = least + ((self.units_per_block >> self.shift) / NEAR_LEAST);
                let near = self.heads().take_while(|(list, _)| *list <= near);
                near.min_by_key(|(list, block)| (wear(*block), *list)).map(|(_, block)| block)
            }
            GcPolicy::CostBenefit => {
                let worth = |&(list, block): &(u32, BlockId)| self.benefit(list, block, now);
                self.heads().max_by(|a, b| worth(a).total_cmp(&worth(b))).map(|(_, block)| block)
            }
        }
    }

    /// The least worn of some blocks of the list with the least live data: where blocks share lists, not all of these hold
    /// nothing.
    #[inline]
    pub(crate) fn emptiest(&self, wear: impl Fn(BlockId) -> u32) -> Option<BlockId> {
        let is_one = |block: &u32| *block != NONE;
        let first = Some(self.lists[0].head).filter(is_one);
        let list =
            std::iter::successors(first, |block| Some(self.blocks[*block as usize].after).filter(is_one));
        list.take(EMPTY_LOOKED_AT).map(BlockId).min_by_key(|block| wear(*block))
    }

    fn benefit(&self, list: u32, block: BlockId, now: u64) -> f64 {
        let live = f64::from(list << self.shift);
        let age = now.saturating_sub(self.blocks[block.0 as usize].changed_at).max(1);
        let gain = f64::from(self.units_per_block) - live;
        age as f64 * gain / (2.0 * live)
    }

    /// The block of each list that was left alone longest, from the list with least live data on.
    fn heads(&self) -> impl Iterator<Item = (u32, BlockId)> {
        let lists = self.occupied.iter().enumerate().flat_map(|(word, &bits)| {
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|bits| *bits != 0)
                .map(move |bits| word as u32 * 64 + bits.trailing_zeros())
        });
        lists.map(|list| (list, BlockId(self.lists[list as usize].head)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_kit::Random;

    fn unworn(_: BlockId) -> u32 {
        0
    }

    #[test]
    fn between_blocks_of_nearly_as_much_live_data_the_younger_is_taken() {
        let mut victims = Victims::new(3, 64);
        victims.update(BlockId(0), 30, 0);
        victims.update(BlockId(1), 32, 0);
        victims.update(BlockId(2), 33, 0);
        let worn = |block: BlockId| 9 - block.0;
        assert_eq!(victims.choose(GcPolicy::Greedy, 1, worn), Some(BlockId(1)));
    }

    #[test]
    fn greedy_takes_least_live_and_of_these_the_one_left_alone_longest() {
        let mut victims = Victims::new(100, 64);
        assert_eq!(victims.choose(GcPolicy::Greedy, 0, unworn), None);
        for block in 0..100 {
            victims.update(BlockId(block), 64 - block % 10, u64::from(block));
        }
        assert_eq!(victims.choose(GcPolicy::Greedy, 100, unworn), Some(BlockId(9)));
        victims.update(BlockId(9), 54, 101);
        assert_eq!(victims.choose(GcPolicy::Greedy, 101, unworn), Some(BlockId(9)));
        victims.remove(BlockId(9));
        assert_eq!(victims.choose(GcPolicy::Greedy, 101, unworn), Some(BlockId(19)));
    }

    #[test]
    fn a_block_that_is_wholly_live_is_no_victim() {
        let mut victims = Victims::new(2, 64);
        victims.update(BlockId(0), 64, 0);
        assert_eq!(victims.choose(GcPolicy::Greedy, 1, unworn), None);
        victims.update(BlockId(0), 63, 2);
        assert_eq!(victims.choose(GcPolicy::CostBenefit, 3, unworn), Some(BlockId(0)));
    }

    #[test]
    fn cost_benefit_prefers_an_old_block_with_more_live_data_to_a_young_one_with_less() {
        let mut victims = Victims::new(2, 64);
        victims.update(BlockId(0), 40, 10);
        victims.update(BlockId(1), 30, 990);
        assert_eq!(victims.choose(GcPolicy::Greedy, 1000, unworn), Some(BlockId(1)));
        assert_eq!(victims.choose(GcPolicy::CostBenefit, 1000, unworn), Some(BlockId(0)));
        victims.update(BlockId(1), 0, 999);
        assert_eq!(
            victims.choose(GcPolicy::CostBenefit, 1000, unworn),
            Some(BlockId(1)),
            "an empty block is free room"
        );
    }

    #[test]
    fn every_choice_agrees_with_a_scan_of_all_blocks() {
        let (blocks, units) = (97_u32, 70_000);
        let mut victims = Victims::new(blocks, units);
        let mut live = vec![units; blocks as usize];
        let mut random = Random::new(1);
        for now in 0..20_000 {
            let block = random.index(live.len());
            let less = live[block].saturating_sub(random.below(1 << 14) as u32);
            live[block] = if less == 0 { units } else { less };
            victims.update(BlockId(block as u32), live[block], now);
            let least = live.iter().filter(|live| **live < units).min();
            let chosen = victims
                .choose(GcPolicy::Greedy, now, unworn)
                .map(|block| live[block.0 as usize] >> victims.shift);
            assert_eq!(chosen, least.map(|live| live >> victims.shift));
        }
    }
}
