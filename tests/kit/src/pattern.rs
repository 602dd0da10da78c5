//! Bytes that tests store and find again.

use crate::random::Random;

/// `len` bytes that differ from those of other seeds, at other lengths too.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let (mut random, mut bytes) = (Random::new(seed), Vec::with_capacity(len + size_of::<u64>()));
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// `len` bytes that follow from the step that stored them and from its place, below 16 bits. No word of them is zero.
#[must_use]
pub fn tagged(step: u64, place: u64, len: usize) -> Vec<u8> {
    let word = |at: usize| (step << 32 | place << 12 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len.div_ceil(8)).flat_map(|at| word(at).to_le_bytes()).take(len).collect()
}
