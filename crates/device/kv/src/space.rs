//! How much a namespace holds, and what it needs beside that to go on.
//!
//! The capacity counts live records and their index entries, nothing else: neither what was overwritten, nor gaps, nor
//! old index pages. The extent has more room than that. Compaction and merges turn what is dead into free segments as
//! long as there is anything dead, so a put is refused exactly when what is alive would exceed the capacity.

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::merge::CUT_SEGMENTS;
use crate::layout::Layout;
use crate::store::PageStore;
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES};
use byway_spec::Key;

/// What the index takes for a key: its entry, its share of filters and inner pages.
pub(crate) const INDEX_BYTES_PER_KEY: u64 = 36;
/// The share of the extent that is never promised: dead records must gather before moving the rest pays.
const SLACK_PERCENT: u64 = 6;
/// Segments that are partly filled or on their way: of the streams and of runs being written and read.
const OPEN_SEGMENTS: u64 = 48;
/// Near its capacity, a namespace finds out what puts have replaced before it has to know.
const NEARLY_FULL_SHARE: u64 = 32;
/// Entries that a put settles there.
const SETTLED_PER_PUT: usize = 4;
/// Entries settled at once by a put that needs the room.
const SETTLED_AT_ONCE: usize = 64;

/// Part of the capacity that is written between two flushes of a full namespace: flushing more often costs more in the index
/// than is won by knowing earlier what is dead. Half of it in a namespace of few segments, which has less to spare.
const FLUSH_SHARE: u64 = 32;

/// What is known of the version that a store replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    /// Nobody looked.
    Unknown,
    /// This one, or none.
    Known(Option<Entry>),
}

/// Bytes of live records and index entries that a namespace of `size_bytes` can hold in an extent of this layout.
pub(crate) fn capacity(layout: &Layout, size_bytes: u64) -> u64 {
    let segments = layout.segments as u64;
    let open = OPEN_SEGMENTS.min(segments * 2 / 5) + segments / 50;
    let room = segments.saturating_sub(open) * layout.segment_bytes();
    size_bytes.min(room / 100 * (100 - SLACK_PERCENT))
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
        let live = &self.log.segments.live;
        live.total_bytes() + live.keys().0 * INDEX_BYTES_PER_KEY
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
        self.log.segments.live.keys().0
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
        let after = self.used_bytes() + charge;
        if after <= self.capacity_bytes - self.capacity_bytes / NEARLY_FULL_SHARE {
            return Ok(over);
        }
        self.fit_closely(store, key, value_len, over, at_ps)
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

    /// Most segments that a record takes: header and boundary included, it may begin in one and end in one more.
    pub(crate) fn segments_for(&self, value_len: u64) -> usize {
        1 + ((value_len + 8192) >> self.log.layout.segment_shift) as usize
    }

    /// Log bytes after which the memtable is written out, full or not. Where the namespace is nearly full, what is dead
    /// should be known soon, and compaction can only work on what is on flash with its index.
    pub(crate) fn flush_due_bytes(&self) -> u64 {
        let left = self.capacity_bytes.saturating_sub(self.used_bytes());
        let layout = &self.log.layout;
        let share = FLUSH_SHARE << u64::from(layout.has_few_segments());
        let least = (self.capacity_bytes / share).max(2 * layout.segment_bytes());
        self.options.replay_bytes.min(least.max(left / 4))
    }

    /// Computes anew how many free segments are left alone, and by whom.
    pub(crate) fn refresh_marks(&mut self) {
        let layout = &self.log.layout;
        let (segment_bytes, segments) = (layout.segment_bytes(), &self.log.segments);
        let entries_bytes = |entries: u64| (entries * INDEX_BYTES_PER_KEY).div_ceil(segment_bytes) + 1;
        let [active, frozen] = self.index.entries_in_ram();
        let [flushing, merging] = self.index.segments_at_work();
        let flush = entries_bytes(active as u64) + entries_bytes(frozen as u64).saturating_sub(flushing);
        let group = 26u64.div_ceil(layout.pages_per_segment());
        let merge = entries_bytes(self.index.entries_on_flash()).min(CUT_SEGMENTS + group + 8);
        let index = flush + merge.saturating_sub(merging);
        let moves = 3 + segments.longest_bytes.div_ceil(segment_bytes);
        // Of the extent, what the flash has no blocks for any more is never taken.
        let index = index + self.compaction.pace.withheld;
        self.log.index_floor = index as usize;
        self.log.floor = (index + moves) as usize;
        self.compaction.pace.high = self.log.floor + self.margin();
        let spare = (segments.count() as u64 * segment_bytes).saturating_sub(self.capacity_bytes);
        let left = self.capacity_bytes.saturating_sub(self.used_bytes());
        self.log.swell_bytes = (spare / 3 + left / 4).max(4 * segment_bytes);
        self.index.hurry = self.index.hurry(&self.log);
    }
}
