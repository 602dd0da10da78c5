//! Listing keys in order: the memtables and every run, walked side by side.

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::Index;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::memtable::{Memtable, Walk};
use crate::index::run::{Keep, RunCursor};
use crate::store::PageStore;
use byway_spec::Key;

impl KvEngine {
    /// Visits keys in order from the first at or after `start` (NVMe KV List), each with the length of its value,
    /// until `visit` says no. An empty `start` is before every key. To go on after a key, start at it and skip it.
    ///
    /// # Errors
    /// A `start` of more than 16 bytes, [`KvError::DamagedIndex`], errors of the flash.
    pub fn list<S: PageStore>(
        &mut self,
        store: &mut S,
        start: &[u8],
        mut visit: impl FnMut(&Key, u32) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let start = if start.is_empty() { None } else { Some(Key::new(start)?) };
        let visit =
            |entry: &Entry| entry.shape().is_tombstone() || visit(&entry.key(), entry.shape().value_len());
        self.index.visit(store, start.as_ref(), visit, at_ps)
    }
}

/// One place that has entries in order. Newer places come first.
enum Source<'a> {
    Table(&'a Memtable, Walk),
    Run(RunCursor),
}

impl Source<'_> {
    #[inline]
    fn peek(&self) -> Option<Entry> {
        match self {
            Self::Table(table, walk) => walk.peek(table).copied(),
            Self::Run(cursor) => cursor.peek(),
        }
    }

    #[inline]
    fn advance<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        match self {
            Self::Table(table, walk) => walk.advance(table),
            Self::Run(cursor) => cursor.advance(pages, store, at_ps)?,
        }
        Ok(())
    }
}

impl Index {
    /// Visits the newest entry of each key from `start` on, tombstones too, until `visit` says no.
    fn visit<S: PageStore>(
        &mut self,
        store: &mut S,
        start: Option<&Key>,
        mut visit: impl FnMut(&Entry) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let (tables, runs, pages) = self.in_order();
        let mut sources: Vec<Source<'_>> =
            tables.into_iter().flatten().map(|table| Source::Table(table, table.walk(start))).collect();
        for run in runs {
            sources.push(Source::Run(RunCursor::new(run, start, Keep::Cached, pages, store, at_ps)?));
        }
        let mut heads: Vec<Option<Entry>> = sources.iter().map(Source::peek).collect();
        // The first of equals is the newest.
        while let Some(newest) = heads.iter().flatten().min_by_key(|entry| entry.key()).copied() {
            if !visit(&newest) {
                return Ok(());
            }
            for (source, head) in sources.iter_mut().zip(&mut heads) {
                if head.is_some_and(|head| head.is_of(&newest.key())) {
                    source.advance(pages, store, at_ps)?;
                    *head = source.peek();
                }
            }
        }
        Ok(())
    }
}
