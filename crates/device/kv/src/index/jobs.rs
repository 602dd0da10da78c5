//! What the index does beside puts and gets: freezing, flushing, freeing segments.

use tracing::debug;

use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::manifest::RUNS_MAX;
use crate::index::memtable::Memtable;
use crate::index::merge::{Flush, Merge, Progress};
use crate::index::run::Run;
use crate::index::settle::Older;
use crate::index::share::Filled;
use crate::index::{Frozen, Index};
use crate::store::PageStore;
use crate::value_log::live::Part;
use crate::value_log::segment::{ReplayFrom, Use};
use crate::value_log::{Stream, ValueLog};

/// Entries merged at once by a put that found no room.
const SHRINK_ENTRIES: usize = 2048;
/// Words of a memtable's hash table that are emptied in the time of one entry.
pub(super) const EMPTIED_PER_ENTRY: usize = 256;

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
        let has_too_many_runs = self.manifest.runs.len() >= RUNS_MAX - 1;
        self.counters.stalls += u64::from(self.frozen.is_some() || has_too_many_runs);
        self.finish_flush(log, store, at_ps)?;
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
        if self.memtable_len() > 0 {
            self.make_room(log, store, seq, at_ps)?;
            return self.finish_flush(log, store, at_ps);
        }
        self.pass_by(log, store, seq, at_ps)
    }

    /// Has replays begin behind records without a key, where there are no others.
    fn pass_by<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        seq: u64,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        for stream in 0..log.stream_count() {
            log.settle(store, stream, at_ps)?;
        }
        let replay_from = log.replay_positions();
        if replay_from != self.manifest.replay_from {
            self.commit_manifest(log, store, replay_from, seq)?;
            self.after_change(log);
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

    /// Frees a segment that holds nothing; false where there is none, or it cannot be freed.
    pub(crate) fn release_one<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S) -> bool {
        let Some(segment) = self.to_release.last().copied() else { return false };
        self.release_some(segment, usize::MAX, log, store).is_ok()
    }

    /// Goes on with a merge, or begins one that makes room; false where there is none, or it cannot.
    pub(crate) fn merge_on<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> bool {
        let wanted = self.merge.is_some() || self.exceeds_growth_bound(log);
        wanted && self.step_merge(SHRINK_ENTRIES, log, store, at_ps).is_ok()
    }

    /// Writes what is left of the memtable that is being flushed, and settles it with that; false where none is.
    pub(crate) fn settle_frozen<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        let any = self.frozen.is_some();
        self.finish_flush(log, store, at_ps)?;
        Ok(any)
    }

    /// Forgets every key at once. Segments are freed by the steps that follow.
    pub(crate) fn clear<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        seq: u64,
    ) -> Result<(), KvError> {
        self.active = self.budget.memtable();
        self.late.clear();
        self.replaced.clear();
        self.frozen = None;
        (self.flush, self.merge, self.settled_to) = (None, None, 0);
        log.segments_mut().clear_counts_and_notes();
        self.hints.clear();
        let replay_from = log.replay_positions();
        self.manifest.runs.clear();
        self.manifest.is_overcounted = false;
        (self.lost_log_bytes, self.manifest.lost_log_bytes) = (0, 0);
        self.commit_manifest(log, store, replay_from, seq)?;
        self.note_dead_segments(log);
        Ok(())
    }

    /// Stops reporting what was lost of the log. Nothing is in RAM only.
    pub(crate) fn forget_losses<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        seq: u64,
    ) -> Result<(), KvError> {
        if self.lost_log_bytes == 0 {
            return Ok(());
        }
        log.settle_all(store, &mut 0);
        (self.lost_log_bytes, self.manifest.lost_log_bytes) = (0, 0);
        let replay_from = log.replay_positions();
        self.commit_manifest(log, store, replay_from, seq)?;
        self.after_change(log);
        Ok(())
    }

    /// Finds segments that hold nothing anyone can ask for: freed by the steps that follow.
    pub(crate) fn note_dead_segments(&mut self, log: &mut ValueLog) {
        log.count_walk();
        let shift = log.layout().segment_shift;
        let dead = log.segments().matching(|segment, used| match used {
            Use::Free => false,
            Use::Index { run, order } => !self.needs_run(run) || self.is_passed(run, order),
            Use::Log { stream, ordinal } => {
                (ordinal + 1) << shift <= self.behind(stream, log)
                    && log.segments().holds_nothing_alive(segment as usize)
            }
        });
        self.to_release = dead;
        // Released from the end: the lowest numbers last, so that they are taken first.
        self.to_release.reverse();
    }

    /// The position of a stream up to which nothing is replayed and everything is on flash: pages that are still to be
    /// written would be written to whatever comes after.
    pub(crate) fn behind(&self, stream: u8, log: &ValueLog) -> u64 {
        let from = self.manifest.replay_from.get(usize::from(stream)).map_or(0, |from| from.position);
        from.min(log.streams().get(usize::from(stream)).map_or(0, Stream::written_to))
    }

    fn needs_run(&self, id: u64) -> bool {
        let building = [self.flush.as_ref().map(Flush::run_id), self.merge.as_ref().map(Merge::run_id)];
        self.manifest.runs.iter().any(|run| run.id == id) || building.contains(&Some(id))
    }

    /// Whether a segment waits to be freed.
    pub(crate) fn is_leaving(&self, segment: u32) -> bool {
        self.to_release.contains(&segment)
    }

    /// Has a segment freed in which nothing is alive, even if the checkpoint still points there: whatever replaced it is
    /// in the log behind the replay positions, so after a crash those entries of the runs are hidden again. But where a
    /// record goes on into another segment, it could not be known then that it is dead there too: that waits for the checkpoint.
    pub(crate) fn free_soon(&mut self, segment: u32) {
        self.to_release.push(segment);
    }

    /// Reserves a number for a run that another job writes.
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
            log.segments_mut().set_checkpoint_bytes(segment, *bytes);
        }
        self.manifest.runs = runs;
        self.manifest.is_overcounted = false;
        log.segments_mut().drop_notes();
        self.hints.clear();
        let (replay_from, seq) = (self.manifest.replay_from.clone(), self.manifest.seq);
        self.commit_manifest(log, store, replay_from, seq)?;
        self.drop_unlisted(log, store)?;
        self.after_change(log);
        Ok(())
    }

    /// Frees segments that the manifest does not list.
    pub(crate) fn drop_unlisted<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        self.note_dead_segments(log);
        while !self.to_release.is_empty() {
            self.step(usize::MAX, log, store, &mut 0)?;
        }
        Ok(())
    }

    fn freeze<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, seq: u64, at_ps: &mut u64) {
        log.settle_all(store, at_ps);
        self.account(log);
        let replay_from = log.replay_positions();
        let empty = self.empty_table(log);
        let table = std::mem::replace(&mut self.active, empty);
        (self.settled_to, self.filled) = (0, Filled::default());
        log.segments_mut().freeze_counts();
        self.is_behind = false;
        self.frozen = Some(Frozen { table, replay_from, seq });
        self.fit_hints();
    }

    /// Divides the budget of the cache between hints and pages.
    fn fit_hints(&mut self) {
        let keys =
            self.entries_on_flash() + self.frozen.as_ref().map_or(0, |frozen| frozen.table.len() as u64);
        let hints_bytes = self.hints.fit(keys);
        self.pages.limit(self.budget.cache_bytes.saturating_sub(hints_bytes));
    }

    /// A table with nothing in it: the one that was flushed last, if it is emptied by now.
    fn empty_table(&mut self, log: &mut ValueLog) -> Memtable {
        match self.spare.take() {
            Some(mut table) => {
                log.count_entries((table.words_to_empty() / EMPTIED_PER_ENTRY) as u32);
                while !table.empty_some(usize::MAX) {}
                table
            }
            None => self.budget.memtable(),
        }
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

    /// Does some of the work there is. Segments are freed first: a job that fails again and again would take them all.
    /// The flush comes before merges, since puts wait for it. How many entries it was the work of.
    pub(super) fn step<S: PageStore>(
        &mut self,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        if let Some(segment) = self.to_release.last().copied() {
            self.release_some(segment, budget, log, store)?;
            return Ok(budget.min(log.layout().pages_per_segment() as usize));
        }
        if let Some(frozen) = &self.frozen {
            let entries = frozen.table.len();
            self.step_flush(budget, log, store, at_ps)?;
            return Ok(budget.min(entries));
        }
        if let Some(table) = &mut self.spare
            && !table.is_emptied()
        {
            table.empty_some(budget.saturating_mul(EMPTIED_PER_ENTRY));
            return Ok(budget);
        }
        let entries = self.entries_on_flash() as usize;
        self.step_merge(budget, log, store, at_ps)?;
        Ok(budget.min(entries))
    }

    /// Frees pages of a segment: as many as the budget of entries is worth.
    pub(crate) fn release_some<S: PageStore>(
        &mut self,
        segment: u32,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        if log.release_some(store, segment, budget as u64)? {
            let pages = log.layout().pages_per_segment();
            self.pages.forget(u64::from(segment) * pages, pages);
            self.to_release.retain(|leaving| *leaving != segment);
        }
        Ok(())
    }

    pub(super) fn step_flush<S: PageStore>(
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
                let builder = RunBuilder::new(self.manifest.next_run, 0, self.pages.shape());
                self.manifest.next_run += 1;
                self.flush.insert(Flush::new(builder, drop_tombstones))
            }
        };
        let mut older =
            Older { frozen: None, manifest: &self.manifest, pages: &mut self.pages, part: Part::Frozen };
        match flush.step(&mut frozen.table, &mut older, &mut self.hints, budget, log, store, at_ps) {
            Ok(Progress::More | Progress::Cut(_)) => Ok(()),
            Ok(Progress::Stuck(error)) => Err(error),
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
        let unsettled = self.flush.take().map_or(0, |flush| flush.unsettled());
        self.counters.unsettled += unsettled;
        self.manifest.is_overcounted |= unsettled > 0;
        if unsettled > 0 {
            log.segments_mut().drop_notes();
        }
        let Some(frozen) = self.frozen.take() else { return Ok(()) };
        self.manifest.lost_log_bytes = self.lost_log_bytes;
        log.segments_mut().settle_counts();
        self.manifest.runs.splice(0..0, run);
        self.spare = Some(frozen.table);
        self.commit_manifest(log, store, frozen.replay_from, frozen.seq)?;
        self.counters.flushes += 1;
        debug!(seq = frozen.seq, runs = self.manifest.runs.len(), "memtable flushed");
        self.after_change(log);
        Ok(())
    }

    pub(super) fn commit_manifest<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        replay_from: Vec<ReplayFrom>,
        seq: u64,
    ) -> Result<(), KvError> {
        log.count_walk();
        self.manifest.generation += 1;
        self.manifest.replay_from = replay_from;
        self.manifest.seq = seq;
        let committed = self.manifest.commit(store, log);
        match committed {
            Ok(()) => log.segments_mut().note_manifest(store.epoch()),
            // The next one goes to the same slot: the other is the one that counts.
            Err(_) => self.manifest.generation -= 1,
        }
        committed
    }

    /// Looks for what a changed manifest left without use, and for what is to be merged now.
    pub(crate) fn after_change(&mut self, log: &mut ValueLog) {
        self.note_dead_segments(log);
        self.fit_hints();
        self.ripe = self.ripe_group(log).is_some();
    }
}
