//! How an engine runs.

use crate::index::IndexBudget;
use crate::index::memtable::{MEMTABLE_ENTRY_BYTES, MEMTABLE_MAX_ENTRIES};
use crate::value_log::packing::Packing;

/// How an engine runs. Nothing here is kept in the image; it may differ from one opening to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvOptions {
    /// How values are packed.
    pub packing: Packing,
    /// RAM of the memtable, beside copies of short values: 128 bytes an entry at most. While one is written out there are two.
    pub memtable_bytes: usize,
    /// RAM for pages of the index.
    pub cache_bytes: usize,
    /// Log bytes after which the memtable is written out, full or not: bounds what an opening replays.
    pub replay_bytes: u64,
    /// Seed of the memtable's hash: a peer that does not know it cannot make keys collide.
    pub hash_seed: u64,
}

impl Default for KvOptions {
    fn default() -> Self {
        Self {
            packing: Packing::default(),
            memtable_bytes: 60 << 20,
            cache_bytes: 64 << 20,
            replay_bytes: 1 << 30,
            hash_seed: 0x5851_f42d_4c95_7f2d,
        }
    }
}

impl KvOptions {
    byway_sys::setters! {
        /// How values are packed.
        packing: Packing;
        /// RAM of the memtable, in bytes.
        memtable_bytes: usize;
        /// RAM for pages of the index, in bytes.
        cache_bytes: usize;
        /// Log bytes after which the memtable is written out.
        replay_bytes: u64;
        /// Seed of the memtable's hash.
        hash_seed: u64;
    }

    pub(crate) fn budget(&self) -> IndexBudget {
        let memtable_entries = (self.memtable_bytes / MEMTABLE_ENTRY_BYTES).clamp(16, MEMTABLE_MAX_ENTRIES);
        IndexBudget {
            memtable_entries,
            values_bytes: memtable_entries * VALUE_BYTES_PER_ENTRY,
            cache_bytes: self.cache_bytes - self.notes_bytes(),
            hash_seed: self.hash_seed,
        }
    }

    /// RAM that an engine may take with these: two memtables with their short values, the cache and what is noted beside it.
    #[must_use]
    pub const fn most_bytes(&self) -> u64 {
        let entries = self.memtable_bytes / MEMTABLE_ENTRY_BYTES;
        let entries = if entries < MEMTABLE_MAX_ENTRIES { entries } else { MEMTABLE_MAX_ENTRIES };
        let values_bytes = (entries as u64).saturating_mul(VALUE_BYTES_PER_ENTRY as u64);
        let memtable_bytes = (self.memtable_bytes as u64).saturating_add(values_bytes);
        memtable_bytes.saturating_mul(2).saturating_add(self.cache_bytes as u64)
    }

    /// RAM for notes of which records are dead, of that for the index: they spare looking there.
    pub(crate) fn notes_bytes(&self) -> usize {
        self.cache_bytes / NOTES_SHARE
    }
}

/// RAM for copies of short values, for each entry of a memtable.
const VALUE_BYTES_PER_ENTRY: usize = 128;

/// The part of the cache that notes of dead records may take.
const NOTES_SHARE: usize = 8;
