//! Statistics of an engine.

use crate::engine::KvEngine;
use crate::engine::compaction::CompactionCounters;
use crate::engine::follow::FollowCounters;
use crate::engine::recovery::Replay;
use crate::index::IndexCounters;
use crate::value_log::packing::PackingCounters;
use crate::work::Work;

/// Counts and sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvStats {
    /// What packing cost since the engine was opened.
    pub packing: PackingCounters,
    /// What the index did since the engine was opened.
    pub index: IndexCounters,
    /// What log compaction did since the engine was opened.
    pub compaction: CompactionCounters,
    /// Keys, as [`KvEngine::keys`] counts them.
    pub keys: u64,
    /// Bytes of live records and their index entries that the namespace can hold: a put that would exceed it is refused.
    pub capacity_bytes: u64,
    /// Entries of which it is not known yet whether they replace older ones: as many keys may be counted twice, and what they
    /// replace counts as used.
    pub unsettled_entries: u64,
    /// Entries in the memtable being filled.
    pub memtable_entries: u64,
    /// Runs on flash.
    pub runs: u64,
    /// Segments of the extent, and how many of them are free.
    pub segments: u64,
    /// Segments that hold nothing.
    pub free_segments: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// RAM of entries that are not on flash yet, of cached index pages and of the segment table, in bytes.
    pub ram_bytes: u64,
    /// Bytes of the log that openings could not read, until a repair or a format. Keys stored there, and nowhere later,
    /// have lost that store.
    pub lost_log_bytes: u64,
    /// What the opening read again of the log.
    pub replay: Replay,
    /// What following the process that writes the image has cost, where another does.
    pub follow: FollowCounters,
    /// As [`KvEngine::most_work`].
    pub most_work: Work,
}

impl KvEngine {
    /// Counts and sizes.
    #[must_use]
    pub fn stats(&self) -> KvStats {
        KvStats {
            packing: *self.log.counters(),
            index: self.index.counters(),
            compaction: self.compaction.counters,
            keys: self.keys(),
            capacity_bytes: self.capacity_bytes,
            unsettled_entries: self.index.unsettled() as u64,
            memtable_entries: self.index.memtable_len() as u64,
            runs: self.index.runs() as u64,
            segments: self.log.layout().segments as u64,
            free_segments: self.log.segments().free_count() as u64,
            segment_bytes: self.log.layout().segment_bytes(),
            ram_bytes: (self.index.ram_bytes() + self.log.segments().ram_bytes()) as u64,
            lost_log_bytes: self.lost_log_bytes(),
            replay: self.replay,
            follow: self.follow,
            most_work: self.most_work(),
        }
    }

    /// As [`KvStats::lost_log_bytes`].
    #[must_use]
    pub fn lost_log_bytes(&self) -> u64 {
        self.index.lost_log_bytes()
    }

    /// What packing cost since the engine was opened.
    #[inline]
    #[must_use]
    pub fn packing_counters(&self) -> &PackingCounters {
        self.log.counters()
    }
}
