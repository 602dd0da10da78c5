//! Numbers from a seed (splitmix64).

/// Pseudo-random numbers, reproducible by seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in one of `n` cases.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
