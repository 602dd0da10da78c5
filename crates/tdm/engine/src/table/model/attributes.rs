//! Attribute changes during syncs.

use loom::sync::{Mutex, MutexGuard};

use super::{parties, settle};
use crate::table::atomic::AtomicU64;
use crate::table::attributes::{ATTRIBUTE_WORDS, Attributes};

/// The kernel's state: the last change, the last one on disk, the last one acknowledged.
#[derive(Debug, Default)]
struct Below {
    now: u64,
    kept: u64,
    acknowledged: u64,
}

#[derive(Default)]
struct File {
    words: [AtomicU64; ATTRIBUTE_WORDS],
    below: Mutex<Below>,
}

impl File {
    fn begin() -> Self {
        let file = Self::default();
        settle(&file.words);
        file
    }

    fn below(&self) -> MutexGuard<'_, Below> {
        self.below.lock().expect("a lock")
    }

    fn change_and_sync(&self) {
        let change = {
            let mut below = self.below();
            below.now += 1;
            below.now
        };
        Attributes(&self.words).change();
        self.sync();
        let mut below = self.below();
        below.acknowledged = below.acknowledged.max(change);
    }

    fn sync(&self) {
        let attributes = Attributes(&self.words);
        if let Some(changes) = attributes.unkept() {
            {
                let mut below = self.below();
                below.kept = below.now;
            }
            attributes.keep(changes);
        }
    }

    fn check(&self) {
        let below = self.below();
        assert!(below.kept >= below.acknowledged, "{below:?}");
    }
}

#[test]
fn attribute_change_is_covered_by_a_later_sync() {
    parties(3, File::begin, [File::change_and_sync, File::sync], File::check);
    parties(3, File::begin, [File::change_and_sync, File::change_and_sync], File::check);
}
