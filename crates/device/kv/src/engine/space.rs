//! How much a namespace holds, and what it needs beside that to go on.
//!
//! The capacity counts live records and their index entries, nothing else: neither what was overwritten, nor gaps, nor
//! old index pages. The extent has more room than that. Compaction and merges turn what is dead into free segments as
//! long as there is anything dead, so a put is refused exactly when what is alive would exceed the capacity.

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::reserve;
use crate::reserve::INDEX_BYTES_PER_KEY;
use crate::store::PageStore;
use crate::value_log::Bounds;
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES};
use byway_spec::Key;

/// Near its capacity, a namespace finds out what puts have replaced before it has to know.
const NEARLY_FULL_SHARE: u64 = 128;
/// Entries that a put settles there.
const SETTLED_PER_PUT: usize = 4;
/// Entries settled at once by a put that needs the room.
const SETTLED_AT_ONCE: usize = 64;

/// Stores work as if there was no room while there are no more segments than this above those that are left alone, or a quarter of
/// the margin: what is left alone grows by about as many at once.
const EARLY_LEAST: usize = 8;
/// Additional index work of a store, in multiples of the usual, when free segments are down to the floor ([`Bounds::floor`]); in
/// proportion less up to a margin above it.
const HURRY_WHEN_SHORT: usize = 15;

/// What is known of the version that a store replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    /// Not looked at yet.
    Unknown,
    /// This one, or none.
    Known(Option<Entry>),
}

/// What a record of `record_bytes` takes of the capacity.
pub(crate) fn charge(record_bytes: u64) -> u64 {
    record_bytes + INDEX_BYTES_PER_KEY
}

impl KvEngine {
    /// Bytes of live records, headers and keys included, and of their index entries. A value that was overwritten is
    /// known to be dead once someone looked for it, at the latest when the index is written to flash: until then the
    /// answer is too high, never too low.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let segments = self.log.segments();
        segments.all_alive_bytes() + segments.keys() * INDEX_BYTES_PER_KEY
    }

    /// Longest value that is taken, in bytes: [`VALUE_MAX_BYTES`](crate::VALUE_MAX_BYTES), or less in a small namespace.
    #[must_use]
    pub fn value_max_bytes(&self) -> u32 {
        self.value_max_bytes
    }

    /// Bytes that [`used_bytes`](Self::used_bytes) can reach. A put that would exceed it is refused.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Number of keys. One that was overwritten counts twice until someone looked for its older version, at the latest
    /// when the index is written to flash: then the number is exact.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.log.segments().keys()
    }

    /// Makes sure that a record has room within the capacity.
    #[inline]
    pub(crate) fn fit<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        value_len: u64,
        over: Over,
        at_ps: &mut u64,
    ) -> Result<Over, KvError> {
        // The longest header there is: a few bytes of a namespace are not worth a branch.
        let charge = charge(PREAMBLE_MAX_BYTES as u64 + value_len);
        if self.used_bytes() + self.leases.charged_out() + charge <= self.nearly_full_bytes() {
            return Ok(over);
        }
        self.fit_closely(store, key, value_len, over, at_ps)
    }

    /// Used bytes above which the namespace is nearly full.
    #[inline]
    pub(crate) fn nearly_full_bytes(&self) -> u64 {
        self.capacity_bytes - self.capacity_bytes / NEARLY_FULL_SHARE
    }

    #[cold]
    fn fit_closely<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        value_len: u64,
        over: Over,
        at_ps: &mut u64,
    ) -> Result<Over, KvError> {
        self.take_in(store);
        let charge = charge(crate::value_log::record::record_header_bytes(key.len()) as u64 + value_len);
        self.index.settle_some(SETTLED_PER_PUT, &mut self.log, store, at_ps);
        if self.used_bytes() + charge <= self.capacity_bytes {
            return Ok(over);
        }
        loop {
            let old = self.index.get(key, store, at_ps)?;
            let replaced = old.filter(|old| old.shape().kind() == Kind::Value);
            let freed = replaced.map_or(0, |old| self::charge(old.shape().record_bytes()));
            if self.used_bytes() + charge <= self.capacity_bytes + freed {
                return Ok(Over::Known(old));
            }
            if self.index.settle_some(SETTLED_AT_ONCE, &mut self.log, store, at_ps) {
                continue;
            }
            if !self.index.settle_frozen(&mut self.log, store, at_ps)? {
                return Err(KvError::Full);
            }
            // That took room of its own. Making it anew may move what was just looked for.
            self.make_room(store, self.segments_for(value_len), at_ps)?;
        }
    }

    /// Most segments that a record takes.
    #[inline]
    pub(crate) fn segments_for(&self, value_len: u64) -> usize {
        reserve::store_segments(self.log.layout(), value_len) as usize
    }

    /// Bytes of records and index entries after which the memtable is written out, full or not. Where the namespace is
    /// nearly full, what is dead should be known soon, and compaction can only work on what is on flash with its index.
    pub(crate) fn flush_due_bytes(&self) -> u64 {
        let left = self.capacity_bytes.saturating_sub(self.used_bytes());
        let least = reserve::full_flush_bytes(self.log.layout(), self.capacity_bytes);
        self.options.replay_bytes.min(least.max(left / 4))
    }

    /// Recomputes what depends on free space: the segments that puts and the index leave free, the growth bound, and the
    /// pace of compaction and of the index.
    pub(crate) fn refresh_marks(&mut self) {
        let (layout, segments) = (self.log.layout(), self.log.segments());
        let segment_bytes = layout.segment_bytes();
        let [active, frozen] = self.index.entries_in_ram().map(|entries| entries as u64);
        let active = active + self.leases.records_out() as u64;
        let [flushing, merging] = self.index.segments_at_work();
        let due = if layout.has_few_segments() { self.due_entries().max(active) } else { active };
        let writing = match frozen {
            0 => 0,
            _ => reserve::segments_of_entries(layout, frozen).saturating_sub(flushing),
        };
        let reserve = self.reserve;
        let merge = reserve.merge_of(layout, self.index.entries_on_flash());
        let moves = reserve::move_segments(layout, segments.longest_bytes());
        let beside = writing + merge.saturating_sub(merging);
        let spare = (segments.count() as u64 * segment_bytes).saturating_sub(self.capacity_bytes);
        let left = self.capacity_bytes.saturating_sub(self.used_bytes());
        let spare = spare.saturating_sub(reserve.segments() * segment_bytes);
        let growth_bound_bytes = spare / 3 + left / 4 + reserve.growth * segment_bytes;
        let soon = active + reserve::SLICE_ENTRIES;
        let flush_soon = reserve::segments_of_entries(layout, soon);
        let flush_due = if due > soon { reserve::segments_of_entries(layout, due) } else { flush_soon };
        let index_floor = (beside + flush_soon) as usize;
        let floor = (beside + flush_due + moves) as usize;
        let high = floor + self.margin();
        let is_half_used = left < self.capacity_bytes / 2;
        // Above where compaction begins: it keeps that many free.
        let packed_at = if is_half_used { high + self.margin() } else { 0 };
        self.log.set_bounds(Bounds { floor, index_floor, growth_bound_bytes, packed_at });
        self.compaction.pace.high = high;
        self.compaction.pace.early = (self.margin() / 4).max(EARLY_LEAST);
        let lack = self.compaction.pace.high.saturating_sub(self.log.segments().free_count());
        let short = lack.min(self.margin()) * HURRY_WHEN_SHORT / self.margin();
        self.index.hurry_up(&self.log, short);
    }

    /// Most entries of the memtable being filled by the time that it is written out.
    fn due_entries(&self) -> u64 {
        reserve::due_entries(self.unsaved.flush_at_bytes()).min(self.index.most_entries() as u64)
    }
}
