//! Ranges of blocks that a query reads: a query learns of a change by the command that makes it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use crate::namespace::nvm::ByteRange;

/// A range of bytes that a query reads.
#[derive(Debug)]
struct Watched {
    range: ByteRange,
    has_changed: AtomicBool,
}

/// Knows whether a range of blocks has changed since it was made.
#[derive(Debug, Clone)]
pub struct RangeWatch(Arc<Watched>);

impl RangeWatch {
    /// Whether a command may have changed the range. What was read before this said no is as it was when the watch was made.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.0.has_changed.load(SeqCst)
    }
}

/// The watches of a namespace.
#[derive(Debug, Default)]
pub(crate) struct RangeWatches(Vec<Weak<Watched>>);

impl RangeWatches {
    /// Watches `range` until the watch is dropped.
    pub fn add(&mut self, range: ByteRange) -> RangeWatch {
        self.0.retain(|watched| watched.strong_count() > 0);
        let watched = Arc::new(Watched { range, has_changed: AtomicBool::new(false) });
        self.0.push(Arc::downgrade(&watched));
        RangeWatch(watched)
    }

    /// Whether any range is watched.
    pub fn any(&self) -> bool {
        self.0.iter().any(|watched| watched.strong_count() > 0)
    }

    /// Notes a change of `range`, before it is made.
    #[inline]
    pub fn note(&self, range: ByteRange) {
        if !self.0.is_empty() {
            self.note_each(range);
        }
    }

    #[cold]
    fn note_each(&self, range: ByteRange) {
        for watched in self.0.iter().filter_map(Weak::upgrade) {
            if watched.range.meets(range) {
                watched.has_changed.store(true, SeqCst);
            }
        }
    }
}

impl Drop for RangeWatches {
    /// The namespace goes.
    fn drop(&mut self) {
        self.note(ByteRange { at: 0, len: u64::MAX });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_sees_changes_of_its_range_alone() {
        let mut watches = RangeWatches::default();
        let watch = watches.add(ByteRange { at: 4096, len: 4096 });
        for (at, len) in [(0, 4096), (8192, 10), (5000, 0)] {
            watches.note(ByteRange { at, len });
            assert!(!watch.has_changed(), "{at}, {len}");
        }
        watches.note(ByteRange { at: 8191, len: 1 });
        assert!(watch.has_changed());
    }

    #[test]
    fn namespace_that_goes_has_changed_and_no_watch_is_kept() {
        let mut watches = RangeWatches::default();
        let watch = watches.add(ByteRange { at: 0, len: 1 });
        assert!(watches.any());
        drop(watches);
        assert!(watch.has_changed());
        let mut watches = RangeWatches::default();
        drop(watches.add(ByteRange { at: 0, len: 1 }));
        assert!(!watches.any());
    }
}
