//! What a put pays of the work that puts make necessary, and when it must wait.

use byway_flash::StallCause;

use crate::engine::KvEngine;
use crate::engine::compaction::{Budget, Slice};
use crate::error::KvError;
use crate::index::share::Filled;
use crate::store::PageStore;

/// Compaction rests until this many bytes of log are owed: a slice is worth its beginning.
const SLICE_LEAST_BYTES: u64 = 4 << 10;
/// Puts pay their share together once they have stored so many bytes, or the index has a step to go.
const UNPAID_MOST_BYTES: u64 = 4 << 10;
/// Most bytes of log that one put scans or moves, beside four times its own.
const SLICE_MOST_BYTES: u64 = 64 << 10;
/// Most records that one put looks at or moves.
const SLICE_RECORDS: u32 = 160;
/// What is owed for each byte put, at most.
const RATE_MOST: u64 = 32;
/// Segments by which compaction begins before puts would have to wait: a share of all, and at least this many.
const MARGIN_SHARE: usize = 32;
const MARGIN_LEAST: usize = 4;
/// Part of that margin by which upkeep begins before puts would have to pay, and most bytes of log that it scans ahead of them.
const AHEAD_SHARE: usize = 4;
const AHEAD_MOST_BYTES: u64 = 8 << 20;
/// What upkeep scans in a step.
const STEP_BYTES: u64 = 8 << 10;
const STEP_RECORDS: u32 = 32;

/// Part of what makes a memtable due from which on it is written out where that may reveal dead records.
const WORTH_WRITING: u64 = 8;

/// When compaction works, and how much.
#[derive(Default)]
pub(crate) struct Pace {
    /// Compaction works while there are no more free segments than this.
    pub(crate) high: usize,
    /// So many segments above those that are left alone, every store does as much as one store may.
    pub(crate) early: usize,
    /// Bytes of records that were stored since a put last paid.
    unpaid_bytes: u64,
    /// Bytes of log that are to be scanned.
    owed_bytes: u64,
    /// Bytes of log that upkeep has scanned ahead of the puts that will owe it.
    ahead_bytes: u64,
    /// Bytes of the memtable's records when nothing was worth moving.
    idle_at_bytes: Option<u64>,
}

impl Pace {
    /// What puts owe of `bytes` of log that are to be scanned for them: the rest was scanned ahead.
    fn owe(&mut self, bytes: u64) -> u64 {
        let ahead = bytes.min(self.ahead_bytes);
        self.ahead_bytes -= ahead;
        bytes - ahead
    }
}

impl KvEngine {
    /// Whether puts have work to share beside their own.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.index.has_work() || self.log.segments().free_count() <= self.compaction.pace.high
    }

    /// A put's share of the work that puts cause, for a record of `bytes`: what it costs to ask how much that is, one in several
    /// puts pays for all.
    #[inline]
    pub(crate) fn tend<S: PageStore>(&mut self, store: &mut S, bytes: u64, at_ps: &mut u64) {
        self.index.earn();
        self.compaction.pace.unpaid_bytes += bytes;
        if self.compaction.pace.unpaid_bytes >= UNPAID_MOST_BYTES || self.index.is_step_due() {
            let bytes = std::mem::take(&mut self.compaction.pace.unpaid_bytes);
            self.tend_for(store, bytes, at_ps);
        }
    }

    #[cold]
    fn tend_for<S: PageStore>(&mut self, store: &mut S, bytes: u64, at_ps: &mut u64) {
        // The record is stored whatever becomes of this. A job that cannot go on is tried again, and in the end
        // a put that needs its result fails.
        let filled = self.filled();
        let done = self.waited_for(StallCause::Flush, store, |engine, store| {
            engine.index.tend(filled, bytes, &mut engine.log, store, at_ps)
        });
        self.index.count_failed_step(&done);
        self.refresh_marks();
        // What is moved fills the memtable, too.
        if self.log.segments().free_count() <= self.compaction.pace.high && !self.index.is_behind() {
            let done = self
                .waited_for(StallCause::Compaction, store, |engine, store| engine.pay(store, bytes, *at_ps));
            self.index.count_failed_step(&done);
        }
    }

    /// Whether upkeep would find something to move, or to learn of.
    pub(crate) fn wants_compaction(&self) -> bool {
        let pace = &self.compaction.pace;
        if self.log.segments().free_count() > pace.high + self.margin() / AHEAD_SHARE {
            return false;
        }
        // Little more is known to be dead before more was stored.
        let step = self.log.layout().segment_bytes() / 2;
        pace.idle_at_bytes.is_none_or(|at| !(at..at + step).contains(&self.unsaved.bytes()))
    }

    /// Does a step of compaction, ahead of the puts that will owe it.
    pub(crate) fn compact_ahead<S: PageStore>(
        &mut self,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let mut budget = Budget { bytes: STEP_BYTES, records: STEP_RECORDS };
        self.compaction.is_ahead = true;
        let done = self.compact(store, &mut budget, at_ps);
        self.compaction.is_ahead = false;
        let pace = &mut self.compaction.pace;
        pace.ahead_bytes = (pace.ahead_bytes + STEP_BYTES - budget.bytes).min(AHEAD_MOST_BYTES);
        match done? {
            Slice::Spent => return Ok(()),
            Slice::Idle if !self.is_little_known() => {}
            Slice::Idle | Slice::Blocked => self.turn_memtables(store, at_ps)?,
        }
        // If no memtable is written out now, there is nothing to do before more is stored.
        self.compaction.pace.idle_at_bytes = Some(self.unsaved.bytes());
        Ok(())
    }

    /// Something more may be dead than was known.
    pub(crate) fn look_for_dead(&mut self) {
        self.compaction.pace.idle_at_bytes = None;
    }

    /// How near the memtable is to being due.
    fn filled(&self) -> Filled {
        let entries = Filled::of(self.index.memtable_len() as u64, self.index.most_entries() as u64);
        entries.max(self.unsaved.filled())
    }

    /// Scans a part of what is owed.
    fn pay<S: PageStore>(&mut self, store: &mut S, bytes: u64, now_ps: u64) -> Result<(), KvError> {
        let most = SLICE_MOST_BYTES + 4 * bytes;
        let rate = self.rate();
        let pace = &mut self.compaction.pace;
        let owed = pace.owed_bytes + pace.owe(bytes * rate);
        self.compaction.pace.owed_bytes = owed.min(2 * most);
        if owed < SLICE_LEAST_BYTES {
            return Ok(());
        }
        let asked = owed.min(most);
        let mut budget = Budget { bytes: asked, records: SLICE_RECORDS };
        let mut at_ps = self.compaction.busy_ps.max(now_ps);
        let done = self.compact(store, &mut budget, &mut at_ps);
        self.compaction.busy_ps = at_ps;
        if matches!(done, Ok(Slice::Idle)) && self.is_little_known() {
            // What the memtable replaces is dead: its flush, paid by the puts that follow, will find where.
            self.turn_memtables(store, &mut at_ps)?;
        }
        let paid = if budget.records == 0 { asked - budget.bytes } else { asked };
        self.compaction.pace.owed_bytes = self.compaction.pace.owed_bytes.saturating_sub(paid);
        done.map(drop)
    }

    /// Whether the log has grown so much since the last flush that another would reveal dead records.
    pub(crate) fn is_little_known(&self) -> bool {
        self.unsaved.bytes() > 2 * self.log.layout().segment_bytes()
    }

    /// Bytes of log to scan for each byte put: as many as give back a byte, and up to five times that the shorter room is.
    fn rate(&self) -> u64 {
        let (high, margin) = (self.compaction.pace.high, self.margin());
        let lack = high.saturating_sub(self.log.segments().free_count()).min(margin) as u64;
        let alive = self.compaction.victim_alive_bytes();
        let dead = self.log.layout().segment_bytes().saturating_sub(alive).max(1);
        let balance = 16 * self.log.layout().segment_bytes() / dead;
        (balance * (margin as u64 + 4 * lack) / margin as u64).div_ceil(16).clamp(1, RATE_MOST)
    }

    /// Segments by which compaction begins early.
    pub(crate) fn margin(&self) -> usize {
        (self.log.segments().count() / MARGIN_SHARE).max(MARGIN_LEAST)
    }

    /// Works towards free segments on behalf of a store that need not wait for them: all that follow until there are none left
    /// do the same, so that none of them has to wait.
    #[cold]
    pub(crate) fn hurry_on<S: PageStore>(&mut self, store: &mut S, now_ps: u64) {
        self.refresh_marks();
        let mut at_ps = self.compaction.busy_ps.max(now_ps);
        let done = self.hurry_once(store, &mut at_ps);
        self.index.count_failed_step(&done);
        self.compaction.busy_ps = at_ps;
    }

    fn hurry_once<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        let is_freeing = self.index.release_on(&mut self.log, store)?;
        let is_writing = self.index.write_on(&mut self.log, store, at_ps)?;
        // Runs pile up where merges wait for memtables that fill one after the other.
        let is_merging = self.index.merge_some(&mut self.log, store, at_ps)?;
        if is_freeing || is_writing || is_merging {
            return Ok(());
        }
        let mut budget = Budget { bytes: SLICE_MOST_BYTES, records: SLICE_RECORDS };
        match self.compact(store, &mut budget, at_ps)? {
            Slice::Idle if !self.is_worth_writing() => Ok(()),
            Slice::Idle | Slice::Blocked => self.turn_memtables(store, at_ps),
            Slice::Spent => Ok(()),
        }
    }

    /// Whether the memtable makes a run that is not so small that merging it costs more than is learnt from it.
    fn is_worth_writing(&self) -> bool {
        self.is_little_known() || self.unsaved.has_one_of(WORTH_WRITING)
    }

    /// Has the memtable written out by those that follow, where an empty one is there to take its turn.
    fn turn_memtables<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        if !self.may_turn() {
            return Ok(());
        }
        self.take_in(store);
        // Each record that is taken in has upkeep done for it, and that may have turned them.
        if !self.may_turn() {
            return Ok(());
        }
        self.index.make_room(&mut self.log, store, self.next_seq.last(), at_ps)?;
        self.note_checkpoint();
        Ok(())
    }

    fn may_turn(&self) -> bool {
        let has_room = self.log.segments().free_count() >= self.log.floor();
        self.unsaved.bytes() > 0 && has_room && self.index.may_freeze()
    }

    /// Makes free segments until `wanted` are there beside those left alone, or nothing more can be done.
    #[cold]
    pub(crate) fn free_segments<S: PageStore>(&mut self, store: &mut S, wanted: usize, at_ps: &mut u64) {
        self.take_in(store);
        self.refresh_marks();
        let slices = self.log.layout().segment_bytes().div_ceil(SLICE_MOST_BYTES);
        let mut slices_left = 2 * self.log.segments().count() as u64 * slices;
        let mut forced = false;
        while self.log.segments().free_count() < self.log.floor() + wanted && slices_left > 0 {
            if self.index.release_one(&mut self.log, store) {
                continue;
            }
            self.compaction.counters.stalls += u64::from(!std::mem::replace(&mut forced, true));
            slices_left -= 1;
            if self.index.exceeds_growth_bound(&self.log) && self.index.merge_on(&mut self.log, store, at_ps)
            {
                self.refresh_marks();
                continue;
            }
            let mut budget = Budget { bytes: SLICE_MOST_BYTES, records: u32::MAX };
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

    /// Where nothing is worth moving: has the index written out, so that more is known to be dead, or merged, so that it
    /// takes less; then tries again what was left. Whether there was anything to do.
    fn find_dead<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> bool {
        let written = self.unsaved.bytes() > 0 && self.checkpoint(store, at_ps).is_ok();
        if written {
            return true;
        }
        if self.index.merge_on(&mut self.log, store, at_ps) {
            return true;
        }
        let runs = self.index.runs();
        let merged = runs > 1 && self.index.merge_all(&mut self.log, store, at_ps).is_ok();
        if merged && self.index.runs() < runs || self.try_left_again() {
            return true;
        }
        // One that was frozen after the last record may be all that is not known yet.
        self.index.is_flushing() && self.checkpoint(store, at_ps).is_ok()
    }

    /// Has the index written out, with everything that is in RAM.
    pub(crate) fn checkpoint<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        self.take_in(store);
        self.index.flush(&mut self.log, store, self.next_seq.last(), at_ps)?;
        self.note_checkpoint();
        Ok(())
    }

    /// The memtable is empty.
    pub(crate) fn note_checkpoint(&mut self) {
        let before_bytes = self.unsaved.bytes();
        self.unsaved.clear();
        self.unsaved.set_flush_at(self.flush_due_bytes());
        self.index.set_expected_entries(self.unsaved.flush_at_bytes(), before_bytes);
        self.refresh_marks();
    }
}
