//! CRC-32C, by what the processor has.
//!
//! A record of a log has some tens of bytes: for these one chain of the processor's instruction is cheapest. Longer inputs are
//! folded by carry-less multiplication, 256 bytes at a time, where the processor has it for wide registers: three times as quick as
//! chains (Gopal and others, Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009). Elsewhere the `crc32c` crate has three chains.

/// Up to this length one chain of instructions is the quickest.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SHORT_BYTES: usize = 256;

/// Bytes of a page, as [`checked_page::copy`](crate::checked_page::copy) copies it.
pub const PAGE_BYTES: usize = 4096;

/// The polynomial, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

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
    long_append(crc, bytes)
}

/// The checksum of words, little-endian: as [`crc32c`] of their bytes.
#[inline]
#[must_use]
pub fn crc32c_words<const WORDS: usize>(words: &[u64; WORDS]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { of_words(words) };
    }
    words.iter().fold(0, |crc, word| crc32c_append(crc, &word.to_le_bytes()))
}

/// The checksums of words, as [`crc32c_words`], and of bytes, as [`crc32c`]: of a header and what follows it. The processor takes both at
/// the same time.
#[inline]
#[must_use]
pub fn crc32c_words_and<const WORDS: usize>(words: &[u64; WORDS], bytes: &[u8]) -> (u32, u32) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes.len() <= SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { of_words_and(words, bytes) };
    }
    (crc32c_words(words), crc32c(bytes))
}

/// # Safety
/// The processor has SSE 4.2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn of_words_and<const WORDS: usize>(words: &[u64; WORDS], bytes: &[u8]) -> (u32, u32) {
    (of_words(words), short(0, bytes))
}

/// # Safety
/// The processor has SSE 4.2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
#[inline]
fn of_words<const WORDS: usize>(words: &[u64; WORDS]) -> u32 {
    let sum = u64::from(u32::MAX);
    !words.iter().fold(sum, |sum, word| std::arch::x86_64::_mm_crc32_u64(sum, *word)) as u32
}

#[inline(never)]
fn long_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
        && std::arch::is_x86_feature_detected!("sse4.2")
    {
        // SAFETY: the processor has the instructions.
        return unsafe { folded(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// The bit among `len` bytes that was flipped, by how the checksum of the bytes differs from the one that was kept; `None`
/// when no single bit does that. Bit 0 is the lowest of the first byte.
///
/// One wrong answer in 2³² / (8 · len) for bytes that differ in more: not for long ones.
#[must_use]
pub fn flipped_bit(len: usize, difference: u32) -> Option<usize> {
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
#[inline]
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

/// x to this power, modulo the polynomial, lowest power in the highest bit.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const fn power(exponent: u32) -> i64 {
    let (mut value, mut left) = (1u32 << 31, exponent);
    while left > 0 {
        value = value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
        left -= 1;
    }
    value as i64
}

/// What the two halves of 16 bytes are multiplied by, so that they count as so many bytes further behind. A product of two
/// numbers whose lowest power is in the highest bit comes out one bit too low, and a factor of 32 bits stands 32 bits too low.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const fn further_by(bytes: u32) -> [i64; 2] {
    [power(8 * bytes + 31), power(8 * bytes - 33)]
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
const FOUR: [i64; 2] = further_by(256);
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ONE: [i64; 2] = further_by(64);

/// # Safety
/// The processor has AVX-512, VPCLMULQDQ and SSE 4.2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn folded(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::_mm512_loadu_si512;
    let load = |block: &[u8; 64]| {
        // SAFETY: 64 bytes, wherever they begin.
        unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
    };
    let (blocks, rest) = bytes.as_chunks::<64>();
    let (fours, ones) = blocks.as_chunks::<4>();
    let Some((first, fours)) = fours.split_first() else { return short(crc, bytes) };
    let mut sums = Folding::new(crc, [load(&first[0]), load(&first[1]), load(&first[2]), load(&first[3])]);
    for four in fours {
        sums.fold([load(&four[0]), load(&four[1]), load(&four[2]), load(&four[3])]);
    }
    let mut sum = sums.join();
    for block in ones {
        sum = fold(sum, ONE, load(block));
    }
    short(end(sum), rest)
}

/// A checksum by folding: four sums of 64 bytes, each of every fourth block.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Clone, Copy)]
pub(crate) struct Folding {
    sums: [std::arch::x86_64::__m512i; 4],
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Folding {
    /// Begins with the first four blocks behind what `crc` is the checksum of.
    ///
    /// # Safety
    /// As all of these: the processor has AVX-512, VPCLMULQDQ and SSE 4.2.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(crate) fn new(crc: u32, mut first: [std::arch::x86_64::__m512i; 4]) -> Self {
        use std::arch::x86_64::{_mm512_setr_epi64, _mm512_xor_si512};
        first[0] = _mm512_xor_si512(first[0], _mm512_setr_epi64(i64::from(!crc), 0, 0, 0, 0, 0, 0, 0));
        Self { sums: first }
    }

    /// Adds the next four blocks.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(crate) fn fold(&mut self, four: [std::arch::x86_64::__m512i; 4]) {
        for (sum, block) in self.sums.iter_mut().zip(four) {
            *sum = fold(*sum, FOUR, block);
        }
    }

    /// The checksum of the blocks.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(crate) fn end(self) -> u32 {
        end(self.join())
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn join(self) -> std::arch::x86_64::__m512i {
        let [first, second, third, fourth] = self.sums;
        fold(fold(fold(first, ONE, second), ONE, third), ONE, fourth)
    }
}

/// The checksum whose sum of 64 bytes this is.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx512f,sse4.2")]
fn end(sum: std::arch::x86_64::__m512i) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u64, _mm512_storeu_si512};
    let mut words = [0u64; 8];
    // SAFETY: 64 bytes.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), sum) };
    let mut sum = 0;
    for word in words {
        sum = _mm_crc32_u64(sum, word);
    }
    !(sum as u32)
}

/// A sum, as many bytes further behind as the factors say, and what stands there.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(
    sum: std::arch::x86_64::__m512i,
    [low, high]: [i64; 2],
    next: std::arch::x86_64::__m512i,
) -> std::arch::x86_64::__m512i {
    use std::arch::x86_64::{_mm512_clmulepi64_epi128, _mm512_set_epi64, _mm512_ternarylogic_epi64};
    let factors = _mm512_set_epi64(high, low, high, low, high, low, high, low);
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(sum, factors);
    _mm512_ternarylogic_epi64::<0x96>(low, high, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_every_split_gives_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..1500u32).map(|i| (i * 37 + 11) as u8).collect();
        for len in 0..bytes.len() {
            let whole = &bytes[..len];
            assert_eq!(crc32c(whole), crc32c::crc32c(whole), "{len} bytes");
            let (first, second) = whole.split_at(len / 3);
            assert_eq!(crc32c_append(crc32c(first), second), crc32c(whole), "{len} bytes in two");
        }
    }

    #[test]
    fn words_have_the_checksum_of_their_bytes() {
        let words: [u64; 5] = std::array::from_fn(|i| 0x0123_4567_89ab_cdef_u64.rotate_left(7 * i as u32));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(crc32c_words(&words), crc32c(&bytes));
        for len in [0, 1, 7, 32, 39] {
            assert_eq!(crc32c_words_and(&words, &bytes[..len]), (crc32c(&bytes), crc32c(&bytes[..len])));
        }
        let long = vec![3; 1000];
        assert_eq!(crc32c_words_and(&words, &long), (crc32c(&bytes), crc32c(&long)));
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
