//! What a file has beside its bytes is changed while it is synced.

use loom::sync::{Mutex, MutexGuard};

use super::{parties, settle};
use crate::table::atomic::AtomicU64;
use crate::table::attributes::{ATTRIBUTE_WORDS, Attributes};

/// What the kernel has: the last change, the one that the disk has, and the one that somebody was told is kept.
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
fn a_change_is_acknowledged_by_a_sync_that_began_behind_it() {
    parties(3, File::begin, [File::change_and_sync, File::sync], File::check);
    parties(3, File::begin, [File::change_and_sync, File::change_and_sync], File::check);
}
