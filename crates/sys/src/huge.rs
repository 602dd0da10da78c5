//! Huge pages for memory that is read at random: a table larger than what the processor's page cache covers costs a walk
//! of the page tables on almost every look, and in a virtual machine two.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};

use crate::exclusive::ExclusiveMapping;
use crate::map::PAGE_BYTES;

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

/// Words that begin as zeroes, on huge pages where the system has some.
///
/// They are pages of their own, which the system zeroes where they are touched. Of memory that was freed before, an
/// allocator would zero all of it at once.
pub struct HugeWords {
    memory: ExclusiveMapping,
    len: usize,
}

impl HugeWords {
    /// So many zeroes. As with every allocation, the process ends where there is no memory.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let Ok(layout) = Layout::array::<u64>(len.max(1)) else { handle_alloc_error(Layout::new::<u64>()) };
        let Ok(memory) = ExclusiveMapping::anonymous(layout.size()) else { handle_alloc_error(layout) };
        let words = Self { memory, len };
        prefer_huge_pages(&words);
        words
    }
}

impl Deref for HugeWords {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: a mapping is aligned to a page and was made for so many words, each of which is one whatever it holds; the
        // borrow of `self` is that of the mapping.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for HugeWords {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.len) }
    }
}

impl fmt::Debug for HugeWords {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HugeWords({})", self.len)
    }
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

    #[test]
    fn words_begin_as_zeroes_however_many_there_are_and_keep_what_is_written() {
        for len in [0, 1, 511, 1 << 20] {
            let mut words = HugeWords::zeroed(len);
            assert!(words.len() == len && words.iter().all(|word| *word == 0));
            words.fill(7);
            assert!(words.iter().all(|word| *word == 7), "{len} words");
        }
    }
}
