//! What the index does beside puts and gets: freezing, flushing, merging, freeing segments.

use std::ops::Range;

use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::manifest::RUNS_MAX;
use crate::index::memtable::Memtable;
use crate::index::merge::{Flush, Merge, Progress};
use crate::index::run::Run;
use crate::index::{Frozen, Index};
use crate::store::PageStore;
use crate::value_log::segment::Use;
use crate::value_log::{Stream, ValueLog};

/// Runs of one tier that are merged into one of the next.
const FANOUT: usize = 4;
/// Entries that jobs advance for each put while there are jobs: a flush and a few tiers keep up with it.
const ENTRIES_PER_PUT: usize = 12;
/// Entries of one step. Fewer steps cost less than many.
const STEP_ENTRIES: usize = 192;

impl Index {
    /// Makes room in the memtable, waiting for an earlier one to be written out if it must.
    #[cold]
    pub(crate) fn make_room<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        seq: u64,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if self.frozen.is_some() {
            self.counters.stalls += 1;
            self.finish_flush(log, store, at_ps)?;
        }
        while self.manifest.runs.len() >= RUNS_MAX - 1 {
            self.step(usize::MAX, log, store, at_ps)?;
        }
        self.freeze(log, store, seq, at_ps);
        Ok(())
    }

    /// Writes out everything that is in RAM only.
    pub(crate) fn flush<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        seq: u64,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.finish_flush(log, store, at_ps)?;
        if self.active.len() > 0 {
            self.make_room(log, store, seq, at_ps)?;
            self.finish_flush(log, store, at_ps)?;
        }
        Ok(())
    }

    /// Finishes every job: after it, no tier has enough runs to merge.
    pub(crate) fn finish_jobs<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        while self.has_work() {
            self.step(usize::MAX, log, store, at_ps)?;
        }
        Ok(())
    }

    /// One put's share of the work that puts cause.
    pub(crate) fn tend<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.credit += ENTRIES_PER_PUT;
        if self.credit < STEP_ENTRIES {
            return Ok(());
        }
        self.credit = 0;
        self.step(STEP_ENTRIES, log, store, at_ps)
    }

    /// Forgets every key at once. Segments are freed by the steps that follow.
    pub(crate) fn clear<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        seq: u64,
    ) -> Result<(), KvError> {
        self.active = Memtable::new(self.budget.memtable_entries, self.budget.hash_seed);
        self.frozen = None;
        (self.flush, self.merge) = (None, None);
        log.segments.live.clear();
        let replay_from = log.streams.iter().map(|stream| stream.wp()).collect();
        self.manifest.runs.clear();
        self.commit_manifest(log, store, replay_from, seq)?;
        self.note_dead_segments(log);
        Ok(())
    }

    /// Finds segments that hold nothing anyone can ask for: freed by the steps that follow.
    pub(crate) fn note_dead_segments(&mut self, log: &ValueLog) {
        let (runs, building) = (
            &self.manifest.runs,
            [self.flush.as_ref().map(Flush::run_id), self.merge.as_ref().map(Merge::run_id)],
        );
        let is_run = |id: u64| runs.iter().any(|run| run.id == id) || building.contains(&Some(id));
        let shift = log.layout.segment_shift;
        let mut dead = log.segments.matching(|used| match used {
            Use::Free => false,
            Use::Index { run } => !is_run(run),
            Use::Log { stream, ordinal } => {
                let from = self.manifest.replay_from.get(usize::from(stream)).copied().unwrap_or(0);
                // Pages that are still to be written would be written to whatever comes after.
                let written = log.streams.get(usize::from(stream)).map_or(0, Stream::written_to);
                (ordinal + 1) << shift <= from.min(written)
            }
        });
        dead.retain(|&segment| log.segments.live.of(segment as usize) == (0, 0));
        // Released from the end: the lowest numbers last, so that they are taken first.
        dead.reverse();
        self.to_release = dead;
    }

    /// A number for a run that someone else writes.
    pub(crate) fn take_run_number(&mut self) -> u64 {
        self.manifest.next_run += 1;
        self.manifest.next_run - 1
    }

    /// Makes other runs the index, by the commit of a manifest, with what is alive in each segment; frees the old ones.
    pub(crate) fn replace_runs<S: PageStore>(
        &mut self,
        runs: Vec<Run>,
        live: &[i64],
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        for (segment, bytes) in live.iter().enumerate() {
            log.segments.live.set_base(segment, (*bytes).clamp(0, i64::from(u32::MAX)) as u32);
        }
        self.manifest.runs = runs;
        let (replay_from, seq) = (self.manifest.replay_from.clone(), self.manifest.seq);
        self.commit_manifest(log, store, replay_from, seq)?;
        self.drop_unlisted(log, store)?;
        self.after_change(log);
        Ok(())
    }

    /// Frees segments that the manifest does not tell of.
    pub(crate) fn drop_unlisted<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        self.note_dead_segments(log);
        while !self.to_release.is_empty() {
            self.step(0, log, store, &mut 0)?;
        }
        Ok(())
    }

    fn freeze<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, seq: u64, at_ps: &mut u64) {
        for stream in 0..log.streams.len() {
            // A page that cannot be written stays open, and its segment taken, until it can.
            let _ = log.settle(store, stream, at_ps);
        }
        let replay_from = log.streams.iter().map(|stream| stream.wp()).collect();
        let empty = Memtable::new(self.budget.memtable_entries, self.budget.hash_seed);
        let table = std::mem::replace(&mut self.active, empty);
        log.segments.live.freeze();
        self.frozen = Some(Frozen { table, replay_from, seq });
    }

    fn finish_flush<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        while self.frozen.is_some() {
            self.step(usize::MAX, log, store, at_ps)?;
        }
        Ok(())
    }

    /// Does some of the work there is: the flush first, since puts wait for it. But nothing new is begun while there
    /// are segments to free: a job that fails again and again would take them all.
    fn step<S: PageStore>(
        &mut self,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if self.flush.is_none()
            && let Some(segment) = self.to_release.last().copied()
        {
            let pages = log.layout.pages_per_segment();
            self.pages.forget(u64::from(segment) * pages, pages);
            log.segments.release(store, &log.home.clone(), segment)?;
            self.to_release.pop();
            return Ok(());
        }
        if self.frozen.is_some() {
            return self.step_flush(budget, log, store, at_ps);
        }
        self.step_merge(budget, log, store, at_ps)
    }

    fn step_flush<S: PageStore>(
        &mut self,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(frozen) = &mut self.frozen else { return Ok(()) };
        let drop_tombstones = self.manifest.runs.is_empty();
        let flush = match &mut self.flush {
            Some(flush) => flush,
            None => {
                let builder = RunBuilder::new(self.manifest.next_run, 0, self.pages.shape);
                self.manifest.next_run += 1;
                self.flush.insert(Flush::new(builder, drop_tombstones))
            }
        };
        match flush.step(&mut frozen.table, budget, log, store, at_ps) {
            Ok(Progress::More) => Ok(()),
            Ok(Progress::Done(run)) => self.end_flush(run, log, store),
            Err(error) => {
                // What was written of the run is freed, and the flush begins anew when it is next asked for.
                self.flush = None;
                self.note_dead_segments(log);
                Err(error)
            }
        }
    }

    fn end_flush<S: PageStore>(
        &mut self,
        run: Option<Run>,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        self.flush = None;
        let Some(frozen) = self.frozen.take() else { return Ok(()) };
        log.segments.live.settle();
        self.manifest.runs.splice(0..0, run);
        self.commit_manifest(log, store, frozen.replay_from, frozen.seq)?;
        self.counters.flushes += 1;
        self.after_change(log);
        Ok(())
    }

    fn step_merge<S: PageStore>(
        &mut self,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(merge) = &mut self.merge else { return self.begin_merge(store, at_ps) };
        match merge.step(budget, &mut self.pages, log, store, at_ps) {
            Ok(Progress::More) => Ok(()),
            Ok(Progress::Done(run)) => self.end_merge(run, log, store),
            Err(error) => {
                self.merge = None;
                self.note_dead_segments(log);
                Err(error)
            }
        }
    }
    /// Merges all runs into one, so that every record that was overwritten or deleted is known.
    pub(crate) fn merge_all<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.finish_jobs(log, store, at_ps)?;
        let runs = &self.manifest.runs;
        if runs.len() > 1 || runs.iter().any(|run| run.tombstones > 0) {
            self.begin_merge_of(0..runs.len(), store, at_ps)?;
        }
        self.finish_jobs(log, store, at_ps)
    }

    /// Opens a merge of the lowest tier that has enough runs.
    fn begin_merge<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        match self.ripe_group() {
            Some(group) => self.begin_merge_of(group, store, at_ps),
            None => {
                self.ripe = false;
                Ok(())
            }
        }
    }

    fn begin_merge_of<S: PageStore>(
        &mut self,
        group: Range<usize>,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let runs = &self.manifest.runs[group.clone()];
        let tier = runs.last().map_or(0, |run| run.tier);
        let builder = RunBuilder::new(self.manifest.next_run, tier.saturating_add(1), self.pages.shape);
        let drop_tombstones = group.end == self.manifest.runs.len();
        self.merge = Some(Merge::new(runs, builder, drop_tombstones, &mut self.pages, store, at_ps)?);
        self.manifest.next_run += 1;
        Ok(())
    }

    /// Adjacent runs of one tier, enough for a merge. Tiers only rise with age.
    fn ripe_group(&self) -> Option<Range<usize>> {
        let runs = &self.manifest.runs;
        let mut begin = 0;
        while let Some(first) = runs.get(begin) {
            let len = runs[begin..].iter().take_while(|run| run.tier == first.tier).count();
            if len >= FANOUT {
                return Some(begin..begin + len);
            }
            begin += len;
        }
        None
    }

    fn end_merge<S: PageStore>(
        &mut self,
        run: Option<Run>,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        let Some(merge) = self.merge.take() else { return Ok(()) };
        let runs = &mut self.manifest.runs;
        let Some(begin) = runs.iter().position(|run| merge.inputs().first() == Some(&run.id)) else {
            return Ok(());
        };
        runs.splice(begin..begin + merge.inputs().len(), run);
        for (&segment, &bytes) in merge.dead() {
            log.segments.live.drop_from_base(segment, bytes);
        }
        let (replay_from, seq) = (self.manifest.replay_from.clone(), self.manifest.seq);
        self.commit_manifest(log, store, replay_from, seq)?;
        self.counters.merges += 1;
        self.after_change(log);
        Ok(())
    }

    fn commit_manifest<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        replay_from: Vec<u64>,
        seq: u64,
    ) -> Result<(), KvError> {
        self.manifest.generation += 1;
        self.manifest.replay_from = replay_from;
        self.manifest.seq = seq;
        self.manifest.commit(store, &log.home, &log.layout, &log.segments)
    }

    /// Looks for what a changed manifest left without use, and for what is to be merged now.
    pub(crate) fn after_change(&mut self, log: &ValueLog) {
        self.note_dead_segments(log);
        self.ripe = self.ripe_group().is_some();
    }
}
