//! A put's share of the index's work: what it does of it, so that no put has to do all of it.

use crate::error::KvError;
use crate::index::Index;
use crate::index::jobs::EMPTIED_PER_ENTRY;
use crate::store::PageStore;
use crate::value_log::ValueLog;

/// Entries that jobs advance for each put while there are jobs: a flush and a few tiers keep up with it.
const ENTRIES_PER_PUT: usize = 12;
/// Entries of one step. Fewer steps cost less than many.
const STEP_ENTRIES: usize = 192;
/// Most entries that one put does the work of.
const MOST_ENTRIES: usize = 384;
/// A step counts for at least as many.
const STEP_LEAST: usize = 12;
/// Pages after which a put does no more of the work that is not urgent.
const MOST_PAGES: u32 = 32;
/// Fill levels of the active memtable by which the frozen one is flushed, and by which it is emptied. The rest is slack for
/// long puts.
const WRITTEN_BY: Filled = Filled(Filled::WHOLE / 4 * 3);
const EMPTIED_BY: Filled = Filled(Filled::WHOLE / 8 * 7);
/// Most entries that upkeep does the work of ahead of the records that ask for it.
const AHEAD_MOST: usize = 1 << 16;
/// Pages that a put frees which finds room short.
const FREED_AT_ONCE: usize = 128;

/// How far the memtable has come towards the time that it is due, in parts of [`Filled::WHOLE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filled(u64);

impl Filled {
    const WHOLE: u64 = 1 << 20;

    /// So much of what makes it due.
    pub(crate) fn of(part: u64, whole: u64) -> Self {
        Self((part.saturating_mul(Self::WHOLE) / whole.max(1)).min(Self::WHOLE))
    }

    /// How much of what was `left` at `from` is to be done by now, if all of it is at `by`.
    fn share(self, left: usize, from: Self, by: Self) -> usize {
        let (passed, whole) = (self.0.saturating_sub(from.0), by.0.saturating_sub(from.0));
        if passed >= whole { left } else { (left as u64 * passed).div_ceil(whole) as usize }
    }
}

impl Index {
    /// Goes on with what must be done when the memtable is due, which it has come so far towards; then does what records have
    /// [earned](Self::earn), as soon as that is worth a step.
    pub(crate) fn tend<S: PageStore>(
        &mut self,
        filled: Filled,
        bytes: u64,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let before = self.pages.pages_read();
        let own_pages = (bytes / log.layout().page_bytes as u64) as usize;
        self.keep_up(filled, 1 + own_pages, log, store, at_ps)?;
        if self.credit < STEP_ENTRIES {
            return Ok(());
        }
        let mut left = self.credit.min(MOST_ENTRIES);
        while left > 0 && self.has_work() && self.pages.pages_read() - before < MOST_PAGES {
            let done = self.step(left.min(STEP_ENTRIES), log, store, at_ps)?;
            left = left.saturating_sub(done.max(STEP_LEAST));
        }
        self.credit = left;
        Ok(())
    }

    /// Goes on with what must be done when the memtable is due: writing out the one before, and emptying it for its next turn.
    /// In proportion to how much nearer that came, so that no put has to wait for it then. Not more than so many times
    /// what one put does at most: the rest is left to those that follow.
    fn keep_up<S: PageStore>(
        &mut self,
        filled: Filled,
        times: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let from = std::mem::replace(&mut self.filled, filled);
        let (mut left, most_pages) = (MOST_ENTRIES * times, MOST_PAGES.saturating_mul(times as u32));
        let (before, mut late) = (self.pages.pages_read(), self.entries_late(filled));
        while late > 0 && left > 0 && self.pages.pages_read() - before < most_pages {
            let budget = late.min(left).min(STEP_ENTRIES);
            self.step_flush(budget, log, store, at_ps)?;
            (left, late) = (left - budget, self.entries_late(filled));
        }
        self.is_behind = late > 0;
        if let Some(table) = &mut self.spare {
            let words = filled.share(table.words_to_empty(), from, EMPTIED_BY);
            let words = words.min(MOST_ENTRIES * times * EMPTIED_PER_ENTRY);
            log.count_entries((words / EMPTIED_PER_ENTRY) as u32);
            let rest = table.words_to_empty() - words;
            while table.words_to_empty() > rest && !table.empty_some(EMPTIED_PER_ENTRY) {}
        }
        Ok(())
    }

    /// Entries of the memtable that is being written out that should be passed by now, and are not. One at the end, which only ends
    /// the run.
    fn entries_late(&self, filled: Filled) -> usize {
        let Some(frozen) = &self.frozen else { return 0 };
        let passed = self.flush.as_ref().map_or(0, |flush| flush.passed());
        let due = filled.share(frozen.table.len(), Filled::default(), WRITTEN_BY);
        due.saturating_sub(passed).max(usize::from(filled >= WRITTEN_BY))
    }

    /// One more record asks for its share of the work there is.
    #[inline]
    pub(crate) fn earn(&mut self) {
        let asked = ENTRIES_PER_PUT * self.hurry;
        let ahead = asked.min(self.done_ahead);
        self.done_ahead -= ahead;
        self.credit += asked - ahead;
    }

    /// Does a step of the work there is, ahead of the records that will ask for it; whether there was any.
    pub(crate) fn work_ahead<S: PageStore>(
        &mut self,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        if !self.has_work() {
            return Ok(false);
        }
        let done = self.step(budget, log, store, at_ps)?;
        self.done_ahead = (self.done_ahead + done).min(AHEAD_MOST);
        Ok(true)
    }

    /// Whether as much was earned as is worth a step, or is late.
    #[inline]
    pub(crate) fn is_step_due(&self) -> bool {
        self.credit >= STEP_ENTRIES || self.is_behind
    }

    /// Whether writing out a memtable takes longer than filling the next one.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Frees a part of a segment that holds nothing; false where there is none.
    pub(crate) fn release_on<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
    ) -> Result<bool, KvError> {
        let Some(segment) = self.to_release.last().copied() else { return Ok(false) };
        self.release_some(segment, FREED_AT_ONCE, log, store)?;
        Ok(true)
    }

    /// Goes on with writing out a memtable; false where none is.
    pub(crate) fn write_on<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        let any = self.frozen.is_some();
        self.step_flush(STEP_ENTRIES, log, store, at_ps)?;
        Ok(any)
    }

    /// As [`merge_on`](Self::merge_on), by no more than a put does.
    pub(crate) fn merge_some<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        let wanted = self.merge.is_some() || self.exceeds_growth_bound(log);
        if wanted {
            self.step_merge(MOST_ENTRIES, log, store, at_ps)?;
        }
        Ok(wanted)
    }
}
