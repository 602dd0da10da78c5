//! A word that children of fork do not have.

use std::io;
use std::sync::atomic::AtomicU64;

use crate::map::{Mapping, PAGE_BYTES};

/// A word that is zero in each child of this process, by whatever call it was made (MADV_WIPEONFORK, Linux 4.14); children that share its memory
/// share the word.
#[derive(Debug)]
pub struct WipedWord(Mapping);

impl WipedWord {
    /// Makes it; it is zero.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new() -> io::Result<Self> {
        let page = Mapping::anonymous(PAGE_BYTES)?;
        // SAFETY: a page of our own, whose bytes stay as they are here.
        unsafe {
            rustix::mm::madvise(page.as_mut_ptr().cast(), PAGE_BYTES, rustix::mm::Advice::LinuxWipeOnFork)?;
        }
        Ok(Self(page))
    }

    /// The word.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &AtomicU64 {
        // SAFETY: the first of a page that is mapped for as long as `self` is borrowed; all accesses through `&self` are atomic.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_child_finds_zero_and_its_parent_what_it_was() {
        let word = WipedWord::new().unwrap();
        word.get().store(7, Relaxed);
        // SAFETY: the child makes no call but the one that ends it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends this child, and runs nothing of the parent's.
            unsafe { libc::_exit(word.get().load(Relaxed) as i32) };
        }
        let mut status = -1;
        // SAFETY: waits for that child.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status, word.get().load(Relaxed)), (child, 0, 7));
    }
}
