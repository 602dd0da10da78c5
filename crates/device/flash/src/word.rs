//! Self-checking words: 48 bits of value and 16 bits of checksum, stored by one instruction.
//!
//! Protected state has to survive a kill at any instruction, so a checksum beside a value would tear from it. Here
//! they are one aligned word. The check is CRC-16/CCITT of the value, which finds every flip of up to three bits,
//! xored with a hash of the word's position, which finds words that strayed.

/// Largest value a sealed word holds.
pub(crate) const MAX_VALUE: u64 = (1 << 48) - 1;

/// The word that holds `value` at position `place`.
#[inline]
pub(crate) fn seal(value: u64, place: u64) -> u64 {
    debug_assert!(value <= MAX_VALUE);
    value | u64::from(check(value, place)) << 48
}

/// The value in `word`, unless word or place is damaged.
#[inline]
pub(crate) fn unseal(word: u64, place: u64) -> Option<u64> {
    let value = word & MAX_VALUE;
    (u64::from(check(value, place)) == word >> 48).then_some(value)
}

/// A damaged word with the one bit set right that makes it match again: words that do differ in four bits or more.
pub(crate) fn repaired(word: u64, place: u64) -> Option<u64> {
    (0..64).map(|bit| word ^ 1 << bit).find(|word| unseal(*word, place).is_some())
}

/// Makes the check of a word in eight bytes fit, for fuzzers. Zeroes were never written and stay so.
pub(crate) fn reseal(bytes: &mut [u8], place: u64) {
    let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    if word != 0 {
        bytes.copy_from_slice(&seal(word & MAX_VALUE, place).to_le_bytes());
    }
}

#[inline]
fn check(value: u64, place: u64) -> u16 {
    let bytes = value.to_le_bytes();
    let crc = (0..6).fold(0, |crc, i| crc ^ TABLES[i][bytes[i] as usize]);
    // The high half of a Fibonacci hash; the constant keeps an all-zero word from being valid.
    crc ^ (place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// `TABLES[i][b]` is the CRC of byte `b` at position `i` of six.
static TABLES: [[u16; 256]; 6] = tables();

const fn tables() -> [[u16; 256]; 6] {
    let mut tables = [[0; 256]; 6];
    let mut position = 0;
    while position < 6 {
        let mut byte = 0;
        while byte < 256 {
            tables[position][byte] = crc16(byte as u16, (6 - position) * 8);
            byte += 1;
        }
        position += 1;
    }
    tables
}

const fn crc16(byte: u16, shifts: usize) -> u16 {
    let mut crc = byte << 8;
    let mut left = shifts;
    while left > 0 {
        let carry = crc & 0x8000 != 0;
        crc <<= 1;
        if carry {
            crc ^= 0x1021;
        }
        left -= 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flip_of_one_or_two_bits_is_found() {
        for value in [0, 1, 0x1234_5678_9ABC, MAX_VALUE] {
            let word = seal(value, 77);
            assert_eq!(unseal(word, 77), Some(value));
            for first in 0..64 {
                for second in first..64 {
                    let flips = (1_u64 << first) | (1 << second);
                    assert_eq!(unseal(word ^ flips, 77), None, "bits {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn flipped_bit_of_a_word_is_corrected() {
        let word = seal(0x1234_5678_9ABC, 77);
        for bit in 0..64 {
            assert_eq!(repaired(word ^ 1 << bit, 77), Some(word));
        }
        assert_eq!(repaired(word ^ 0b101, 77), None);
    }

    #[test]
    fn a_word_at_a_neighbours_place_is_found() {
        for place in 0..10_000 {
            assert_eq!(unseal(seal(42, place), place + 1), None);
        }
    }

    #[test]
    fn zeroes_are_not_a_sealed_word_at_the_first_places() {
        assert!((0..1000).all(|place| unseal(0, place).is_none()));
    }
}
