//! Copies of pages from memory that others write meanwhile, with the checksum of what was copied: one pass over memory that is seldom in
//! a cache.
//!
//! Vectors of 64 bytes are folded where the processor has them ([`checksum`](crate::checksum)). A page then is some 500 instructions, few
//! enough that most of its lines are asked for while the first ones are awaited. By words it is 2,000.

use crate::checksum::PAGE_BYTES;

/// Copies a page from shared memory; the CRC-32C of the bytes as they were copied. Meanwhile the page at address `next`, which may
/// be any, is prefetched into the second cache.
///
/// # Safety
/// `from` is valid for reads of 4096 bytes, a multiple of 8, and does not overlap `into`; others touch it atomically or by the system.
#[inline]
pub unsafe fn copy(from: *const u8, into: &mut [u8; PAGE_BYTES], next: Option<usize>) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("vpclmulqdq") && has!("sse4.2") {
            // SAFETY: the processor has the instructions; the caller's promise, passed on.
            return unsafe {
                match next {
                    Some(next) => folded::copy::<true>(from, into, next),
                    None => folded::copy::<false>(from, into, 0),
                }
            };
        }
        if has!("sse4.2") && has!("pclmulqdq") {
            next.into_iter().for_each(prefetch);
            // SAFETY: the processor has the instructions; the caller's promise, passed on.
            return unsafe { chains::copy(from, into) };
        }
    }
    let _ = next;
    // SAFETY: the caller's promise, passed on.
    unsafe { crate::racing::from_shared(from, into) };
    crate::checksum::crc32c(into)
}

/// Prefetches the page at an address into the second cache: the first one holds no more than eight. It reads nothing, and an unmapped
/// address does not fault.
#[inline]
pub fn prefetch(address: usize) {
    for line in (0..PAGE_BYTES).step_by(64) {
        prefetch_line(address.wrapping_add(line));
    }
}

#[inline(always)]
fn prefetch_line(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE, which has the instruction, is part of x86-64; it changes no value and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod folded {
    use core::arch::asm;
    use core::arch::x86_64::{__m512i, _mm512_storeu_si512};

    use super::prefetch_line;
    use crate::checksum::{Folding, PAGE_BYTES};

    /// Bytes that are folded at a time.
    const FOUR: usize = 256;

    /// # Safety
    /// As [`super::copy`], and the processor has AVX-512, VPCLMULQDQ and SSE 4.2.
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(super) unsafe fn copy<const AHEAD: bool>(
        from: *const u8,
        into: &mut [u8; PAGE_BYTES],
        next: usize,
    ) -> u32 {
        let into = into.as_mut_ptr();
        // Closures passed to functions of the library would not be inlined: those lack the features.
        macro_rules! four {
            ($at:expr) => {{
                let at: usize = $at;
                // SAFETY: 64 bytes inside of the page on both sides, as `at` is at most `PAGE_BYTES - FOUR`.
                unsafe {
                    [
                        step::<AHEAD>(from, into, next, at),
                        step::<AHEAD>(from, into, next, at + 64),
                        step::<AHEAD>(from, into, next, at + 128),
                        step::<AHEAD>(from, into, next, at + 192),
                    ]
                }
            }};
        }
        let mut sums = Folding::new(0, four!(0));
        let mut at = FOUR;
        while at < PAGE_BYTES {
            sums.fold(four!(at));
            at += FOUR;
        }
        sums.end()
    }

    /// Copies the 64 bytes at `at`.
    ///
    /// # Safety
    /// They are valid on both sides, and the processor has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn step<const AHEAD: bool>(from: *const u8, into: *mut u8, next: usize, at: usize) -> __m512i {
        if AHEAD {
            prefetch_line(next.wrapping_add(at));
        }
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = load(from.add(at));
            _mm512_storeu_si512(into.add(at).cast(), bytes);
            bytes
        }
    }

    /// # Safety
    /// `from` is valid for reads of 64 bytes, and the processor has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(from: *const u8) -> __m512i {
        let bytes;
        // SAFETY: the caller's promise; the assembly reads these bytes into one register.
        unsafe {
            asm!(
                "vmovdqu64 {bytes}, [{from}]",
                from = in(reg) from, bytes = lateout(zmm_reg) bytes,
                options(nostack, preserves_flags, readonly),
            );
        }
        bytes
    }
}

/// Three chains of the processor's CRC instruction, each over its third of a page, hide the latency of it (Gopal and others, Fast CRC
/// Computation for iSCSI Polynomial Using CRC32 Instruction, Intel 2011).
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod chains {
    use core::arch::x86_64::{_mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64};
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use crate::checksum::{PAGE_BYTES, power};

    const WORDS: usize = PAGE_BYTES / 8;
    /// Words of a chain. The last chain has those too that are left.
    const CHAIN: usize = WORDS / 3;
    const LAST: usize = WORDS - 2 * CHAIN;

    /// # Safety
    /// As [`super::copy`], and the processor has SSE 4.2 and PCLMULQDQ.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub(super) unsafe fn copy(from: *const u8, into: &mut [u8; PAGE_BYTES]) -> u32 {
        let from: *mut u64 = from.cast_mut().cast();
        let (into, _) = into.as_chunks_mut::<8>();
        let mut step = |sum: u64, at: usize| {
            // SAFETY: the caller's promise: `at` is below `WORDS`.
            let word = unsafe { AtomicU64::from_ptr(from.add(at)) }.load(Relaxed);
            into[at] = word.to_le_bytes();
            _mm_crc32_u64(sum, word)
        };
        let mut sums = [u64::from(u32::MAX), 0, 0];
        for at in 0..CHAIN {
            sums[0] = step(sums[0], at);
            sums[1] = step(sums[1], CHAIN + at);
            sums[2] = step(sums[2], 2 * CHAIN + at);
        }
        let last = (3 * CHAIN..WORDS).fold(sums[2], step);
        let first = further(sums[0], const { power(64 * (CHAIN + LAST) as u32 - 33) });
        let second = further(sums[1], const { power(64 * LAST as u32 - 33) });
        !(_mm_crc32_u64(0, first ^ second) ^ last) as u32
    }

    /// A checksum times a power of x: what the chains behind it make of it, but for the last 64 bits.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn further(sum: u64, power: i64) -> u64 {
        let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(sum as i64), _mm_cvtsi64_si128(power));
        _mm_cvtsi128_si64(product) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::crc32c;

    type Copy = unsafe fn(*const u8, &mut [u8; PAGE_BYTES]) -> u32;

    fn copies_with_checksum(copy: Copy) {
        for seed in 0..20_u32 {
            let words: Vec<u64> =
                (0..512_u64).map(|i| (i + 1).wrapping_mul(u64::from(seed + 3) << 29 | 0x9e37)).collect();
            let mut page = [0; PAGE_BYTES];
            // SAFETY: 512 words are a page.
            let crc = unsafe { copy(words.as_ptr().cast(), &mut page) };
            assert!(page.as_chunks().0.iter().zip(&words).all(|(bytes, word)| *bytes == word.to_ne_bytes()));
            assert_eq!(crc, crc32c::crc32c(&page), "seed {seed}");
            assert_eq!(crc, crc32c(&page), "seed {seed}");
        }
    }

    #[test]
    fn page_is_copied_with_its_checksum() {
        copies_with_checksum(|from, into| {
            // SAFETY: as of the caller.
            unsafe { copy(from, into, None) }
        });
        copies_with_checksum(|from, into| {
            // SAFETY: as of the caller. The next page is nowhere.
            unsafe { copy(from, into, Some(usize::MAX - 100)) }
        });
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn page_is_copied_with_its_checksum_by_chains() {
        if std::arch::is_x86_feature_detected!("sse4.2") && std::arch::is_x86_feature_detected!("pclmulqdq") {
            copies_with_checksum(|from, into| {
                // SAFETY: as of the caller, and the processor has the instructions.
                unsafe { chains::copy(from, into) }
            });
        }
    }
}
