//! Huge pages for memory that is read at random: a table larger than what the processor's page cache covers costs a walk
//! of the page tables on almost every look, and in a virtual machine two.

use rustix::mm::{Advice, madvise};

/// Pages that advice is given for.
const PAGE_BYTES: usize = 4096;

/// Asks that memory not touched yet be backed by huge pages. Nothing follows where the system has none to give.
pub fn prefer_huge_pages<T>(memory: &[T]) {
    let start = memory.as_ptr().cast::<u8>();
    let skipped = start.addr().wrapping_neg() % PAGE_BYTES;
    let whole = size_of_val(memory).saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    if whole == 0 {
        return;
    }
    let first = start.wrapping_add(skipped).cast_mut().cast();
    // SAFETY: whole pages inside of the slice, and advice that changes nothing of what they hold.
    let advised = unsafe { madvise(first, whole, Advice::LinuxHugepage) };
    // A kernel without huge pages refuses; the memory is as good as before.
    let _ = advised;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_size_holds_what_it_held() {
        for len in [0, 1, 511, 512, 1000, 1 << 20] {
            let mut memory: Vec<u64> = (0..len).collect();
            prefer_huge_pages(&memory);
            memory.push(len);
            assert!(memory.iter().copied().eq(0..=len), "{len} words");
        }
    }
}
