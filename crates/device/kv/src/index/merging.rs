//! Which runs are merged, and when.
//!
//! Runs of like size are merged as soon as there are enough of them (size-tiered): each entry is written once for each
//! tier. That leaves entries of overwritten keys in several tiers. Where room is short they are merged all into one.

use std::ops::Range;

use tracing::debug;

use crate::error::KvError;
use crate::index::Index;
use crate::index::builder::RunBuilder;
use crate::index::merge::{Merge, Progress, Rest};
use crate::index::run::Run;
use crate::reserve::{INDEX_BYTES_PER_KEY, MERGED_RUNS};
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::segment::Use;

/// Runs of one tier that are merged into one of the next.
const FANOUT: usize = 4;
/// Highest multiple of the usual index work of a put, for merges to keep up.
const HURRY_MOST: u64 = 8;

/// Segments that are still needed of a run that a merge has passed in part: from one on, by its place in the run.
pub(super) struct NeededSegments {
    run: u64,
    from: u64,
}

impl Index {
    /// Merges all runs into one.
    pub(crate) fn merge_all<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.finish_jobs(log, store, at_ps)?;
        while self.runs() > MERGED_RUNS {
            self.begin_merge_of(0..MERGED_RUNS, store, at_ps)?;
            self.finish_jobs(log, store, at_ps)?;
        }
        let runs = &self.manifest.runs;
        if runs.len() > 1 || runs.iter().any(|run| run.tombstones > 0) {
            self.begin_merge_of(0..runs.len(), store, at_ps)?;
        }
        self.finish_jobs(log, store, at_ps)
    }

    pub(super) fn step_merge<S: PageStore>(
        &mut self,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(merge) = &mut self.merge else { return self.begin_merge(log, store, at_ps) };
        match merge.step(budget, &mut self.pages, log, store, at_ps) {
            Ok(Progress::More | Progress::Stuck(_)) => Ok(()),
            Ok(Progress::Cut(run)) => self.cut_merge(run, log, store),
            Ok(Progress::Done(run)) => self.end_merge(run, log, store),
            Err(error) => {
                self.merge = None;
                self.note_dead_segments(log);
                Err(error)
            }
        }
    }

    /// Opens a merge of the lowest tier that has enough runs.
    fn begin_merge<S: PageStore>(
        &mut self,
        log: &ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        match self.ripe_group(log) {
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
        let tier = tier_of(runs);
        let builder = RunBuilder::new(self.manifest.next_run, tier, self.pages.shape());
        let drop_tombstones = group.end == self.manifest.runs.len();
        self.merge = Some(Merge::new(runs, builder, drop_tombstones, &mut self.pages, store, at_ps)?);
        self.manifest.next_run += 1;
        Ok(())
    }

    /// Runs to merge: all, where entries of overwritten keys take room that is wanted; else adjacent runs of one tier,
    /// enough for a merge. Tiers only rise with age.
    pub(super) fn ripe_group(&self, log: &ValueLog) -> Option<Range<usize>> {
        let runs = &self.manifest.runs;
        // Small ones pile up while a large merge goes on: more than room is kept for are merged in several turns.
        if self.exceeds_growth_bound(log) {
            return Some(0..runs.len().min(MERGED_RUNS));
        }
        let mut begin = 0;
        while let Some(first) = runs.get(begin) {
            let len = runs[begin..].iter().take_while(|run| run.tier == first.tier).count();
            if len >= FANOUT {
                let end = begin + len;
                return Some(begin.max(end.saturating_sub(MERGED_RUNS))..end);
            }
            begin += len;
        }
        None
    }

    /// Whether the runs take more room beside that of one entry a key than can be spared.
    pub(crate) fn exceeds_growth_bound(&self, log: &ValueLog) -> bool {
        self.runs() > 1 && growth_bytes(log) > log.growth_bound_bytes()
    }

    /// Sets each put's share of index work, as a multiple of the usual: the runs' growth over the growth bound, from 1 to
    /// [`HURRY_MOST`], or `1 + short` if that is more.
    pub(crate) fn hurry_up(&mut self, log: &ValueLog, short: usize) {
        let grown = (growth_bytes(log) / log.growth_bound_bytes().max(1)).clamp(1, HURRY_MOST) as usize;
        self.hurry = grown.max(1 + short);
    }

    /// What was merged so far takes the place of what was read for it.
    fn cut_merge<S: PageStore>(
        &mut self,
        run: Run,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        let rests = self.merge.as_mut().map(Merge::rests).unwrap_or_default();
        let at = self.place_of_merged(run.id);
        for rest in &rests {
            self.take_off(rest, log);
        }
        self.put_merged(at, Some(run), rests.iter().filter(|rest| rest.first.is_none()).map(|rest| rest.run));
        self.commit_as_is(log, store)?;
        self.counters.cuts += 1;
        self.note_dead_segments(log);
        Ok(())
    }

    /// Takes what a merge has read off a run.
    fn take_off(&mut self, rest: &Rest, log: &ValueLog) {
        let Some(run) = self.manifest.runs.iter_mut().find(|run| run.id == rest.run) else { return };
        run.entries = run.entries.saturating_sub(rest.passed);
        run.tombstones = run.tombstones.saturating_sub(rest.passed_tombstones).min(run.entries);
        run.first = rest.first.unwrap_or(run.first);
        let order_of = |page: u64| match log.segments().use_of(page / log.layout().pages_per_segment()) {
            Some(Use::Index { run, order }) if run == rest.run => Some(order),
            _ => None,
        };
        if let Some(from) = rest.needed_from.and_then(order_of) {
            self.needed.retain(|needed| needed.run != rest.run);
            self.needed.push(NeededSegments { run: rest.run, from });
        }
    }

    fn end_merge<S: PageStore>(
        &mut self,
        run: Option<Run>,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<(), KvError> {
        let Some(id) = self.merge.as_ref().map(Merge::run_id) else { return Ok(()) };
        let at = self.place_of_merged(id);
        let Some(merge) = self.merge.take() else { return Ok(()) };
        self.put_merged(at, run, merge.inputs());
        self.commit_as_is(log, store)?;
        self.counters.merges += 1;
        debug!(run = id, runs = self.manifest.runs.len(), "runs merged");
        self.after_change(log);
        Ok(())
    }

    /// Puts the run that a merge wrote where it belongs, in place of an earlier cut of it, and removes runs that it
    /// stands in for.
    fn put_merged(&mut self, at: usize, run: Option<Run>, gone: impl Iterator<Item = u64>) {
        let runs = &mut self.manifest.runs;
        let earlier = runs.get(at).filter(|there| Some(there.id) == run.map(|run| run.id)).is_some();
        runs.splice(at..at + usize::from(earlier), run);
        let gone: Vec<u64> = gone.collect();
        runs.retain(|run| !gone.contains(&run.id));
        self.needed.retain(|needed| !gone.contains(&needed.run));
    }

    /// The place of a merge's run: its own, or behind the last of its inputs.
    fn place_of_merged(&self, id: u64) -> usize {
        let runs = &self.manifest.runs;
        let own = runs.iter().position(|run| run.id == id);
        let inputs: Vec<u64> = self.merge.iter().flat_map(Merge::inputs).collect();
        let behind = runs.iter().rposition(|run| inputs.contains(&run.id)).map(|last| last + 1);
        own.or(behind).unwrap_or(runs.len())
    }

    /// Whether a segment of a run is not needed any more: a merge has passed it.
    pub(super) fn is_passed(&self, run: u64, order: u64) -> bool {
        let needed = self.needed.iter().find(|needed| needed.run == run);
        needed.is_some_and(|needed| order < needed.from)
    }

    fn commit_as_is<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S) -> Result<(), KvError> {
        let (replay_from, seq) = (self.manifest.replay_from.clone(), self.manifest.seq);
        self.commit_manifest(log, store, replay_from, seq)
    }
}

/// Bytes of index segments beside those of one entry a key.
fn growth_bytes(log: &ValueLog) -> u64 {
    let taken_bytes = log.segments().index_count() as u64 * log.layout().segment_bytes();
    taken_bytes.saturating_sub(log.segments().checkpoint_keys() * INDEX_BYTES_PER_KEY)
}

/// The tier of what these runs make: the next one, or their oldest's again where it is much larger than the rest.
fn tier_of(runs: &[Run]) -> u8 {
    let Some(oldest) = runs.last() else { return 0 };
    let younger: u64 = runs[..runs.len() - 1].iter().map(|run| run.entries).sum();
    if younger < oldest.entries { oldest.tier.max(1) } else { oldest.tier.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::engine::KvEngine;
    use crate::index::entry::Entry;
    use crate::layout::KvFormat;
    use crate::options::KvOptions;
    use crate::reserve::merge_segments;
    use crate::value_log::record::{Kind, Shape};
    use byway_flash::{Flash, FlashOptions, FlashProfile, MediaKind, NamespaceKind, NamespaceSpec};
    use byway_spec::Key;

    /// Pages of filters and those that they are of take more than a segment, and less than two.
    const EXTENT_BYTES: u64 = 20 << 20;
    const KEYS_PER_RUN: u64 = 9000;

    /// As many runs as a merge reads, each with every eighth key, so that it passes all of them at the same pace.
    fn with_runs() -> (Flash, KvEngine) {
        let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
        let profile = FlashProfile { page_bytes: 4096, pages_per_block: 32, ..profile };
        let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: EXTENT_BYTES };
        let mut flash = Flash::create(FlashOptions::new(64 << 20, profile, MediaKind::Ram), &[spec]).unwrap();
        let namespace = flash.namespace(1).unwrap().clone();
        let format = KvFormat { ring_pages: 4, windows: 1, window_bytes: 64 << 10 };
        let mut kv = KvEngine::create(&mut flash, &namespace, &format, KvOptions::default()).unwrap();
        let (log, index) = kv.parts();
        for run in 0..MERGED_RUNS as u64 {
            let mut builder = RunBuilder::new(run + 1, 0, index.pages.shape());
            for n in 0..KEYS_PER_RUN {
                let key = Key::new(&(n * MERGED_RUNS as u64 + run).to_be_bytes()).unwrap();
                let entry = Entry::new(&key, Shape::new(Kind::Value, key.len(), 0), n, n);
                builder.push(&entry, log, &mut flash, &mut 0).unwrap();
            }
            let run = builder.finish(log, &mut flash, &mut 0).unwrap();
            index.manifest.runs.extend(run);
        }
        index.manifest.next_run = MERGED_RUNS as u64 + 1;
        (flash, kv)
    }

    #[test]
    fn a_merge_never_takes_more_segments_than_are_kept_for_it() {
        let (mut flash, mut kv) = with_runs();
        let (log, index) = kv.parts();
        let before = log.segments().index_count();
        index.begin_merge_of(0..MERGED_RUNS, &mut flash, &mut 0).unwrap();
        let mut most = 0;
        while index.merge.is_some() {
            index.step_merge(64, log, &mut flash, &mut 0).unwrap();
            most = most.max(log.segments().index_count().saturating_sub(before));
            while index.release_one(log, &mut flash) {}
        }
        assert!(index.counters.cuts > 2, "{:?}", index.counters);
        // And the last one of the run that is left.
        let kept = merge_segments(log.layout()) + 1;
        assert!(most as u64 <= kept, "{most} segments were taken, {kept} are kept");
    }
}
