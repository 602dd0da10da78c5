//! A walk over a run in descending order.

use crate::error::KvError;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::page;
use crate::index::run::Run;
use crate::store::PageStore;
use byway_spec::Key;

/// A walk over a run in descending order. Its data pages stay in the cache until there is no more room.
pub(crate) struct BackCursor {
    run: Run,
    /// From the root to the data page; empty at the end.
    path: Vec<Step>,
}

/// A page on the way down.
struct Step {
    page: u64,
    /// Of a data page: its entries before this one come next. Else the entry whose page is the next step.
    at: usize,
}

impl BackCursor {
    /// A cursor at the last key at or before `start`.
    pub(crate) fn new<S: PageStore>(
        run: &Run,
        start: Option<&Key>,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Self, KvError> {
        let path = Vec::with_capacity(usize::from(run.height) + 1);
        let mut cursor = Self { run: *run, path };
        cursor.descend(run.root, start, pages, store, at_ps)?;
        Ok(cursor)
    }

    /// Appends the next entries to `into`: at least one and at most `most`, if there are any.
    pub(crate) fn next<S: PageStore>(
        &mut self,
        into: &mut Vec<Entry>,
        most: usize,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        while self.path.last().is_some_and(|step| step.at == 0) {
            self.go_back(pages, store, at_ps)?;
        }
        let Some(step) = self.path.last_mut() else { return Ok(()) };
        let bytes = pages.pass_by(store, self.run.name(step.page, 0), at_ps)?;
        let from = step.at.saturating_sub(most);
        let before = into.len();
        let wanted = (from..step.at).rev();
        into.extend(wanted.map_while(|at| page::entry_at(bytes, at)));
        step.at = from;
        self.stop_at_first(into, before);
        Ok(())
    }

    /// Drops entries before the run's first key, which a merge has consumed. None comes behind them.
    fn stop_at_first(&mut self, into: &mut Vec<Entry>, before: usize) {
        let first = self.run.first;
        let came = &into[before..];
        let wanted = came.partition_point(|entry| entry.key() >= first);
        if wanted < came.len() || came.last().is_some_and(|last| last.key() == first) {
            self.path.clear();
        }
        into.truncate(before + wanted);
    }

    /// Leaves a data page without more entries for the one before it.
    fn go_back<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.path.pop();
        while self.path.last().is_some_and(|above| above.at == 0) {
            self.path.pop();
        }
        let level = self.run.height - self.path.len().saturating_sub(1) as u8;
        let Some(above) = self.path.last_mut() else { return Ok(()) };
        let bytes = pages.get(store, self.run.name(above.page, level), at_ps)?;
        if page::entry_at(bytes, above.at).is_none_or(|fence| fence.key() <= self.run.first) {
            // A merge has consumed the pages before, and perhaps given them back.
            self.path.clear();
            return Ok(());
        }
        above.at -= 1;
        let page = page::entry_at(bytes, above.at).map_or(0, |fence| fence.address());
        self.descend(page, None, pages, store, at_ps)
    }

    /// Goes down from `page`, which is at the level below the path's last, to a data page.
    fn descend<S: PageStore>(
        &mut self,
        mut page: u64,
        start: Option<&Key>,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        for level in (1..=self.run.height - self.path.len() as u8).rev() {
            let bytes = pages.get(store, self.run.name(page, level), at_ps)?;
            let behind = start.map_or(page::count_of(bytes), |key| page::upper_bound(bytes, key));
            let at = behind.saturating_sub(1);
            self.path.push(Step { page, at });
            page = page::entry_at(bytes, at).map_or(0, |fence| fence.address());
        }
        let bytes = pages.pass_by(store, self.run.name(page, 0), at_ps)?;
        let at = start.map_or(page::count_of(bytes), |key| page::upper_bound(bytes, key));
        self.path.push(Step { page, at });
        Ok(())
    }
}
