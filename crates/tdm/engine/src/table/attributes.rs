//! Changes of owner, mode, times and extended attributes, which no log records. They are counted; `fsync` is a real sync until one covers them.
//! The count is raised after a change and loaded before a real sync, which covers that many.

use crate::table::atomic::{AtomicU64, Ordering};

/// Words of the counters.
pub(super) const ATTRIBUTE_WORDS: usize = 2;

const CHANGES: usize = 0;
const KEPT: usize = 1;

/// A file's words.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'b>(pub(super) &'b [AtomicU64; ATTRIBUTE_WORDS]);

impl Attributes<'_> {
    /// Counts a change. Needs no lock.
    pub fn change(&self) {
        self.0[CHANGES].fetch_add(1, Ordering::SeqCst);
    }

    /// The count that a real sync beginning now covers. `None` if all are covered.
    #[inline]
    #[must_use]
    pub fn unkept(&self) -> Option<u64> {
        let changes = self.0[CHANGES].load(Ordering::SeqCst);
        (changes != self.0[KEPT].load(Ordering::SeqCst)).then_some(changes)
    }

    /// Records that a real sync covered so many.
    pub fn keep(&self, changes: u64) {
        self.0[KEPT].fetch_max(changes, Ordering::SeqCst);
    }

    /// Clears the counters, for another file.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn attribute_change_during_a_sync_is_not_covered() {
        let words: [AtomicU64; ATTRIBUTE_WORDS] = Default::default();
        let attributes = Attributes(&words);
        assert_eq!(attributes.unkept(), None);
        attributes.change();
        let began = attributes.unkept();
        attributes.change();
        began.inspect(|changes| attributes.keep(*changes));
        let again = attributes.unkept();
        assert_eq!((began, again), (Some(1), Some(2)));
        again.inspect(|changes| attributes.keep(*changes));
        // A sync that began earlier may end later.
        began.inspect(|changes| attributes.keep(*changes));
        assert_eq!(attributes.unkept(), None);
    }
}
