//! Keys of 16 random bytes, made from a number and a seed.

use byway_measure::random::Random;

/// A key.
pub type Key = [u8; 16];

/// The keys of a seed: number `n` is always the same key, and no two of a few billions are equal.
#[derive(Clone, Copy, Debug)]
pub struct Keys(u64);

impl Keys {
    /// The keys of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed).next_u64())
    }

    /// Key number `number`.
    #[inline]
    pub fn key(self, number: u64) -> Key {
        // The mix of SplitMix64 undoes no number onto another: keys differ in their first half.
        let mut random = Random::new(self.0 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut key = [0; 16];
        random.fill(&mut key);
        key
    }

    /// The first `count` keys in order.
    pub fn sorted(self, count: u64) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..count).map(|number| self.key(number)).collect();
        keys.sort_unstable();
        keys
    }
}

/// The key right behind another: the least that is greater and as long.
pub fn behind(key: &Key) -> Key {
    u128::from_be_bytes(*key).wrapping_add(1).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_spread_evenly() {
        let sorted = Keys::new(3).sorted(100_000);
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
        let low = sorted.iter().filter(|key| key[0] < 64).count();
        assert!((24_000..26_000).contains(&low), "{low}");
    }

    #[test]
    fn another_seed_has_other_keys_and_one_seed_the_same() {
        assert_eq!(Keys::new(1).key(7), Keys::new(1).key(7));
        assert_ne!(Keys::new(1).key(7), Keys::new(2).key(7));
    }

    #[test]
    fn next_key_is_the_successor_of_equal_length() {
        assert_eq!(behind(&[0; 16])[15], 1);
        let mut carried = [0; 16];
        carried[15] = 255;
        assert_eq!(behind(&carried)[14..], [1, 0]);
    }
}
