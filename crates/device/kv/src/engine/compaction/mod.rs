//! Log compaction: what is alive in a segment is moved, and the segment is free again.
//!
//! A *victim* is scanned record by record. A record is alive if the index points at its address; it is appended to the
//! stream of moved records with a new sequence number, and enters the memtable like a put. When the scan has passed the
//! end and the count of what is alive is down to nothing, the victim is freed: a record that was overlooked or cannot be
//! read keeps its segment. A crash in between leaves both copies, of which the newer counts. Tombstones are not moved:
//! the index on flash has the deletion, for as long as anything older may be below it.
//!
//! The work is done in slices. Each put pays for one, in proportion to what it stores and to how short the room is.

mod job;
mod numbers;
mod pace;
mod victim;

use byway_flash::FlashError;
use tracing::debug;

use crate::damage::Damage;
use crate::engine::KvEngine;
use crate::error::KvError;
use crate::store::PageStore;
use job::Job;
use numbers::ReservedSeqs;
pub(crate) use pace::Pace;
use victim::Left;

/// Stretches of damage that are remembered.
const DAMAGE_KEPT: usize = 64;
/// Cost, in records, of choosing a victim and finding its first record.
const VICTIM_RECORDS: u32 = 20;

/// What log compaction did since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionCounters {
    /// Segments whose records were all moved or dead.
    pub victims: u64,
    /// Bytes of log that were scanned.
    pub scanned_bytes: u64,
    /// Records that were alive, and moved.
    pub moved_records: u64,
    /// Their bytes, headers and keys included.
    pub moved_bytes: u64,
    /// Segments that were scanned and kept, because something in them could not be read.
    pub kept_segments: u64,
    /// Puts that found no free segment and had to make one.
    pub stalls: u64,
}

/// What compaction knows between two slices.
#[derive(Default)]
pub(crate) struct Compaction {
    job: Option<Job>,
    /// Segments to empty after the victim at hand, the last first.
    group: Vec<u32>,
    /// Bytes that were alive in the last victim.
    last_alive_bytes: u64,
    /// Segments that could not be emptied.
    left: Vec<Left>,
    /// The checkpoint at which all of them were last tried again.
    tried_again_at: Option<u64>,
    pub(crate) pace: Pace,
    /// It works ahead of puts, where that is worth it whatever they will do.
    is_ahead: bool,
    reserved_seqs: ReservedSeqs,
    pub(crate) counters: CompactionCounters,
    pub(crate) damage: Vec<Damage>,
    /// Modelled time up to which compaction is busy: no command waits for it, unless there is no room without.
    busy_ps: u64,
    /// A record on its way, when it spans pages.
    buffer: Vec<u8>,
}

impl Compaction {
    /// Everything there was is gone.
    pub(crate) fn forget(&mut self) {
        *self = Self { counters: self.counters, ..Self::default() };
    }

    /// Bytes that were alive in the victim at hand, when it was chosen.
    fn victim_alive_bytes(&self) -> u64 {
        self.job.as_ref().map_or(self.last_alive_bytes, |job| job.alive_bytes)
    }
}

/// How much of a slice is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    pub(crate) records: u32,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.bytes == 0 || self.records == 0
    }

    fn spend(&mut self, bytes: u64, records: u32) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.records = self.records.saturating_sub(records);
    }
}

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// The budget is spent.
    Spent,
    /// No segment is worth emptying, or none can be.
    Idle,
    /// The memtable is to be written out first.
    Blocked,
}

impl KvEngine {
    /// Stretches of the log that compaction found damaged, with the segments they are in kept as they are: the first of
    /// them since the engine was opened.
    #[must_use]
    pub fn compaction_damage(&self) -> &[Damage] {
        &self.compaction.damage
    }

    /// Does a slice of compaction.
    ///
    /// # Errors
    /// Those of writing: a victim that cannot be read is left where it is.
    pub(crate) fn compact<S: PageStore>(
        &mut self,
        store: &mut S,
        budget: &mut Budget,
        at_ps: &mut u64,
    ) -> Result<Slice, KvError> {
        self.reserve_numbers(store, budget);
        while !budget.is_spent() {
            if self.is_due() {
                return Ok(Slice::Blocked);
            }
            let Some(mut job) = self.take_job(store, budget, at_ps) else { return Ok(Slice::Idle) };
            match self.work(&mut job, store, budget, at_ps) {
                Ok(true) => self.end_job(&job),
                Ok(false) => self.compaction.job = Some(job),
                Err(error) => {
                    self.drop_job(job, store);
                    return Err(error);
                }
            }
        }
        Ok(Slice::Spent)
    }

    fn take_job<S: PageStore>(&mut self, store: &mut S, budget: &mut Budget, at_ps: &mut u64) -> Option<Job> {
        if let Some(job) = self.compaction.job.take() {
            // It may be found to be dead meanwhile, and freed without a move.
            if !self.index.is_leaving(job.segment) && job.is_still_there(&self.log) {
                return Some(job);
            }
            self.drop_job(job, store);
        }
        let segment = self.choose_victim()?;
        budget.spend(0, VICTIM_RECORDS);
        let job = self.begin_job(segment, store, at_ps);
        let (alive_bytes, free_segments) = (job.alive_bytes, self.log.segments().free_count());
        debug!(segment, alive_bytes, free_segments, "compaction victim chosen");
        Some(job)
    }

    /// Every record of a victim was looked at.
    fn end_job(&mut self, job: &Job) {
        self.compaction.last_alive_bytes = job.alive_bytes;
        let is_counted = self.log.segments().alive_bytes(job.segment as usize) != 0;
        if is_counted && !job.is_all_seen() {
            self.compaction.counters.kept_segments += 1;
            debug!(segment = job.segment, "compaction victim kept: a part of it cannot be read");
            return self.leave(job.segment);
        }
        self.compaction.counters.victims += 1;
        self.forget_left(job.segment);
        if is_counted {
            // Dead records that could not be counted: the index could not be read when it was written.
            self.log.segments_mut().clear_live(job.segment as usize);
        }
        if job.spans && !is_counted {
            self.wait_for_checkpoint(job.segment);
        } else {
            self.index.free_soon(job.segment);
        }
    }

    /// Gives up the victim at hand. What was moved of it stays moved.
    pub(crate) fn drop_compaction<S: PageStore>(&mut self, store: &mut S) {
        if let Some(job) = self.compaction.job.take() {
            self.drop_job(job, store);
        }
    }

    fn drop_job<S: PageStore>(&mut self, job: Job, store: &mut S) {
        if let Some(long) = &job.long {
            self.log.give_up_long(store, &long.append);
        }
    }

    /// Notes that a stretch of a victim is no record and no padding, or holds one that cannot be read.
    fn note_damage(&mut self, damage: Damage) {
        if self.compaction.damage.len() < DAMAGE_KEPT && !self.compaction.damage.contains(&damage) {
            self.compaction.damage.push(damage);
        }
    }
}

/// Whether an error concerns the place that was read alone.
fn is_of_place(error: &KvError) -> bool {
    matches!(
        error,
        KvError::DamagedRecord { .. }
            | KvError::Flash(
                FlashError::Media { .. } | FlashError::Lost { .. } | FlashError::OutOfRange { .. }
            )
    )
}
