//! Listing keys in order: the memtables and every run, walked side by side.

use crate::error::KvError;
use crate::index::Index;
use crate::index::back_cursor::BackCursor;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::in_ram::ValueIn;
use crate::index::key_order::KeyOrder;
use crate::index::memtable::Memtable;
use crate::index::order::Walk;
use crate::index::run::{Run, RunCursor, Walker};
use crate::index::tournament::Tournament;
use crate::store::PageStore;
use byway_spec::Key;

/// Entries taken from a place at once: one command lists hundreds, a short list few.
const BATCH_ENTRIES: usize = 128;

/// Where a visit of the index begins and how it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit<'a> {
    /// The first key, or the last in descending order; `None` for the end of all keys.
    pub(crate) start: Option<&'a Key>,
    pub(crate) order: KeyOrder,
    /// Entries that are expected to be visited. More may be.
    pub(crate) expected: usize,
}

impl<'a> Visit<'a> {
    /// Ascending from `start` on.
    pub(crate) const fn from(start: Option<&'a Key>) -> Self {
        Self { start, order: KeyOrder::Ascending, expected: usize::MAX }
    }

    /// Whether a run may have keys to visit.
    fn meets(&self, run: &Run) -> bool {
        self.start.is_none_or(|start| match self.order {
            KeyOrder::Ascending => *start <= run.last,
            KeyOrder::Descending => *start >= run.first,
        })
    }
}

/// One place that has entries in order, and those taken from it so far. Newer places come first.
struct Source<'a> {
    place: Place<'a>,
    batch: Vec<Entry>,
    /// Their numbers, in a memtable.
    numbers: Vec<u32>,
    at: usize,
    /// Entries to prefetch behind each batch.
    ahead: usize,
}

enum Place<'a> {
    Table(Table<'a>),
    Run(RunCursor),
    RunBack(BackCursor),
}

/// A memtable that is visited.
struct Table<'a> {
    table: &'a mut Memtable,
    walk: Walk,
    order: KeyOrder,
    /// Where the copy of the value of one of its entries is, by the entry's number.
    value_in: fn(u32) -> ValueIn,
}

impl<'a> Place<'a> {
    fn of_table(table: &'a mut Memtable, value_in: fn(u32) -> ValueIn, visit: &Visit<'_>) -> Self {
        let walk = match visit.order {
            KeyOrder::Ascending => table.walk(visit.start),
            KeyOrder::Descending => table.walk_back(visit.start),
        };
        Self::Table(Table { table, walk, order: visit.order, value_in })
    }

    fn of_run<S: PageStore>(
        run: &Run,
        visit: &Visit<'_>,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Self, KvError> {
        match visit.order {
            KeyOrder::Ascending => {
                // A merge has consumed the entries before a run's first key.
                let start = visit.start.filter(|start| **start > run.first).unwrap_or(&run.first);
                RunCursor::new(run, Some(start), Walker::List, pages, store, at_ps).map(Self::Run)
            }
            KeyOrder::Descending => BackCursor::new(run, visit.start, pages, store, at_ps).map(Self::RunBack),
        }
    }
}

impl<'a> Source<'a> {
    fn new(place: Place<'a>, visit: &Visit<'_>) -> Self {
        // A short visit ends with its first batch.
        let ahead = if visit.expected > BATCH_ENTRIES { BATCH_ENTRIES } else { 0 };
        let (batch, numbers) = (Vec::with_capacity(BATCH_ENTRIES), Vec::new());
        Self { place, batch, numbers, at: 0, ahead }
    }

    /// Its current entry.
    #[inline]
    fn head(&self) -> Option<&Entry> {
        self.batch.get(self.at)
    }

    /// Where the value of entry `at` of the batch is.
    #[inline]
    fn value_in(&self, at: usize) -> ValueIn {
        match (&self.place, self.numbers.get(at)) {
            (Place::Table(table), Some(number)) => (table.value_in)(*number),
            _ => ValueIn::Log,
        }
    }

    /// Takes the next entries.
    fn fill<S: PageStore>(
        &mut self,
        most: usize,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.batch.clear();
        self.at = 0;
        match &mut self.place {
            Place::Table(table) => table.fill(&mut self.batch, &mut self.numbers, most, self.ahead),
            Place::Run(cursor) => cursor.next(&mut self.batch, most, pages, store, at_ps)?,
            Place::RunBack(cursor) => cursor.next(&mut self.batch, most, pages, store, at_ps)?,
        }
        Ok(())
    }
}

impl Table<'_> {
    /// Takes the next entries, and their numbers.
    fn fill(&mut self, batch: &mut Vec<Entry>, numbers: &mut Vec<u32>, most: usize, ahead: usize) {
        let Self { table, walk, order, .. } = self;
        match order {
            KeyOrder::Ascending => table.next(walk, numbers, most, ahead),
            KeyOrder::Descending => table.previous(walk, numbers, most),
        }
        table.copy_to(batch, numbers);
    }
}

impl Index {
    /// Visits the newest entry of each key in order, tombstones too, until `each` says no.
    ///
    /// `each` gets the entry and where its value is.
    /// A run without keys in that direction is not touched; others cost the way down to the start, and then a page for each
    /// page full of keys.
    pub(crate) fn visit<S: PageStore>(
        &mut self,
        store: &mut S,
        visit: Visit<'_>,
        mut each: impl FnMut(&Entry, ValueIn) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let (tables, runs, pages) = self.places();
        let mut sources = Vec::with_capacity(2 + runs.len());
        let places: [fn(u32) -> ValueIn; 2] = [ValueIn::Active, ValueIn::Frozen];
        for (table, value_in) in tables.into_iter().zip(places) {
            if let Some(table) = table.filter(|table| table.len() > 0) {
                sources.push(Source::new(Place::of_table(table, value_in, &visit), &visit));
            }
        }
        for run in runs.iter().filter(|run| visit.meets(run)) {
            sources.push(Source::new(Place::of_run(run, &visit, pages, store, at_ps)?, &visit));
        }
        let first = visit.expected.div_ceil(sources.len().max(1)).saturating_add(1).min(BATCH_ENTRIES);
        for source in &mut sources {
            source.fill(first, pages, store, at_ps)?;
        }
        sources.retain(|source| source.head().is_some());
        match sources.as_mut_slice() {
            [only] => visit_one(only, visit.expected, &mut each, pages, store, at_ps),
            _ => visit_all(&mut sources, visit.order, &mut each, pages, store, at_ps),
        }
    }
}

/// Visits what one place has, of which so many entries are expected to be visited.
fn visit_one<S: PageStore>(
    source: &mut Source<'_>,
    expected: usize,
    visit: &mut impl FnMut(&Entry, ValueIn) -> bool,
    pages: &mut PageCache,
    store: &mut S,
    at_ps: &mut u64,
) -> Result<(), KvError> {
    let mut left = expected;
    while !source.batch.is_empty() {
        for (at, entry) in source.batch.iter().enumerate() {
            if !visit(entry, source.value_in(at)) {
                return Ok(());
            }
        }
        left = left.saturating_sub(source.batch.len());
        // More than were expected: then many more may come.
        let most = if left == 0 { BATCH_ENTRIES } else { left.saturating_add(1).min(BATCH_ENTRIES) };
        source.fill(most, pages, store, at_ps)?;
    }
    Ok(())
}

/// Visits what several places have, of each key the newest alone.
fn visit_all<S: PageStore>(
    sources: &mut [Source<'_>],
    order: KeyOrder,
    visit: &mut impl FnMut(&Entry, ValueIn) -> bool,
    pages: &mut PageCache,
    store: &mut S,
    at_ps: &mut u64,
) -> Result<(), KvError> {
    let mut tournament = Tournament::new(order, sources.iter().map(Source::head));
    let mut last: Option<Entry> = None;
    while let Some(winner) = tournament.winner() {
        let source = &mut sources[winner];
        let Some(entry) = source.head().copied() else { return Ok(()) };
        let value_in = source.value_in(source.at);
        source.at += 1;
        if source.at == source.batch.len() {
            source.fill(BATCH_ENTRIES, pages, store, at_ps)?;
        }
        tournament.replace(source.head());
        let is_older = last.is_some_and(|last| last.has_key_of(&entry));
        if !is_older && !visit(&entry, value_in) {
            return Ok(());
        }
        last = Some(entry);
    }
    Ok(())
}
