//! What a file has beside its bytes and its size: owner, mode, times, extended attributes. No log tells of these, so whoever changes one says so here,
//! and a sync of all of the file is a real one then. They are counted up behind a change, and loaded before a real sync begins, which covers no more than that.

use crate::table::atomic::{AtomicU64, Ordering};

/// Words of this.
pub(super) const ATTRIBUTE_WORDS: usize = 2;

const CHANGES: usize = 0;
const KEPT: usize = 1;

/// A file's words.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'b>(pub(super) &'b [AtomicU64; ATTRIBUTE_WORDS]);

impl Attributes<'_> {
    /// One was changed just now, or may have been. By anyone, at any time.
    pub fn change(&self) {
        self.0[CHANGES].fetch_add(1, Ordering::SeqCst);
    }

    /// How many changes a real sync that begins now covers, if there are any that none has covered.
    #[inline]
    #[must_use]
    pub fn unkept(&self) -> Option<u64> {
        let changes = self.0[CHANGES].load(Ordering::SeqCst);
        (changes != self.0[KEPT].load(Ordering::SeqCst)).then_some(changes)
    }

    /// A real sync of all of the file covered so many.
    pub fn keep(&self, changes: u64) {
        self.0[KEPT].fetch_max(changes, Ordering::SeqCst);
    }

    /// Another file's from here on.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_during_a_sync_is_not_covered_by_it() {
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
        // One that began before is over later.
        began.inspect(|changes| attributes.keep(*changes));
        assert_eq!(attributes.unkept(), None);
    }
}
