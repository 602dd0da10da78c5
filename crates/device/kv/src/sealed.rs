//! Self-checking words: 56 bits of value and 8 of checksum, stored by one instruction.
//!
//! Write pointers and segment rows must not tear from their checksum when the process dies, so both are one aligned
//! word. The check covers the word's place too, so that a word that strayed is noticed.

/// Largest value a sealed word holds.
pub(crate) const SEALED_MAX: u64 = (1 << 56) - 1;

/// The word that holds `value` at byte `place` of the state area.
#[inline]
pub(crate) fn seal(value: u64, place: usize) -> u64 {
    debug_assert!(value <= SEALED_MAX);
    value | u64::from(check(value, place)) << 56
}

/// The value in `word`, unless it or its place is wrong.
#[inline]
pub(crate) fn unseal(word: u64, place: usize) -> Option<u64> {
    let value = word & SEALED_MAX;
    (u64::from(check(value, place)) == word >> 56).then_some(value)
}

/// Reads the sealed word at `place`. Memory that was never written holds the value 0.
pub(crate) fn read(state: &[u8], place: usize) -> Option<u64> {
    let bytes = state.get(place..place + 8)?;
    match u64::from_le_bytes(std::array::from_fn(|i| bytes[i])) {
        0 => Some(0),
        word => unseal(word, place),
    }
}

/// CRC-32C over value and place, folded to a byte that is never that of an all-zero word.
#[inline]
fn check(value: u64, place: usize) -> u8 {
    let mut covered = [0; 16];
    covered[0..8].copy_from_slice(&value.to_le_bytes());
    covered[8..16].copy_from_slice(&(place as u64 + 1).to_le_bytes());
    let crc = crc32c::crc32c(&covered);
    (crc ^ crc >> 11 ^ crc >> 23) as u8
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_word_is_noticed() {
        for (value, place) in [(0, 8), (1, 16), (0x1234_5678_9abc, 8192), (SEALED_MAX, 0)] {
            let word = seal(value, place);
            assert_eq!(unseal(word, place), Some(value));
            assert!((0..64).all(|bit| unseal(word ^ 1 << bit, place).is_none()));
        }
    }

    #[test]
    fn memory_never_written_holds_zero() {
        assert_eq!(read(&[0; 16], 8), Some(0));
        assert_eq!(read(&[1, 0, 0, 0, 0, 0, 0, 0], 0), None);
    }
}
