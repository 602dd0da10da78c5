//! Seeded numbers: the same seed gives the same workload on every machine and in every release.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one addition and one mix a number, full period.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is below 2⁻³² for any bound that fits 32 bits.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in (0, 1): never 0, so that a logarithm or a negative power of it is finite.
    pub fn open_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Puts a slice in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// Fills a slice.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&number[..piece.len()]);
        }
    }
}

/// A number scrambled with a seed, one to one: different numbers stay different.
///
/// Every step (exclusive or with a shifted self, multiplication by an odd number, addition) can be undone.
pub fn scramble(number: u32, seed: u64) -> u32 {
    let mut x = number ^ seed as u32;
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x = x.wrapping_add((seed >> 32) as u32);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x ^ (x >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_stream_is_that_of_the_published_generator() {
        // First outputs of SplitMix64 for seed 1234567, as given with the reference code.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn scrambled_numbers_never_meet() {
        for seed in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let seen: HashSet<u32> = (0..200_000).map(|number| scramble(number, seed)).collect();
            assert_eq!(seen.len(), 200_000);
        }
    }

    #[test]
    fn another_seed_scrambles_otherwise() {
        let same = (0..1000).filter(|&number| scramble(number, 1) == scramble(number, 2)).count();
        assert!(same < 5, "{same} of 1000 keys agree");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(7).shuffle(&mut items);
        assert_ne!(items, (0..1000).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
