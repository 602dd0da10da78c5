//! Which keys may be in the records of a lease.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use byway_spec::Key;

/// Words of the filter. Of the keys that are not in a full lease, one in nine seems to be.
const WORDS: usize = 32;

/// Keys of records that wait to be taken in, without false negatives.
#[derive(Default)]
pub(super) struct Filter([AtomicU64; WORDS]);

impl Filter {
    #[inline]
    fn place(key: &Key) -> (usize, u64) {
        let number = key.number();
        let folded = (number as u64 ^ (number >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((folded >> 59) as usize, 1 << (folded >> 53 & 63))
    }

    /// Adds a key. One thread at a time changes the filter.
    #[inline]
    pub(super) fn insert(&self, key: &Key) {
        let (word, bit) = Self::place(key);
        let held = self.0[word].load(Relaxed);
        if held & bit == 0 {
            self.0[word].store(held | bit, Release);
        }
    }

    /// Whether a key may have been added since the filter was cleared.
    #[inline]
    pub(super) fn may_hold(&self, key: &Key) -> bool {
        let (word, bit) = Self::place(key);
        self.0[word].load(Acquire) & bit != 0
    }

    pub(super) fn clear(&self) {
        let held = self.0.iter().filter(|word| word.load(Relaxed) != 0);
        held.for_each(|word| word.store(0, Release));
    }
}
