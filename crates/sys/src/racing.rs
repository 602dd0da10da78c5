//! Copies to and from memory that other threads, processes or a device access at the same time.
//!
//! A plain `memcpy` that races with another thread is undefined behaviour in Rust. On x86-64 the copies are inline
//! assembly: opaque to the compiler, and on the machine each racing byte is old or new. Elsewhere they are relaxed
//! atomic words. Copies carry no memory order; the caller provides it.
//!
//! [`page_from_shared`] takes the checksum of what it copies on the way: one pass over memory that is seldom in a cache.

use crate::checksum::PAGE_BYTES;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use native::{from_shared, to_shared};
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub use portable::{from_shared, to_shared};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod native {
    use core::arch::asm;

    /// From this length on `rep movsb` is faster than a loop of 16-byte moves.
    const STRING_MOVE_BYTES: usize = 1536;

    /// Copies from shared memory.
    ///
    /// # Safety
    /// `from` is valid for reads of `into.len()` bytes and does not overlap `into`.
    #[inline(always)]
    pub unsafe fn from_shared(from: *const u8, into: &mut [u8]) {
        // SAFETY: the caller's promise for `from`; `into` is a live exclusive slice.
        unsafe { copy(into.as_mut_ptr(), from, into.len()) }
    }

    /// Copies into shared memory.
    ///
    /// # Safety
    /// `to` is valid for writes of `from.len()` bytes and does not overlap `from`.
    #[inline(always)]
    pub unsafe fn to_shared(to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise for `to`; `from` is a live slice.
        unsafe { copy(to, from.as_ptr(), from.len()) }
    }

    /// # Safety
    /// Both ranges of `len` bytes are valid and do not overlap.
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller's promise, passed on.
        unsafe {
            match len {
                64 => move64(to, from),
                0..16 => copy_short(to, from, len),
                16..STRING_MOVE_BYTES => copy_blocks(to, from, len),
                _ => string_move(to, from, len),
            }
        }
    }

    /// Copies 16 bytes or more; the last block may overlap the one before, writing the same bytes twice.
    ///
    /// # Safety
    /// As [`copy`], and `len >= 16`.
    #[inline]
    unsafe fn copy_blocks(to: *mut u8, from: *const u8, len: usize) {
        let mut done = 0;
        // SAFETY: every block lies inside `len`, by the loop conditions and `len >= 16`.
        unsafe {
            while done + 64 <= len {
                move64(to.add(done), from.add(done));
                done += 64;
            }
            while done + 16 <= len {
                move16(to.add(done), from.add(done));
                done += 16;
            }
            if done < len {
                move16(to.add(len - 16), from.add(len - 16));
            }
        }
    }

    /// Copies fewer than 16 bytes, by at most two moves that may overlap.
    ///
    /// # Safety
    /// As [`copy`], and `len < 16`.
    #[inline]
    unsafe fn copy_short(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: every move lies inside `len`, by the match on it.
        unsafe {
            match len {
                0 => {}
                1..4 => {
                    for at in 0..len {
                        move1(to.add(at), from.add(at));
                    }
                }
                4..8 => {
                    move4(to, from);
                    move4(to.add(len - 4), from.add(len - 4));
                }
                _ => {
                    move8(to, from);
                    move8(to.add(len - 8), from.add(len - 8));
                }
            }
        }
    }

    macro_rules! scalar_move {
        ($name:ident, $bytes:literal, $class:ident, $modifier:literal) => {
            /// # Safety
            #[doc = concat!("Both ranges of ", $bytes, " bytes are valid.")]
            #[inline(always)]
            unsafe fn $name(to: *mut u8, from: *const u8) {
                // SAFETY: the caller's promise; the assembly touches these bytes and one register.
                unsafe {
                    asm!(
                        concat!("mov {t", $modifier, "}, [{from}]"),
                        concat!("mov [{to}], {t", $modifier, "}"),
                        from = in(reg) from, to = in(reg) to, t = out($class) _,
                        options(nostack, preserves_flags),
                    );
                }
            }
        };
    }

    scalar_move!(move1, "1", reg_byte, "");
    scalar_move!(move4, "4", reg, ":e");
    scalar_move!(move8, "8", reg, ":r");

    /// # Safety
    /// Both ranges of 16 bytes are valid.
    #[inline(always)]
    unsafe fn move16(to: *mut u8, from: *const u8) {
        // SAFETY: the caller's promise; the assembly touches these bytes and one register.
        unsafe {
            asm!(
                "movups {t}, [{from}]",
                "movups [{to}], {t}",
                from = in(reg) from, to = in(reg) to, t = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    /// Both ranges of 64 bytes are valid.
    #[inline(always)]
    unsafe fn move64(to: *mut u8, from: *const u8) {
        // SAFETY: the caller's promise; the assembly touches these bytes and four registers.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) from, to = in(reg) to,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    /// As [`copy`].
    #[inline]
    unsafe fn string_move(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; the direction flag is clear at every asm block by the ABI.
        unsafe {
            asm!(
                "rep movsb",
                inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len => _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Copies a page from shared memory; the CRC-32C of the bytes as they were copied.
///
/// # Safety
/// `from` is valid for reads of 4096 bytes, a multiple of 8, and does not overlap `into`; others touch it atomically or by the system.
#[inline]
pub unsafe fn page_from_shared(from: *const u8, into: &mut [u8; PAGE_BYTES]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("sse4.2") && std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has the instructions; the caller's promise, passed on.
        return unsafe { checked_page::copy(from, into) };
    }
    // SAFETY: the caller's promise, passed on.
    unsafe { from_shared(from, into) };
    crate::checksum::crc32c(into)
}

/// Three chains of the processor's CRC instruction, each over its third of a page, hide the latency of it (Gopal and others, Fast CRC
/// Computation for iSCSI Polynomial Using CRC32 Instruction, Intel 2011).
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod checked_page {
    use core::arch::x86_64::{_mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64};
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use crate::checksum::{PAGE_BYTES, power};

    const WORDS: usize = PAGE_BYTES / 8;
    /// Words of a chain. The last chain has those too that are left.
    const CHAIN: usize = WORDS / 3;
    const LAST: usize = WORDS - 2 * CHAIN;

    /// # Safety
    /// As [`super::page_from_shared`].
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

#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
mod portable {
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

    /// Copies from shared memory.
    ///
    /// # Safety
    /// `from` is valid for reads of `into.len()` bytes and does not overlap `into`; others touch them atomically.
    pub unsafe fn from_shared(from: *const u8, into: &mut [u8]) {
        let from = from.cast_mut();
        let (head, rest) = into.split_at_mut(lead_bytes(from, into.len()));
        let mut at = 0;
        for byte in head {
            // SAFETY: the caller's promise.
            *byte = unsafe { AtomicU8::from_ptr(from.add(at)) }.load(Relaxed);
            at += 1;
        }
        let (words, tail) = rest.as_chunks_mut();
        for word in words {
            // SAFETY: the caller's promise; `lead_bytes` made the address a multiple of 8.
            *word = unsafe { AtomicU64::from_ptr(from.add(at).cast()) }.load(Relaxed).to_ne_bytes();
            at += 8;
        }
        for byte in tail {
            // SAFETY: the caller's promise.
            *byte = unsafe { AtomicU8::from_ptr(from.add(at)) }.load(Relaxed);
            at += 1;
        }
    }

    /// Copies into shared memory.
    ///
    /// # Safety
    /// `to` is valid for writes of `from.len()` bytes and does not overlap `from`; others touch them atomically.
    pub unsafe fn to_shared(to: *mut u8, from: &[u8]) {
        let (head, rest) = from.split_at(lead_bytes(to, from.len()));
        let mut at = 0;
        for byte in head {
            // SAFETY: the caller's promise.
            unsafe { AtomicU8::from_ptr(to.add(at)) }.store(*byte, Relaxed);
            at += 1;
        }
        let (words, tail) = rest.as_chunks::<8>();
        for word in words {
            // SAFETY: the caller's promise; `lead_bytes` made the address a multiple of 8.
            unsafe { AtomicU64::from_ptr(to.add(at).cast()) }.store(u64::from_ne_bytes(*word), Relaxed);
            at += 8;
        }
        for byte in tail {
            // SAFETY: the caller's promise.
            unsafe { AtomicU8::from_ptr(to.add(at)) }.store(*byte, Relaxed);
            at += 1;
        }
    }

    fn lead_bytes(at: *const u8, len: usize) -> usize {
        (at.addr().wrapping_neg() % 8).min(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 26] = [
        0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79, 80, 127, 128, 1000, 1023, 1024,
        4097,
    ];

    type From = unsafe fn(*const u8, &mut [u8]);
    type To = unsafe fn(*mut u8, &[u8]);

    fn moves_exactly(from_shared: From, to_shared: To) {
        let source: Vec<u8> = (0..5000u32).map(|i| (i * 7 + 1) as u8).collect();
        for len in LENGTHS {
            for skew in [0, 1, 3, 8] {
                let mut target = vec![0u8; len + 16];
                // SAFETY: `source` holds 5000 bytes, more than any skew and length together.
                unsafe { from_shared(source.as_ptr().wrapping_add(skew), &mut target[8..8 + len]) };
                check(&target, &source[skew..skew + len]);

                let mut target = vec![0u8; len + 16];
                // SAFETY: `target` holds eight bytes before the copy and eight after it.
                unsafe { to_shared(target.as_mut_ptr().wrapping_add(8), &source[skew..skew + len]) };
                check(&target, &source[skew..skew + len]);
            }
        }
    }

    fn check(target: &[u8], expected: &[u8]) {
        let len = expected.len();
        assert_eq!(target[8..8 + len], *expected, "{len} bytes");
        assert!(target[..8].iter().chain(&target[8 + len..]).all(|b| *b == 0), "{len} bytes spilled over");
    }

    #[test]
    fn every_length_moves_exactly_its_bytes() {
        moves_exactly(from_shared, to_shared);
    }

    #[test]
    fn the_portable_copy_moves_exactly_its_bytes() {
        moves_exactly(portable::from_shared, portable::to_shared);
    }
}
