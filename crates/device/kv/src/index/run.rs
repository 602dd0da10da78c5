//! A run: sorted entries on flash, under a tree of first keys with one root page.
//!
//! Nothing of a run but its row in the manifest has to be in RAM. Level 0 pages hold entries; a level 1 page holds
//! for each of them its first key, its page, and where its filter block is; level n + 1 does the same for level n, without filters.

use std::sync::Arc;

use crate::error::KvError;
use crate::index::cache::{PageCache, PageName};
use crate::index::entry::Entry;
use crate::index::filter;
use crate::index::page::{self, FILTER};
use crate::store::PageStore;
use byway_spec::Key;

/// What the manifest keeps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: u64,
    /// Runs of one tier are of like size; a merge of them makes one of the next.
    pub(crate) tier: u8,
    /// Levels above the entries, at least 1.
    pub(crate) height: u8,
    pub(crate) root: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) first: Key,
    pub(crate) last: Key,
}

/// Where a data page's filter block is, in 48 bits.
pub(crate) fn filter_ref(page: u64, slot: usize) -> u64 {
    page << 8 | slot as u64
}

impl Run {
    fn name(&self, page: u64, level: u8) -> PageName {
        PageName { page, run: self.id, level }
    }

    /// The entry of a key, which may be a tombstone.
    pub(crate) fn get<S: PageStore>(
        &self,
        key: &Key,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        if *key < self.first || *key > self.last {
            return Ok(None);
        }
        let mut page = self.root;
        for level in (1..=self.height).rev() {
            let bytes = pages.get(store, self.name(page, level), at_ps)?;
            let Some(fence) =
                page::upper_bound(bytes, key).checked_sub(1).and_then(|i| page::entry_at(bytes, i))
            else {
                return Ok(None);
            };
            if level == 1 && !self.filter_passes(fence.seq(), key, pages, store, at_ps)? {
                return Ok(None);
            }
            page = fence.address();
        }
        let bytes = pages.get(store, self.name(page, 0), at_ps)?;
        let entry = page::entry_at(bytes, page::lower_bound(bytes, key));
        Ok(entry.filter(|entry| entry.is_of(key)))
    }

    fn filter_passes<S: PageStore>(
        &self,
        filter_ref: u64,
        key: &Key,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        let shape = pages.shape;
        let bytes = pages.get(store, self.name(filter_ref >> 8, FILTER), at_ps)?;
        Ok(filter::may_hold(page::block_at(bytes, (filter_ref & 0xff) as usize, &shape), key))
    }
}

/// How a cursor treats the pages it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// In the cache: someone lists.
    Cached,
    /// Not at all: a merge.
    Passing,
}

/// A walk over a run in key order.
pub(crate) struct RunCursor {
    run: Run,
    keep: Keep,
    /// From the root to the data page: the page, and which of its entries comes next.
    path: Vec<(Arc<[u8]>, usize)>,
}

impl RunCursor {
    /// A cursor at the first key at or after `start`.
    pub(crate) fn new<S: PageStore>(
        run: &Run,
        start: Option<&Key>,
        keep: Keep,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Self, KvError> {
        let mut cursor = Self { run: *run, keep, path: Vec::with_capacity(usize::from(run.height) + 1) };
        cursor.descend(run.root, start, pages, store, at_ps)?;
        cursor.settle(pages, store, at_ps)?;
        Ok(cursor)
    }

    /// The entry the cursor stands at.
    pub(crate) fn peek(&self) -> Option<Entry> {
        let (bytes, at) = self.path.last()?;
        page::entry_at(bytes, *at).filter(|_| *at < page::count_of(bytes))
    }

    /// Goes to the next entry.
    pub(crate) fn advance<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if let Some((_, at)) = self.path.last_mut() {
            *at += 1;
        }
        self.settle(pages, store, at_ps)
    }

    /// Leaves pages that are used up and goes down into the next ones.
    fn settle<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        while let Some((bytes, at)) = self.path.last()
            && *at >= page::count_of(bytes)
        {
            self.path.pop();
            let Some((above, at)) = self.path.last_mut() else { return Ok(()) };
            *at += 1;
            if *at < page::count_of(above) {
                let next = page::entry_at(above, *at).map_or(0, |fence| fence.address());
                self.descend(next, None, pages, store, at_ps)?;
            }
        }
        Ok(())
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
        loop {
            let level = self.run.height - self.path.len() as u8;
            let name = self.run.name(page, level);
            let bytes = match self.keep {
                Keep::Cached => pages.get(store, name, at_ps)?.clone(),
                Keep::Passing => pages.pass(store, name, at_ps)?,
            };
            let at = match start {
                None => 0,
                Some(key) if level == 0 => page::lower_bound(&bytes, key),
                Some(key) => page::upper_bound(&bytes, key).saturating_sub(1),
            };
            page = page::entry_at(&bytes, at).map_or(0, |fence| fence.address());
            self.path.push((bytes, at));
            if level == 0 {
                return Ok(());
            }
        }
    }
}
