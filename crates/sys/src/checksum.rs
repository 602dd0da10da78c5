//! CRC-32C of a few bytes at a time.
//!
//! The `crc32c` crate is made for long inputs: it looks the processor up, aligns, and splits into three chains. A record
//! of a log has some tens of bytes, for which one chain of the processor's instruction is several times cheaper. Longer
//! inputs are handed on.

/// Up to this length one chain of instructions is the quickest.
const SHORT_BYTES: usize = 256;

/// The checksum of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The checksum of what `crc` is the checksum of, followed by `bytes`.
#[inline]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes.len() <= SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { short(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// The bit among `len` bytes that was flipped, by how the checksum of the bytes differs from the one that was kept; `None`
/// when no single bit does that. Bit 0 is the lowest of the first byte.
///
/// One wrong answer in 2³² / (8 · len) for bytes that differ in more: not for long ones.
#[must_use]
pub fn flipped_bit(len: usize, difference: u32) -> Option<usize> {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    // The checksum is linear: a flipped bit changes it by what the bits after it make of that bit alone.
    let step = |change: u32| change >> 1 ^ if change & 1 == 1 { POLYNOMIAL } else { 0 };
    let mut change = POLYNOMIAL;
    for bit in (0..len * 8).rev() {
        if change == difference {
            return Some(bit);
        }
        change = step(change);
    }
    None
}

/// # Safety
/// The processor has SSE 4.2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = u64::from(!crc);
    for word in words {
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    }
    let mut sum = sum as u32;
    let (half, rest) = rest.as_chunks::<4>();
    for half in half {
        sum = _mm_crc32_u32(sum, u32::from_le_bytes(*half));
    }
    for byte in rest {
        sum = _mm_crc32_u8(sum, *byte);
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_every_split_gives_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..600u32).map(|i| (i * 37 + 11) as u8).collect();
        for len in 0..bytes.len() {
            let whole = &bytes[..len];
            assert_eq!(crc32c(whole), crc32c::crc32c(whole), "{len} bytes");
            let (first, second) = whole.split_at(len / 3);
            assert_eq!(crc32c_append(crc32c(first), second), crc32c(whole), "{len} bytes in two");
        }
    }

    #[test]
    fn a_flipped_bit_is_found_by_what_it_does_to_the_checksum() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 91 + 5) as u8).collect();
        let sum = crc32c(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(flipped_bit(bytes.len(), sum ^ crc32c(&flipped)), Some(bit));
        }
        assert_eq!(flipped_bit(bytes.len(), 0), None);
    }

    #[test]
    fn the_check_value_of_the_polynomial_is_right() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
