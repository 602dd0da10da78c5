//! Free blocks, by erases: which of them is opened for what.
//!
//! A block ages when it is erased, so one that is opened for data that lives long rests. Of the least worn ones, what lives
//! short takes the least worn, again and again until it is no longer that, and what lives long the most worn. How many
//! that choice is among decides how well wear is spread: with a dozen, whatever block came free last is taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::geometry::{BlockId, Geometry};

/// Part of the array that is the choice. Replaying the writes of full key-value namespaces, a 50th leaves some blocks behind,
/// and from a quarter on worn blocks are worn on while the device fills and most are free.
const CHOICE_PART: u32 = 16;

/// How worn a block should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worn {
    Least,
    Most,
}

/// The free blocks.
#[derive(Debug)]
pub(crate) struct FreeBlocks {
    /// Of each number of erases, by plane.
    levels: BTreeMap<u32, BTreeSet<(u32, BlockId)>>,
    count: u32,
    /// Blocks of the array that a choice is made among.
    choice: u32,
    geometry: Geometry,
}

impl FreeBlocks {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let choice = (geometry.block_count() / CHOICE_PART).max(1);
        Self { levels: BTreeMap::new(), count: 0, choice, geometry: *geometry }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Whether there are fewer than a choice is made among.
    #[inline]
    pub(crate) const fn are_few(&self) -> bool {
        self.count < self.choice
    }

    pub(crate) fn insert(&mut self, block: BlockId, erases: u32) {
        self.levels.entry(erases).or_default().insert((self.geometry.plane_of(block), block));
        self.count += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.levels.clear();
        self.count = 0;
    }

    /// Takes the least worn block or, of the least worn ones that a choice is made among, the most worn. Of several it is
    /// the one of `plane` or one of the planes after it.
    pub(crate) fn take(&mut self, worn: Worn, plane: u32) -> Option<BlockId> {
        let least = *self.levels.first_key_value()?.0;
        let erases = match worn {
            Worn::Least => least,
            Worn::Most => self.most_of_choice().unwrap_or(least),
        };
        let level = self.levels.get(&erases)?;
        let place = *level.range((plane, BlockId(0))..).next().or_else(|| level.first())?;
        Some(self.remove(erases, place))
    }

    fn most_of_choice(&self) -> Option<u32> {
        let mut among = self.choice;
        let mut levels = self.levels.iter().skip_while(|(_, level)| {
            among = among.saturating_sub(level.len() as u32);
            among > 0
        });
        levels.next().or_else(|| self.levels.last_key_value()).map(|(erases, _)| *erases)
    }

    /// Takes the least or the most worn block of a plane; where that has none, of all.
    pub(crate) fn take_of_plane(&mut self, plane: u32, worn: Worn) -> Option<BlockId> {
        let mut places = self.levels.iter().filter_map(|(erases, level)| {
            let first = level.range((plane, BlockId(0))..(plane + 1, BlockId(0))).next()?;
            Some((*erases, *first))
        });
        let found = match worn {
            Worn::Least => places.next(),
            Worn::Most => places.next_back(),
        };
        match found {
            Some((erases, place)) => Some(self.remove(erases, place)),
            None => self.take(worn, plane),
        }
    }

    /// Erases of the most worn block of a plane; where that has none, of all.
    pub(crate) fn most_erases(&self, plane: u32) -> Option<u32> {
        let of_plane = |level: &BTreeSet<(u32, BlockId)>| {
            level.range((plane, BlockId(0))..(plane + 1, BlockId(0))).next().is_some()
        };
        let most = self.levels.iter().rev().find(|(_, level)| of_plane(level));
        most.or_else(|| self.levels.last_key_value()).map(|(erases, _)| *erases)
    }

    fn remove(&mut self, erases: u32, place: (u32, BlockId)) -> BlockId {
        if let Some(level) = self.levels.get_mut(&erases) {
            level.remove(&place);
            if level.is_empty() {
                self.levels.remove(&erases);
            }
        }
        self.count -= 1;
        place.1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// 32 blocks of four planes, ten of which are a choice. Block `b` has `b / 8` erases.
    fn free() -> FreeBlocks {
        let geometry = Geometry {
            channels: 2,
            ways: 2,
            planes: 1,
            blocks_per_plane: 8,
            pages_per_block: 16,
            page_bytes: 4096,
            spare_bytes: 64,
            usable_bytes: 0,
        };
        let mut free = FreeBlocks { choice: 10, ..FreeBlocks::new(&geometry) };
        (0..32).for_each(|block| free.insert(BlockId(block), block / 8));
        free
    }

    #[test]
    fn short_lived_data_takes_the_least_worn_block_of_the_nearest_plane() {
        let mut free = free();
        let taken: Vec<_> = (0..9).map(|_| free.take(Worn::Least, 2).unwrap().0).collect();
        assert_eq!(taken, [2, 6, 3, 7, 0, 4, 1, 5, 10]);
    }

    #[test]
    fn long_lived_data_takes_the_most_worn_of_the_least_worn_blocks() {
        let mut free = free();
        let taken: Vec<_> = (0..8).map(|_| free.take(Worn::Most, 0).unwrap().0 / 8).collect();
        assert_eq!(taken, [1, 1, 1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn units_take_their_own_plane_and_another_where_that_has_none() {
        let mut free = free();
        assert_eq!(free.most_erases(3), Some(3));
        let taken: Vec<_> = (0..8).map(|_| free.take_of_plane(3, Worn::Most).unwrap().0).collect();
        assert_eq!(taken, [27, 31, 19, 23, 11, 15, 3, 7]);
    }
}
