//! Which accesses of a view are under way.
//!
//! ```text
//! a view                                   who waits
//! mark = generation                        table = without the range; generation += 1
//! (the compiler keeps the order)           a barrier in every thread of the process
//! look the address up, copy                wait while mark is an older generation
//! mark = OUTSIDE
//! ```
//!
//! Either the barrier finds the mark written, and the access is waited for; or the access looks the address up after the
//! barrier, and finds the new table. Accesses pay two stores for it and no barrier: waiting is rare, and pays for both.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// Not in an access.
const OUTSIDE: u64 = 0;

/// The mark of one view, written by the one thread that uses it.
#[derive(Debug, Default)]
pub(crate) struct AccessMark {
    /// One more than the generation under which an access began.
    begun: AtomicU64,
}

impl AccessMark {
    /// An access begins, under `generation` or a later one.
    #[inline]
    pub(crate) fn begin(&self, generation: u64) -> AccessGuard<'_> {
        self.begun.store(generation.wrapping_add(1), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        AccessGuard(self)
    }

    /// Whether an access is under way that began before `generation`.
    pub(crate) fn is_before(&self, generation: u64) -> bool {
        // Acquire: what the access did is done for who sees its end.
        let begun = self.begun.load(Ordering::Acquire);
        begun != OUTSIDE && begun <= generation
    }
}

/// An access that is under way.
pub(crate) struct AccessGuard<'a>(&'a AccessMark);

impl Drop for AccessGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.begun.store(OUTSIDE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_older_than_the_generations_after_the_one_it_began_under() {
        let mark = AccessMark::default();
        assert!(!mark.is_before(u64::MAX));
        let inside = mark.begin(7);
        assert!(mark.is_before(8) && !mark.is_before(7));
        drop(inside);
        assert!(!mark.is_before(8));
    }
}
