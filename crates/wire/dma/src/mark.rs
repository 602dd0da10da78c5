//! Marks of the accesses that a view has in progress, so that unmapping can wait for them (decision 0020).
//!
//! ```text
//! view                                     unmapping thread
//! mark = generation                        table = without the range; generation += 1
//! (the compiler keeps the order)           membarrier: a barrier in every thread of the process
//! look the address up, copy                wait while mark is an older generation
//! mark = OUTSIDE
//! ```
//!
//! Either the mark is visible after the barrier, and the unmapping thread waits for the access; or the access looks the
//! address up after the barrier, and finds the new table. An access pays two stores and no barrier; the rare unmap pays.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// No access is in progress.
const OUTSIDE: u64 = 0;

/// The mark of one view, written only by the thread that uses the view.
#[derive(Debug, Default)]
pub(crate) struct AccessMark {
    /// The generation at the start of the access, plus 1; or [`OUTSIDE`].
    begun: AtomicU64,
}

impl AccessMark {
    /// Begins an access under `generation` or a later one; it ends when the guard is dropped.
    #[inline]
    pub(crate) fn begin(&self, generation: u64) -> AccessGuard<'_> {
        self.begun.store(generation.wrapping_add(1), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        AccessGuard(self)
    }

    /// Whether an access is in progress that began before `generation`.
    pub(crate) fn is_before(&self, generation: u64) -> bool {
        // Acquire: pairs with the Release at the end, so that the access's copies are complete.
        let begun = self.begun.load(Ordering::Acquire);
        begun != OUTSIDE && begun <= generation
    }
}

/// An access in progress.
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
