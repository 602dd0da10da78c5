//! Numbers that look random and can be had again from their seed.

/// One number from two: what a step does follows from its plan's seed and its own number alone.
#[must_use]
pub const fn mix(seed: u64, n: u64) -> u64 {
    // SplitMix64: any seed will do, and neighbours share nothing.
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A sequence of such numbers.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    taken: u64,
}

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, taken: 0 }
    }

    /// The next number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.taken += 1;
        mix(self.seed, self.taken) % end
    }
}
