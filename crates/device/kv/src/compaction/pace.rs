//! What a put pays of the work that puts make necessary, and when it must wait.

use crate::compaction::{Budget, Slice};
use crate::engine::KvEngine;
use crate::error::KvError;
use crate::store::PageStore;

/// Compaction rests until this many bytes of log are owed: a slice is worth its beginning.
const SLICE_LEAST_BYTES: u64 = 4 << 10;
/// Most bytes of log that one put scans or moves, beside four times its own.
const SLICE_MOST_BYTES: u64 = 64 << 10;
/// Most records that one put looks at or moves.
const SLICE_RECORDS: u32 = 160;
/// What is owed for each byte put, at most.
const RATE_MOST: u64 = 24;
/// Segments by which compaction begins before puts would have to wait: a share of all, and at least this many.
const MARGIN_SHARE: usize = 48;
const MARGIN_LEAST: usize = 4;

/// When compaction works, and how much.
#[derive(Default)]
pub(crate) struct Pace {
    /// Compaction works while there are no more free segments than this.
    pub(crate) high: usize,
    /// Bytes of log that are to be scanned.
    owed_bytes: u64,
}

impl KvEngine {
    /// Whether puts have work to share beside their own.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.index.has_work() || self.log.segments.free_count() <= self.compaction.pace.high
    }

    /// A put's share of the work that puts cause, for a record of `bytes`.
    #[cold]
    pub(crate) fn tend<S: PageStore>(&mut self, store: &mut S, bytes: u64, at_ps: &mut u64) {
        // The record is stored whatever becomes of this. A job that cannot go on is tried again, and in the end
        // a put that needs its result fails.
        let done = self.index.tend(&mut self.log, store, at_ps);
        self.index.counters.failed_steps += u64::from(done.is_err());
        self.refresh_marks();
        if self.log.segments.free_count() <= self.compaction.pace.high {
            let done = self.pay(store, bytes, *at_ps);
            self.index.counters.failed_steps += u64::from(done.is_err());
        }
    }

    /// Scans a part of what is owed.
    fn pay<S: PageStore>(&mut self, store: &mut S, bytes: u64, now_ps: u64) -> Result<(), KvError> {
        let most = SLICE_MOST_BYTES + 4 * bytes;
        let owed = self.compaction.pace.owed_bytes + bytes * self.rate();
        self.compaction.pace.owed_bytes = owed.min(2 * most);
        if owed < SLICE_LEAST_BYTES {
            return Ok(());
        }
        let asked = owed.min(most);
        let mut budget = Budget { bytes: asked, records: SLICE_RECORDS };
        let mut at_ps = self.compaction.busy_ps.max(now_ps);
        let done = self.compact(store, &mut budget, &mut at_ps);
        self.compaction.busy_ps = at_ps;
        let paid = if budget.records == 0 { asked - budget.bytes } else { asked };
        self.compaction.pace.owed_bytes = self.compaction.pace.owed_bytes.saturating_sub(paid);
        done.map(drop)
    }

    /// Bytes of log to scan for each byte put: as many as give back a byte, and up to twice that the shorter room is.
    fn rate(&self) -> u64 {
        let (high, margin) = (self.compaction.pace.high, self.margin());
        let lack = high.saturating_sub(self.log.segments.free_count()).min(margin) as u64;
        let alive = self.compaction.victim_alive_bytes();
        let dead = self.log.layout.segment_bytes().saturating_sub(alive).max(1);
        let balance = 16 * self.log.layout.segment_bytes() / dead;
        (balance * (margin as u64 + 2 * lack) / margin as u64).div_ceil(16).clamp(1, RATE_MOST)
    }

    /// Segments by which compaction begins early.
    pub(crate) fn margin(&self) -> usize {
        (self.log.segments.count() / MARGIN_SHARE).max(MARGIN_LEAST)
    }

    /// Makes free segments until `wanted` are there beside those left alone, or nothing more can be done.
    #[cold]
    pub(crate) fn free_segments<S: PageStore>(&mut self, store: &mut S, wanted: usize, at_ps: &mut u64) {
        self.refresh_marks();
        let mut victims_left = 2 * self.log.segments.count();
        let mut forced = false;
        while self.log.segments.free_count() < self.log.floor + wanted && victims_left > 0 {
            self.compaction.counters.stalls += u64::from(!std::mem::replace(&mut forced, true));
            if self.index.release_one(&mut self.log, store) {
                continue;
            }
            victims_left -= 1;
            if self.index.shrink(&mut self.log, store, at_ps) {
                continue;
            }
            let mut budget = Budget { bytes: self.log.layout.segment_bytes(), records: u32::MAX };
            let more = match self.compact(store, &mut budget, at_ps) {
                Ok(Slice::Spent) => true,
                Ok(Slice::Blocked) => self.checkpoint(store, at_ps).is_ok(),
                Ok(Slice::Idle) | Err(_) => self.find_dead(store, at_ps),
            };
            if !more {
                break;
            }
            self.refresh_marks();
        }
    }

    /// Where nothing can be moved: has the index written out, so that more is known to be dead, or merged, so that it
    /// takes less. Whether that gave anything.
    fn find_dead<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> bool {
        let (free, seq) = (self.log.segments.free_count(), self.index.manifest().seq);
        let written = self.unsaved_bytes > 0 && self.checkpoint(store, at_ps).is_ok();
        if written && self.index.manifest().seq > seq {
            return true;
        }
        let merged = self.index.merge_all(&mut self.log, store, at_ps).is_ok();
        merged && self.log.segments.free_count() > free || self.try_left_again()
    }

    /// Has the index written out, with everything that is in RAM.
    pub(crate) fn checkpoint<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        self.index.flush(&mut self.log, store, self.next_seq - 1, at_ps)?;
        self.note_checkpoint();
        Ok(())
    }

    /// The memtable is empty.
    pub(crate) fn note_checkpoint(&mut self) {
        self.unsaved_bytes = 0;
        self.flush_at_bytes = self.flush_due_bytes();
        self.refresh_marks();
    }
}
