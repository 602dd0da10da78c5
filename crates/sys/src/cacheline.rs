//! Stores that reach memory outside the processor's caches: CLFLUSHOPT, non-temporal stores, fences.
//!
//! For host-managed device memory (CXL.mem): a store is seen by the device once its line has left our caches. CLWB is
//! for memory that only we write: it may keep a clean line, which is stale when a device recycles the buffer underneath.
//! On processors other than x86-64 only the fence is there; their callers use memory that is coherent anyway.

use std::sync::atomic::{Ordering, fence};

use crate::map::{MapError, Mapping};

/// Bytes in a cache line, on every processor and every CXL link this code meets.
pub const LINE_BYTES: usize = 64;

/// Writes the lines that hold the range back to memory, drops them from the caches, and waits until that is done.
///
/// # Errors
/// [`MapError`] when the range is not inside the mapping.
pub fn flush_range(map: &Mapping, at: usize, len_bytes: usize) -> Result<(), MapError> {
    if len_bytes == 0 {
        return Ok(());
    }
    check(map, at, len_bytes)?;
    let mut line = at / LINE_BYTES * LINE_BYTES;
    while line < at + len_bytes {
        flush_line(map, line);
        line += LINE_BYTES;
    }
    store_fence();
    Ok(())
}

/// Writes the lines that hold the range back to memory and may keep them in the caches: for memory that is not changed behind the
/// caches, so that what is stored next beside it finds its line. Weakly ordered: [`store_fence`] comes after.
///
/// # Errors
/// [`MapError`] when the range is not inside the mapping.
#[inline]
pub fn write_back_range(map: &Mapping, at: usize, len_bytes: usize) -> Result<(), MapError> {
    check(map, at, len_bytes)?;
    let mut line = at / LINE_BYTES * LINE_BYTES;
    while line < at + len_bytes {
        write_back_line(map, line);
        line += LINE_BYTES;
    }
    Ok(())
}

/// Stores one whole line past the caches. `at` is a multiple of 64. Weakly ordered: [`store_fence`] comes after.
///
/// # Errors
/// [`MapError`] when the line is not inside the mapping or not aligned.
pub fn store_line(map: &Mapping, at: usize, line: &[u8; LINE_BYTES]) -> Result<(), MapError> {
    check(map, at, LINE_BYTES)?;
    if !at.is_multiple_of(LINE_BYTES) {
        return Err(MapError { at, len_bytes: LINE_BYTES, mapped_bytes: map.len() });
    }
    stream_line(map, at, line)
}

/// Whether [`stream_range`] goes past the caches on this processor.
pub const STREAMS: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// Bytes that are streamed at a time: what a range begins with and is long is a multiple of.
pub const STREAM_BYTES: usize = 16;

/// Stores a range past the caches, lines that it covers in part too: what stands beside it in them stays. Weakly ordered, and in this
/// processor's hands until a [`store_fence`] of the same thread: another one's does not wait for it.
///
/// # Errors
/// [`MapError`] when the range is not inside the mapping, or not made of whole 16 bytes.
#[inline]
pub fn stream_range(map: &Mapping, at: usize, bytes: &[u8]) -> Result<(), MapError> {
    check(map, at, bytes.len())?;
    let (pieces, rest) = bytes.as_chunks::<STREAM_BYTES>();
    if !at.is_multiple_of(STREAM_BYTES) || !rest.is_empty() {
        return Err(MapError { at, len_bytes: bytes.len(), mapped_bytes: map.len() });
    }
    stream_pieces(map, at, pieces)
}

/// Stores bytes past the caches: whole lines are streamed, ragged ends go through the caches and are then flushed, as a line
/// that is written in part cannot be streamed without tearing what stands beside it. Weakly ordered: [`store_fence`] comes
/// after.
///
/// # Errors
/// [`MapError`] when the range is not inside the mapping.
pub fn store_through(map: &Mapping, at: usize, bytes: &[u8]) -> Result<(), MapError> {
    check(map, at, bytes.len())?;
    let head = bytes.len().min(at.next_multiple_of(LINE_BYTES) - at);
    let (ragged, rest) = bytes.split_at(head);
    store_ragged(map, at, ragged)?;
    let (lines, tail) = rest.as_chunks::<LINE_BYTES>();
    let mut to = at + head;
    for line in lines {
        store_line(map, to, line)?;
        to += LINE_BYTES;
    }
    store_ragged(map, to, tail)
}

fn store_ragged(map: &Mapping, at: usize, bytes: &[u8]) -> Result<(), MapError> {
    if bytes.is_empty() {
        return Ok(());
    }
    map.write_at(at, bytes)?;
    flush_range(map, at, bytes.len())
}

/// Waits until every earlier store, flush and non-temporal store of this processor is done.
#[inline]
pub fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE, which has `sfence`, is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    fence(Ordering::SeqCst);
}

/// Reads the aligned word that holds byte `at` back from the memory: when it returns, stores to that line have been
/// taken by the device, which a fence alone does not promise.
///
/// # Errors
/// [`MapError`] when the word is not inside the mapping.
#[inline]
pub fn read_back(map: &Mapping, at: usize) -> Result<u64, MapError> {
    map.load_u64(at / 8 * 8)
}

/// Asks for the line that holds an element, without waiting for it: for memory that is read at a place known some time
/// before. Nothing happens where there is no such element.
#[inline]
pub fn prefetch<T>(memory: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = memory.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE, which has the instruction, is part of x86-64; it changes no value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (memory, index);
}

/// Prefetches the line at an address that may be unmapped: for memory that another owner may have moved. It reads nothing, and
/// an unmapped address does not fault.
#[inline]
pub fn prefetch_address(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE, which has the instruction, is part of x86-64; it changes no value and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for every line that holds some of the bytes.
#[inline]
pub fn prefetch_all(bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        prefetch(bytes, at);
        at += LINE_BYTES;
    }
    // They need not begin with a line.
    prefetch(bytes, bytes.len().wrapping_sub(1));
}

fn check(map: &Mapping, at: usize, len_bytes: usize) -> Result<(), MapError> {
    if at.checked_add(len_bytes).is_some_and(|end| end <= map.len()) {
        return Ok(());
    }
    Err(MapError { at, len_bytes, mapped_bytes: map.len() })
}

#[cfg(target_arch = "x86_64")]
fn flush_line(map: &Mapping, at: usize) {
    let line = map.as_ptr().wrapping_add(at);
    if has_clflushopt() {
        // SAFETY: `at` is inside the mapping (checked by the caller), the processor has the instruction, and flushing
        // a line changes no value.
        unsafe {
            std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        return;
    }
    // SAFETY: `at` is inside the mapping; SSE2, which has `clflush`, is part of x86-64.
    unsafe { std::arch::x86_64::_mm_clflush(line) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn write_back_line(map: &Mapping, at: usize) {
    if !has_clwb() {
        return flush_line(map, at);
    }
    let line = map.as_ptr().wrapping_add(at);
    // SAFETY: `at` is inside the mapping (checked by the caller), the processor has the instruction, and writing a line
    // back changes no value.
    unsafe {
        std::arch::asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_clflushopt() -> bool {
    write_backs() & (1 << 23) != 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_clwb() -> bool {
    write_backs() & (1 << 24) != 0
}

/// CPUID leaf 7, EBX: bit 23 is CLFLUSHOPT, bit 24 CLWB.
#[cfg(target_arch = "x86_64")]
#[inline]
fn write_backs() -> u32 {
    use std::sync::OnceLock;
    static EBX: OnceLock<u32> = OnceLock::new();
    *EBX.get_or_init(|| match std::arch::x86_64::__cpuid(0).eax {
        ..7 => 0,
        _ => std::arch::x86_64::__cpuid_count(7, 0).ebx,
    })
}

#[cfg(target_arch = "x86_64")]
#[expect(clippy::unnecessary_wraps, reason = "other processors copy, which can be refused")]
fn stream_line(map: &Mapping, at: usize, line: &[u8; LINE_BYTES]) -> Result<(), MapError> {
    let to = map.as_mut_ptr().wrapping_add(at);
    // SAFETY: the line is inside the mapping and aligned to 64 (checked by the caller). Assembly is outside the
    // language's memory model, so a concurrent atomic access to the same words is a race of the hardware alone.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]", "movdqu {b}, [{from} + 16]",
            "movntdq [{to}], {a}", "movntdq [{to} + 16], {b}",
            "movdqu {a}, [{from} + 32]", "movdqu {b}, [{from} + 48]",
            "movntdq [{to} + 32], {a}", "movntdq [{to} + 48], {b}",
            a = out(xmm_reg) _, b = out(xmm_reg) _, from = in(reg) line.as_ptr(), to = in(reg) to,
            options(nostack, preserves_flags),
        );
    }
    Ok(())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "other processors copy, which can be refused")]
fn stream_pieces(map: &Mapping, at: usize, pieces: &[[u8; STREAM_BYTES]]) -> Result<(), MapError> {
    let mut to = map.as_mut_ptr().wrapping_add(at);
    for piece in pieces {
        // SAFETY: the pieces are inside the mapping, which begins with a page, and aligned to 16 (checked by the caller). A race with other
        // accesses is the hardware's alone, as above.
        unsafe {
            std::arch::asm!(
                "movdqu {a}, [{from}]", "movntdq [{to}], {a}",
                a = out(xmm_reg) _, from = in(reg) piece.as_ptr(), to = in(reg) to,
                options(nostack, preserves_flags),
            );
        }
        to = to.wrapping_add(STREAM_BYTES);
    }
    Ok(())
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn stream_pieces(map: &Mapping, at: usize, pieces: &[[u8; STREAM_BYTES]]) -> Result<(), MapError> {
    map.write_at(at, pieces.as_flattened())
}

#[cfg(not(target_arch = "x86_64"))]
fn flush_line(_map: &Mapping, _at: usize) {}

#[cfg(not(target_arch = "x86_64"))]
fn write_back_line(_map: &Mapping, _at: usize) {}

#[cfg(not(target_arch = "x86_64"))]
fn stream_line(map: &Mapping, at: usize, line: &[u8; LINE_BYTES]) -> Result<(), MapError> {
    map.write_at(at, line)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_streamed_line_is_there_after_the_fence() {
        let map = Mapping::anonymous(4096).unwrap();
        let line: [u8; LINE_BYTES] = std::array::from_fn(|i| i as u8);
        store_line(&map, 128, &line).unwrap();
        store_fence();
        let mut back = [0; LINE_BYTES];
        map.read_at(128, &mut back).unwrap();
        assert_eq!(back, line);
        assert_eq!(read_back(&map, 133).unwrap(), u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]));
    }

    #[test]
    fn a_streamed_range_leaves_what_stands_beside_it() {
        let map = Mapping::anonymous(4096).unwrap();
        map.fill_at(0, 256, 9).unwrap();
        stream_range(&map, 48, &[7; 96]).unwrap();
        store_fence();
        let mut back = [0; 256];
        map.read_at(0, &mut back).unwrap();
        assert!(
            back.iter().enumerate().all(|(at, byte)| *byte == if (48..144).contains(&at) { 7 } else { 9 })
        );
    }

    #[test]
    fn flushing_changes_no_byte() {
        let map = Mapping::anonymous(4096).unwrap();
        map.write_at(60, b"across two lines").unwrap();
        flush_range(&map, 60, 16).unwrap();
        write_back_range(&map, 60, 16).unwrap();
        store_fence();
        let mut back = [0; 16];
        map.read_at(60, &mut back).unwrap();
        assert_eq!(&back, b"across two lines");
    }

    #[test]
    fn ranges_outside_and_unaligned_lines_are_refused() {
        let map = Mapping::anonymous(4096).unwrap();
        assert!(flush_range(&map, 4090, 7).is_err());
        assert!(store_line(&map, 32, &[0; LINE_BYTES]).is_err());
        assert!(store_line(&map, 4096, &[0; LINE_BYTES]).is_err());
        assert!(stream_range(&map, 8, &[0; 16]).is_err());
        assert!(stream_range(&map, 0, &[0; 24]).is_err());
        assert!(stream_range(&map, 4080, &[0; 32]).is_err());
    }
}
