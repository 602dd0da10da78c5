//! Sets of controllers, and a value for each.

use crate::id::ControllerId;
use crate::limits::MAX_CONTROLLERS;

const WORDS: usize = MAX_CONTROLLERS as usize / u64::BITS as usize;

/// A set of controllers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ControllerSet {
    words: [u64; WORDS],
}

impl ControllerSet {
    /// The empty set.
    pub const NONE: Self = Self { words: [0; WORDS] };
    /// All controllers, also those that will be made.
    pub const ALL: Self = Self { words: [u64::MAX; WORDS] };

    /// Whether controller `id` is in the set.
    #[inline]
    pub fn contains(&self, id: ControllerId) -> bool {
        self.words[word(id)] & bit(id) != 0
    }

    /// Puts controller `id` into the set.
    #[inline]
    pub fn insert(&mut self, id: ControllerId) {
        self.words[word(id)] |= bit(id);
    }

    /// Takes controller `id` out of the set; whether it was there.
    #[inline]
    pub fn remove(&mut self, id: ControllerId) -> bool {
        let was_there = self.contains(id);
        self.words[word(id)] &= !bit(id);
        was_there
    }

    /// The controllers of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = ControllerId> + use<'_> {
        (0..MAX_CONTROLLERS).map(ControllerId).filter(|id| self.contains(*id))
    }
}

impl Default for ControllerSet {
    fn default() -> Self {
        Self::NONE
    }
}

impl std::fmt::Debug for ControllerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|id| id.0)).finish()
    }
}

#[inline]
fn word(id: ControllerId) -> usize {
    usize::from(id.0 / 64) % WORDS
}

#[inline]
fn bit(id: ControllerId) -> u64 {
    1 << (id.0 % 64)
}

/// A value for each controller, up to the highest for which one was set.
#[derive(Debug, Default)]
pub(crate) struct PerController<T> {
    of: Vec<T>,
}

impl<T: Default> PerController<T> {
    /// The value of controller `id`, if one was set for it or for a higher identifier.
    #[inline]
    pub fn get(&self, id: ControllerId) -> Option<&T> {
        self.of.get(usize::from(id.0))
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: ControllerId) -> Option<&mut T> {
        self.of.get_mut(usize::from(id.0))
    }

    /// The value of controller `id`, to set it; none where there can be no such controller.
    pub fn entry(&mut self, id: ControllerId) -> Option<&mut T> {
        let at = usize::from(id.0);
        if id.0 < MAX_CONTROLLERS && self.of.len() <= at {
            self.of.resize_with(at + 1, T::default);
        }
        self.of.get_mut(at)
    }

    /// All values, in order of identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (ControllerId, &T)> {
        (0..).map(ControllerId).zip(&self.of)
    }

    /// The same, to change it.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ControllerId, &mut T)> {
        (0..).map(ControllerId).zip(&mut self.of)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_set_distinguishes_the_first_and_the_last_controller() {
        let last = ControllerId(MAX_CONTROLLERS - 1);
        let mut set = ControllerSet::NONE;
        set.insert(last);
        assert!(set.contains(last) && !set.contains(ControllerId(63)) && !set.contains(ControllerId(0)));
        set.insert(ControllerId(64));
        assert_eq!(set.iter().collect::<Vec<_>>(), [ControllerId(64), last]);
        assert!(set.remove(last) && !set.remove(last));
        assert_eq!(ControllerSet::ALL.iter().count(), usize::from(MAX_CONTROLLERS));
    }

    #[test]
    fn table_grows_to_the_highest_controller_used() {
        let mut kept = PerController::<u32>::default();
        assert!(kept.get(ControllerId(2)).is_none() && kept.entry(ControllerId(MAX_CONTROLLERS)).is_none());
        *kept.entry(ControllerId(2)).unwrap() = 7;
        assert_eq!(kept.iter().map(|(_, of)| *of).collect::<Vec<_>>(), [0, 0, 7]);
    }
}
