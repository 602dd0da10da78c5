//! A run: sorted entries on flash, under a tree of first keys with one root page.
//!
//! Nothing of a run but its row in the manifest has to be in RAM. Level 0 pages hold entries; a level 1 page holds
//! for each of them its first key, its page, and where its filter block is; level n + 1 does the same for level n, without filters.

use std::ops::Range;

use crate::error::KvError;
use crate::index::cache::{PageCache, PageName};
use crate::index::entry::Entry;
use crate::index::filter;
use crate::index::page;
use crate::index::page::FILTER;
use crate::index::search;
use crate::index::search::View;
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

/// Where a data page's filter block is, in 47 bits.
pub(crate) fn filter_ref(page: u64, slot: usize) -> u64 {
    page << 8 | slot as u64
}

/// A data page, by the pages above it.
struct Leaf {
    page: u64,
    /// Numbers of its first key and of the first behind it.
    bounds: Range<u128>,
    /// Where its filter block is.
    filter: u64,
}

impl Leaf {
    /// Whether a key that is not before it is certainly not behind it.
    #[inline]
    fn has(&self, key: &Key) -> bool {
        key.number() < self.bounds.end
    }
}

impl Run {
    pub(crate) fn name(&self, page: u64, level: u8) -> PageName {
        PageName { page, run: self.id, level }
    }

    /// Whether a key lies between the first and the last of the run: others cost nothing.
    #[inline]
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.first <= *key && *key <= self.last
    }

    /// The entry of a key that the run covers, which may be a tombstone. Where nothing older can have the key, a page
    /// that is here already is looked into without asking its filter.
    pub(crate) fn get<S: PageStore>(
        &self,
        key: &Key,
        is_oldest: bool,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let Some(leaf) = self.leaf_of(key, pages, store, at_ps)? else { return Ok(None) };
        let is_cheap = is_oldest && pages.holds(leaf.page);
        if !is_cheap && !self.filter_passes(leaf.filter, key, pages, store, at_ps)? {
            return Ok(None);
        }
        let find = |view: &mut View<'_>| search::find(view, key, &leaf.bounds);
        let found = pages.look(store, self.name(leaf.page, 0), find, at_ps)?;
        Ok(found.map(|(_, entry)| entry).filter(|entry| entry.is_of(key)))
    }

    /// Looks up sorted keys that the run covers, for a caller that goes through the whole run: each page is read once for all
    /// of its keys and not cached. Appends the entries found to `into`, in the order of the keys, each with the index of its
    /// key. Pauses after `most_pages` pages; returns the number of keys looked up by then.
    pub(crate) fn get_each<S: PageStore>(
        &self,
        keys: &[Key],
        most_pages: u32,
        into: &mut Vec<(usize, Entry)>,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        let (mut done, before) = (0, pages.pages_read());
        while let Some(key) = keys.get(done) {
            if done > 0 && pages.pages_read() - before >= most_pages {
                break;
            }
            let leaf = self.leaf_of(key, pages, store, at_ps)?;
            let here =
                keys[done + 1..].iter().take_while(|next| leaf.as_ref().is_some_and(|leaf| leaf.has(next)));
            let end = done + 1 + here.count();
            if let Some(leaf) = leaf {
                let (wanted, before) = (&keys[done..end], into.len());
                let find = |view: &mut View<'_>| {
                    into.truncate(before);
                    let found = |i: usize, entry: Entry| into.push((done + i, entry));
                    search::find_each(view, wanted, &leaf.bounds, found);
                };
                pages.pass_into(store, self.name(leaf.page, 0), find, at_ps)?;
            }
            done = end;
        }
        Ok(done)
    }

    /// The data page that has a key, if the run has it.
    #[inline]
    fn leaf_of<S: PageStore>(
        &self,
        key: &Key,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Leaf>, KvError> {
        let bounds = self.first.number()..self.last.number().saturating_add(1);
        let mut leaf = Leaf { page: self.root, bounds, filter: 0 };
        for level in (1..=self.height).rev() {
            let mut view = View::of_checked(pages.get(store, self.name(leaf.page, level), at_ps)?);
            let Some((i, fence)) = search::find(&mut view, key, &leaf.bounds) else { return Ok(None) };
            leaf.bounds.start = fence.number();
            if let Some(next) = view.entry(i + 1) {
                leaf.bounds.end = next.number();
            }
            (leaf.page, leaf.filter) = (fence.address(), fence.seq());
        }
        Ok(Some(leaf))
    }

    #[inline]
    fn filter_passes<S: PageStore>(
        &self,
        filter_ref: u64,
        key: &Key,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        let shape = pages.shape();
        let block = page::block_place((filter_ref & 0xff) as usize, &shape);
        let may_hold = |view: &mut View<'_>| {
            filter::may_hold(shape.filter_block_bytes, key, |line| view.line(block + line))
        };
        pages.look(store, self.name(filter_ref >> 8, FILTER), may_hold, at_ps)
    }
}

/// Purpose of reading a run, which decides whether its data pages are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walker {
    /// A list: its data pages stay in the cache until there is no more room.
    List,
    /// A merge: its data pages do not enter the cache.
    Merge,
}

/// A walk over a run in key order.
pub(crate) struct RunCursor {
    run: Run,
    walker: Walker,
    /// From the root to the data page.
    path: Vec<Step>,
    /// The data page of a merge.
    held: Vec<u8>,
}

/// A page on the way down.
struct Step {
    page: u64,
    /// Which of its entries comes next.
    at: usize,
    count: usize,
}

impl RunCursor {
    /// A cursor at the first key at or after `start`.
    pub(crate) fn new<S: PageStore>(
        run: &Run,
        start: Option<&Key>,
        walker: Walker,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Self, KvError> {
        let path = Vec::with_capacity(usize::from(run.height) + 1);
        let mut cursor = Self { run: *run, walker, path, held: Vec::new() };
        cursor.descend(run.root, start, pages, store, at_ps)?;
        Ok(cursor)
    }

    /// First page of the run that is still needed: the cursor's current one. Filters and fences of a page lie behind it.
    pub(crate) fn needed_from(&self) -> Option<u64> {
        self.path.last().map(|step| step.page)
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
        self.settle(pages, store, at_ps)?;
        let Some(step) = self.path.last_mut() else { return Ok(()) };
        let end = step.count.min(step.at + most);
        let bytes = match self.walker {
            Walker::List => pages.pass_by(store, self.run.name(step.page, 0), at_ps)?,
            Walker::Merge => &self.held,
        };
        into.extend(page::entries(bytes, step.at..end));
        step.at = end;
        Ok(())
    }

    /// Leaves pages that are used up and goes down into the next ones.
    fn settle<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        while let Some(step) = self.path.last()
            && step.at >= step.count
        {
            self.path.pop();
            let level = self.run.height - self.path.len().saturating_sub(1) as u8;
            let Some(above) = self.path.last_mut() else { return Ok(()) };
            above.at += 1;
            if above.at < above.count {
                let bytes = pages.get(store, self.run.name(above.page, level), at_ps)?;
                let fence = page::entry_at(bytes, above.at);
                self.descend(fence.map_or(0, |fence| fence.address()), None, pages, store, at_ps)?;
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
        for level in (0..=self.run.height - self.path.len() as u8).rev() {
            let name = self.run.name(page, level);
            let bytes = match (level, self.walker) {
                (0, Walker::Merge) => {
                    pages.copy(store, name, &mut self.held, at_ps)?;
                    &self.held
                }
                (0, Walker::List) => pages.pass_by(store, name, at_ps)?,
                _ => pages.get(store, name, at_ps)?,
            };
            let at = match start {
                None => 0,
                Some(key) if level == 0 => page::lower_bound(bytes, key),
                Some(key) => page::upper_bound(bytes, key).saturating_sub(1),
            };
            self.path.push(Step { page, at, count: page::count_of(bytes) });
            let fence = page::entry_at(bytes, at);
            page = fence.map_or(0, |fence| fence.address());
        }
        Ok(())
    }
}
