//! What a place holds after a load has written it: numbers that follow from the seed and the place alone.

/// The bytes of every place, by a seed.
#[derive(Clone, Copy, Debug)]
pub struct Pattern(pub u64);

impl Pattern {
    /// The eight bytes at a place.
    #[inline]
    fn word(self, at: u64) -> [u8; 8] {
        // The finaliser of SplitMix64: every bit of the place and of the seed changes half of the word.
        let mut z = at.wrapping_add(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).to_le_bytes()
    }

    /// Writes the bytes from byte `at` on, a multiple of eight.
    pub fn fill(self, at: u64, bytes: &mut [u8]) {
        for (place, word) in (at..).step_by(8).zip(bytes.chunks_mut(8)) {
            word.copy_from_slice(&self.word(place)[..word.len()]);
        }
    }

    /// Offset of the first eight bytes that differ from the pattern.
    pub fn difference(self, at: u64, bytes: &[u8]) -> Option<u64> {
        let words = (at..).step_by(8).zip(bytes.chunks(8));
        let mut wrong = words.filter(|(place, word)| **word != self.word(*place)[..word.len()]);
        wrong.next().map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_differing_word_is_reported() {
        let mut bytes = [0; 4099];
        Pattern(7).fill(1 << 30, &mut bytes);
        assert_eq!(Pattern(7).difference(1 << 30, &bytes), None);
        assert_eq!(Pattern(8).difference(1 << 30, &bytes), Some(1 << 30));
        assert_eq!(Pattern(7).difference(1 << 31, &bytes), Some(1 << 31));
        bytes[4098] ^= 1;
        assert_eq!(Pattern(7).difference(1 << 30, &bytes), Some((1 << 30) + 4096));
    }
}
