//! Listing keys in order: the memtables and every run, walked side by side.

use crate::error::KvError;
use crate::index::Index;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::memtable::Memtable;
use crate::index::order::Walk;
use crate::index::run::{RunCursor, Walker};
use crate::index::tournament::Tournament;
use crate::store::PageStore;
use byway_spec::Key;

/// Entries taken from a place at once: one command lists hundreds, a short list few.
const BATCH_ENTRIES: usize = 128;

/// One place that has entries in order, and those taken from it so far. Newer places come first.
struct Source<'a> {
    place: Place<'a>,
    batch: Vec<Entry>,
    at: usize,
}

enum Place<'a> {
    Table(&'a mut Memtable, Walk),
    Run(RunCursor),
}

impl<'a> Source<'a> {
    fn new(place: Place<'a>) -> Self {
        Self { place, batch: Vec::with_capacity(BATCH_ENTRIES), at: 0 }
    }

    /// Its current entry.
    #[inline]
    fn head(&self) -> Option<&Entry> {
        self.batch.get(self.at)
    }

    /// Takes the next entries.
    fn fill<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.batch.clear();
        self.at = 0;
        match &mut self.place {
            Place::Table(table, walk) => table.next(walk, &mut self.batch, BATCH_ENTRIES),
            Place::Run(cursor) => cursor.next(&mut self.batch, BATCH_ENTRIES, pages, store, at_ps)?,
        }
        Ok(())
    }
}

impl Index {
    /// Visits the newest entry of each key from `start` on, tombstones too, until `visit` says no.
    ///
    /// A run that ends before `start` is not touched; others cost the way down to it, and then a page for each page full
    /// of keys.
    pub(crate) fn visit<S: PageStore>(
        &mut self,
        store: &mut S,
        start: Option<&Key>,
        mut visit: impl FnMut(&Entry) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let (tables, runs, pages) = self.places();
        let mut sources = Vec::with_capacity(2 + runs.len());
        for table in tables.into_iter().flatten().filter(|table| table.len() > 0) {
            let walk = table.walk(start);
            sources.push(Source::new(Place::Table(table, walk)));
        }
        for run in runs.iter().filter(|run| start.is_none_or(|start| *start <= run.last)) {
            // A merge has consumed the entries before a run's first key.
            let start = start.filter(|start| **start > run.first).unwrap_or(&run.first);
            let cursor = RunCursor::new(run, Some(start), Walker::List, pages, store, at_ps)?;
            sources.push(Source::new(Place::Run(cursor)));
        }
        for source in &mut sources {
            source.fill(pages, store, at_ps)?;
        }
        sources.retain(|source| source.head().is_some());
        match sources.as_mut_slice() {
            [only] => visit_one(only, &mut visit, pages, store, at_ps),
            _ => visit_all(&mut sources, &mut visit, pages, store, at_ps),
        }
    }
}

/// Visits what one place has.
fn visit_one<S: PageStore>(
    source: &mut Source<'_>,
    visit: &mut impl FnMut(&Entry) -> bool,
    pages: &mut PageCache,
    store: &mut S,
    at_ps: &mut u64,
) -> Result<(), KvError> {
    while !source.batch.is_empty() {
        if !source.batch.iter().all(&mut *visit) {
            return Ok(());
        }
        source.fill(pages, store, at_ps)?;
    }
    Ok(())
}

/// Visits what several places have, of each key the newest alone.
fn visit_all<S: PageStore>(
    sources: &mut [Source<'_>],
    visit: &mut impl FnMut(&Entry) -> bool,
    pages: &mut PageCache,
    store: &mut S,
    at_ps: &mut u64,
) -> Result<(), KvError> {
    let mut tournament = Tournament::new(sources.iter().map(Source::head));
    let mut last: Option<Entry> = None;
    while let Some(winner) = tournament.winner() {
        let source = &mut sources[winner];
        let Some(entry) = source.head().copied() else { return Ok(()) };
        source.at += 1;
        if source.at == source.batch.len() {
            source.fill(pages, store, at_ps)?;
        }
        tournament.replace(source.head());
        let is_older = last.is_some_and(|last| last.has_key_of(&entry));
        if !is_older && !visit(&entry) {
            return Ok(());
        }
        last = Some(entry);
    }
    Ok(())
}
