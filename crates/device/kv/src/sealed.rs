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

/// The word at byte `at` as it is, 0 beyond the end.
pub(crate) fn word(state: &[u8], at: usize) -> u64 {
    let bytes = state.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// Sets the word at `place` right, if one bit of it was flipped; whether it was damaged and now is not.
pub(crate) fn repair(state: &mut [u8], place: usize) -> bool {
    if read(state, place).is_some() {
        return false;
    }
    let Some(bytes) = state.get_mut(place..place + 8) else { return false };
    let word = u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
    // A word that is one bit away from zeroes was never written.
    let repaired =
        (0..64).map(|bit| word ^ 1 << bit).find(|word| *word == 0 || unseal(*word, place).is_some());
    bytes.copy_from_slice(&repaired.unwrap_or(word).to_le_bytes());
    repaired.is_some()
}

/// CRC-8 of the value (polynomial 0x2F: finds every flip of up to three bits), crossed with a hash of the place.
#[inline]
fn check(value: u64, place: usize) -> u8 {
    let bytes = value.to_le_bytes();
    let crc = (0..7).fold(0, |crc, i| crc ^ TABLES[i][usize::from(bytes[i])]);
    // Places are words, so their lowest bits say nothing.
    crc ^ (((place as u64 >> 3) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// `TABLES[i][b]` is the CRC of byte `b` at place `i` of seven.
static TABLES: [[u8; 256]; 7] = tables();

const fn tables() -> [[u8; 256]; 7] {
    let mut tables = [[0; 256]; 7];
    let mut place = 0;
    while place < 7 {
        let mut byte = 0;
        while byte < 256 {
            tables[place][byte] = crc8(byte as u8, (7 - place) * 8);
            byte += 1;
        }
        place += 1;
    }
    tables
}

const fn crc8(byte: u8, shifts: usize) -> u8 {
    let mut crc = byte;
    let mut left = shifts;
    while left > 0 {
        let carry = crc & 0x80 != 0;
        crc <<= 1;
        if carry {
            crc ^= 0x2f;
        }
        left -= 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_flip_of_one_or_two_bits_is_noticed() {
        for (value, place) in [(0, 8), (1, 16), (0x1234_5678_9abc, 8192), (SEALED_MAX, 0)] {
            let word = seal(value, place);
            assert_eq!(unseal(word, place), Some(value));
            for (first, second) in (0..64).flat_map(|first| (first..64).map(move |second| (first, second))) {
                let flips = 1 << first | 1 << second;
                assert_eq!(unseal(word ^ flips, place), None, "bits {first} and {second}");
            }
        }
    }

    #[test]
    fn memory_never_written_holds_zero() {
        assert_eq!(read(&[0; 16], 8), Some(0));
        assert_eq!(read(&[1, 0, 0, 0, 0, 0, 0, 0], 0), None);
    }
}
