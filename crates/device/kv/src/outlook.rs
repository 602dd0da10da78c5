//! Where a get looks first, published to threads that know its key before the engine does.
//!
//! The first look of a get is at a line of the memtable's hash table, or of hints, that is in no cache as a rule. Who puts a
//! command together in the same machine knows the key some tens of nanoseconds before the engine sees the command, and can
//! ask for that line meanwhile. All it needs is where the tables are: words that the engine keeps up to date and that
//! anybody may read at any time. They may be out of date, or not of one time: then another line is asked for, and nothing
//! else comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use byway_spec::Key;
use byway_sys::cacheline::{LINE_BYTES, prefetch_address};

use crate::index::hints::bucket_of;
use crate::index::slot::hash_of;

/// Where the tables of one engine are, shared between it and those who ask.
#[derive(Clone, Debug, Default)]
pub struct Outlook(Arc<Words>);

#[derive(Debug, Default)]
struct Words {
    seed: AtomicU64,
    /// Address of the memtable's hash table, 0 while there is nothing in it, and what a hash is shifted by there.
    slots: AtomicUsize,
    shift: AtomicUsize,
    /// Address of the hints, and how many buckets they have.
    hints: AtomicUsize,
    buckets: AtomicUsize,
}

/// Where an engine's tables are.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) seed: u64,
    /// Address of the memtable's slots and its shift.
    pub(crate) slots: (usize, u32),
    /// Address of the hints and number of their buckets.
    pub(crate) hints: (usize, usize),
}

impl Outlook {
    /// Asks for the memory that a get of `key` looks at first.
    #[inline]
    pub fn expect(&self, key: &Key) {
        let Words { seed, slots, shift, hints, buckets } = &*self.0;
        let hash = hash_of(key, seed.load(Relaxed));
        let slots = slots.load(Relaxed);
        if slots != 0 {
            let slot = hash.checked_shr(shift.load(Relaxed) as u32).unwrap_or(0) as usize;
            prefetch_address(slots.wrapping_add(slot.wrapping_mul(size_of::<u64>())));
        }
        if let Some(bucket) = bucket_of(hash, buckets.load(Relaxed)) {
            prefetch_address(hints.load(Relaxed).wrapping_add(bucket.wrapping_mul(LINE_BYTES)));
        }
    }

    /// Publishes where the tables are now. Words that say so already are left alone: others have them in their caches.
    #[inline]
    pub(crate) fn publish(&self, tables: Tables) {
        let words = &*self.0;
        if words.seed.load(Relaxed) != tables.seed {
            words.seed.store(tables.seed, Relaxed);
        }
        set(&words.slots, tables.slots.0);
        set(&words.shift, tables.slots.1 as usize);
        set(&words.hints, tables.hints.0);
        set(&words.buckets, tables.hints.1);
    }
}

#[inline]
fn set(word: &AtomicUsize, value: usize) {
    if word.load(Relaxed) != value {
        word.store(value, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::index::memtable::Memtable;
    use crate::value_log::record::{Kind, Shape};

    #[test]
    fn a_lookup_without_published_tables_or_of_freed_memory_does_nothing() {
        let (outlook, key) = (Outlook::default(), Key::new(b"key").unwrap());
        outlook.expect(&key);
        for word in [1, 0x1000, usize::MAX] {
            outlook.publish(Tables { seed: 1, slots: (word, word as u32), hints: (word, word) });
            outlook.expect(&key);
        }
    }

    #[test]
    fn an_empty_memtable_is_not_published() {
        let mut table = Memtable::new(16, 7);
        assert_eq!(table.place().0, 0);
        let key = Key::new(b"key").unwrap();
        table.insert(crate::index::entry::Entry::new(&key, Shape::new(Kind::Value, 3, 1), 0, 1));
        assert_ne!(table.place().0, 0);
    }
}
