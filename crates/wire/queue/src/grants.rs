//! Rights that threads use without the run lock, until a holder of the lock ends them all.
//!
//! The holder [ends](Grants::end) the rights before it changes what they rest on. A thread takes what it read under a right for true only if
//! the right had not ended afterwards ([`Grants::under`]). Threads store nothing, and the holder waits for none of them.

use crate::sync::{AtomicU64, Ordering, fence};
use crate::validated;

/// The rights of all threads, on a cache line that changes only when they end.
#[derive(Debug)]
#[repr(align(128))]
pub struct Grants(AtomicU64);

/// A right, until the next [`Grants::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant(u64);

impl Grants {
    /// No right was given.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A right from now on. The caller holds the run lock.
    pub fn give(&self) -> Grant {
        Grant(self.0.load(Ordering::Relaxed))
    }

    /// Ends every right, before what they rest on changes. The caller holds the run lock.
    pub fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // A thread that reads what is stored from here on finds the rights ended.
        fence(Ordering::Release);
    }

    /// Whether a right has not ended.
    #[inline]
    pub fn is_valid(&self, grant: Grant) -> bool {
        self.0.load(Ordering::Acquire) == grant.0
    }

    /// Runs `work` by a right; `None` if that ended before or meanwhile.
    #[inline]
    pub fn under<R>(&self, grant: Grant, work: impl FnOnce() -> Option<R>) -> Option<R> {
        let mut work = Some(work);
        let granted = |is_valid: &bool| if *is_valid { work.take()?() } else { None };
        validated(1, || self.is_valid(grant), granted).flatten()
    }
}

impl Default for Grants {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_right_ends_before_or_during_what_is_done_by_it() {
        let grants = Grants::new();
        let first = grants.give();
        assert_eq!(grants.under(first, || Some(7)), Some(7));
        let ended_meanwhile = grants.under(first, || {
            grants.end();
            Some(7)
        });
        assert_eq!(ended_meanwhile, None);
        assert_eq!(grants.under(first, || -> Option<()> { unreachable!("it has ended") }), None);
        assert!(!grants.is_valid(first) && grants.is_valid(grants.give()));
    }
}
