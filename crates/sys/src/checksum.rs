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
    fn the_check_value_of_the_polynomial_is_right() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
