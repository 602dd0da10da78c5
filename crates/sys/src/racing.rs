//! Copies to and from memory that other threads, processes or a device access at the same time.
//!
//! A plain `memcpy` that races with another thread is undefined behaviour in Rust. On x86-64 the copies are inline
//! assembly: opaque to the compiler, and on the machine each racing byte is old or new. Elsewhere they are relaxed
//! atomic words. Copies carry no memory order; the caller provides it.

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
