//! Addresses that a get reads first, published to threads that know its key before the engine does.
//!
//! A get first reads a line of the memtable's hash table, or of the hints, which is usually in no cache. A host thread in
//! the same process knows the key some tens of nanoseconds before the engine sees the command, and prefetches that line
//! meanwhile. It needs the addresses of the tables: the engine publishes them in atomic words, which any thread may read at
//! any time. Words that are stale or of different times only prefetch a wrong line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use byway_spec::Key;
use byway_sys::cacheline::{LINE_BYTES, prefetch_address};

use crate::index::hints::bucket_of;
use crate::index::slot::hash_of;

/// Addresses of the tables of one engine, shared between the engine and host threads.
#[derive(Clone, Debug, Default)]
pub struct LookupHints(Arc<Words>);

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

impl LookupHints {
    /// Prefetches the memory that a get of `key` reads first.
    #[inline]
    pub fn prefetch(&self, key: &Key) {
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

    /// Publishes the tables' addresses. Unchanged words are not written: other threads have them in their caches.
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
    use crate::index::short_values::Value;
    use crate::value_log::record::{Kind, Shape};

    #[test]
    fn a_lookup_without_published_tables_or_of_freed_memory_does_nothing() {
        let (lookup_hints, key) = (LookupHints::default(), Key::new(b"key").unwrap());
        lookup_hints.prefetch(&key);
        for word in [1, 0x1000, usize::MAX] {
            lookup_hints.publish(Tables { seed: 1, slots: (word, word as u32), hints: (word, word) });
            lookup_hints.prefetch(&key);
        }
    }

    #[test]
    fn an_empty_memtable_is_not_published() {
        let mut table = Memtable::new(16, 0, 7);
        assert_eq!(table.place().0, 0);
        let key = Key::new(b"key").unwrap();
        table.insert(
            crate::index::entry::Entry::new(&key, Shape::new(Kind::Value, 3, 1), 0, 1),
            Value::Unknown,
        );
        assert_ne!(table.place().0, 0);
    }
}
