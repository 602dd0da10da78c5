//! Numbers from a seed.

/// Odd part of 2^64 divided by the golden ratio: steps of SplitMix64, and the multiplier of Fibonacci hashing.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `n`th number of a seed's sequence (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
#[must_use]
pub const fn mix(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(GOLDEN));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A number of at most 40 bits for each step (Fibonacci hashing): cheaper than [`mix`], and neighbours are far from each other.
#[must_use]
pub const fn spread(step: u64) -> u64 {
    step.wrapping_mul(GOLDEN) >> 24
}

/// A sequence of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    next: u64,
}

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self::starting_at(seed, 0)
    }

    /// The sequence of a seed from its number `n` on.
    #[must_use]
    pub const fn starting_at(seed: u64, n: u64) -> Self {
        Self { seed, next: n }
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        let number = mix(self.seed, self.next);
        self.next += 1;
        number
    }

    /// A number below `end`, which is not zero.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A position among `len` elements; zero where there are none.
    pub const fn index(&mut self, len: usize) -> usize {
        if len == 0 { 0 } else { self.below(len as u64) as usize }
    }

    /// True in one of `n` cases.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| random.next());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
