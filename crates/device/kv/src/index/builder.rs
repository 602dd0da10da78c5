//! Writing a run: entries come in key order, pages go out as they fill.
//!
//! RAM is one page for the entries, one for their filters and one for each level above, whatever the length.
//! Data pages come in groups, each with one filter page behind them, and fences of a group are written once that has its place.
//! So a sequential reader of a run needs nothing before its current data page.

use byway_flash::Cause;

use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::filter;
use crate::index::page::{FILTER, PageDraft, PageShape};
use crate::index::run::{Run, filter_ref};
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::segment::Use;
use byway_spec::Key;

/// A run being written.
pub(crate) struct RunBuilder {
    id: u64,
    tier: u8,
    shape: PageShape,
    data: PageDraft,
    filter: PageDraft,
    /// Data pages of the current group that are written: first key and place of each.
    group: Vec<(Key, u64)>,
    levels: Vec<PageDraft>,
    next_page: u64,
    pages_left: u64,
    /// Segments taken so far.
    segments: u64,
    entries: u64,
    tombstones: u64,
    first: Option<Key>,
    last: Option<Entry>,
}

impl RunBuilder {
    pub(crate) fn new(id: u64, tier: u8, shape: PageShape) -> Self {
        Self {
            id,
            tier,
            shape,
            data: PageDraft::new(&shape),
            filter: PageDraft::new(&shape),
            group: Vec::with_capacity(shape.filter_blocks),
            levels: Vec::new(),
            next_page: 0,
            pages_left: 0,
            segments: 0,
            entries: 0,
            tombstones: 0,
            first: None,
            last: None,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Appends an entry; keys must come in order.
    pub(crate) fn push<S: PageStore>(
        &mut self,
        entry: &Entry,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.extend(std::slice::from_ref(entry), log, store, at_ps)
    }

    /// Entries that can be appended before a page is written, or the next one is begun.
    pub(crate) fn page_room(&self) -> usize {
        match self.shape.entries - self.data.count() {
            0 => self.shape.entries,
            room => room,
        }
    }

    /// Appends entries; keys must come in order.
    pub(crate) fn extend<S: PageStore>(
        &mut self,
        entries: &[Entry],
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let mut rest = entries;
        while let Some(first) = rest.first() {
            if self.data.count() == self.shape.entries {
                self.write_data(log, store, at_ps)?;
            }
            let (here, after) = rest.split_at(rest.len().min(self.page_room()));
            filter::insert_each(self.filter.block_mut(self.group.len(), &self.shape), here);
            self.data.extend(here);
            self.entries += here.len() as u64;
            self.tombstones += here.iter().filter(|entry| entry.shape().is_tombstone()).count() as u64;
            self.first.get_or_insert_with(|| first.key());
            self.last = here.last().copied();
            rest = after;
        }
        Ok(())
    }

    /// Writes what is left; the run, or `None` when there were no entries.
    pub(crate) fn finish<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Run>, KvError> {
        let (Some(first), Some(last)) = (self.first, self.last) else { return Ok(None) };
        let last = last.key();
        if self.data.count() > 0 {
            self.write_data(log, store, at_ps)?;
        }
        if !self.group.is_empty() {
            self.write_filter(log, store, at_ps)?;
        }
        let (root, height) = self.write_levels(log, store, at_ps)?;
        let (entries, tombstones) = (self.entries, self.tombstones);
        Ok(Some(Run { id: self.id, tier: self.tier, height, root, entries, tombstones, first, last }))
    }

    /// Where the entries pushed so far fill a group of pages: a run of them, which is whole by itself. The next keys go
    /// to later pages, and to a root that takes the place of this one.
    pub(crate) fn cut<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Run>, KvError> {
        let fills_group =
            self.data.count() == self.shape.entries && self.group.len() + 1 == self.shape.filter_blocks;
        let (Some(first), Some(last), true) = (self.first, self.last, fills_group) else { return Ok(None) };
        let last = last.key();
        self.write_data(log, store, at_ps)?;
        let kept = self.levels.clone();
        let (root, height) = self.write_levels(log, store, at_ps)?;
        self.levels = kept;
        let (entries, tombstones) = (self.entries, self.tombstones);
        Ok(Some(Run { id: self.id, tier: self.tier, height, root, entries, tombstones, first, last }))
    }

    /// Segments taken so far.
    pub(crate) fn segments(&self) -> u64 {
        self.segments
    }

    /// Writes what is left of each level, bottom up; the last is the root.
    fn write_levels<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(u64, u8), KvError> {
        let mut level = 0;
        loop {
            let fence = self.write_level(level, log, store, at_ps)?;
            if level + 1 == self.levels.len() {
                return Ok((fence.address(), level as u8 + 1));
            }
            self.push_fence(level + 1, fence, log, store, at_ps)?;
            level += 1;
        }
    }

    fn write_data<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(first) = self.data.first() else { return Ok(()) };
        let page = self.take_page(log, store)?;
        write_page(self.tier, page, self.data.seal(self.id, 0), log, store, at_ps)?;
        self.data.clear();
        self.group.push((first, page));
        if self.group.len() == self.shape.filter_blocks {
            self.write_filter(log, store, at_ps)?;
        }
        Ok(())
    }

    /// Ends the group: the page of its filters, and the fences of its data pages, which name that.
    fn write_filter<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let page = self.take_page(log, store)?;
        write_page(self.tier, page, self.filter.seal(self.id, FILTER), log, store, at_ps)?;
        self.filter.clear();
        let mut group = std::mem::take(&mut self.group);
        for (slot, (first, data_page)) in group.drain(..).enumerate() {
            let fence = Entry::fence(&first, data_page, filter_ref(page, slot));
            self.push_fence(0, fence, log, store, at_ps)?;
        }
        self.group = group;
        Ok(())
    }

    fn push_fence<S: PageStore>(
        &mut self,
        level: usize,
        fence: Entry,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if level == self.levels.len() {
            self.levels.push(PageDraft::new(&self.shape));
        }
        if self.levels[level].count() == self.shape.entries {
            let above = self.write_level(level, log, store, at_ps)?;
            self.push_fence(level + 1, above, log, store, at_ps)?;
        }
        self.levels[level].push(&fence);
        Ok(())
    }

    /// Writes the page of a level; returns the fence that points to it.
    fn write_level<S: PageStore>(
        &mut self,
        level: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Entry, KvError> {
        let page = self.take_page(log, store)?;
        let draft = &mut self.levels[level];
        let first = draft.first().ok_or(KvError::DamagedState("an index level without entries"))?;
        write_page(self.tier, page, draft.seal(self.id, level as u8 + 1), log, store, at_ps)?;
        draft.clear();
        Ok(Entry::fence(&first, page, 0))
    }

    fn take_page<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S) -> Result<u64, KvError> {
        if self.pages_left == 0 {
            let used = Use::Index { run: self.id, order: self.segments };
            let segment = log.take_segment(store, used)?;
            self.segments += 1;
            self.pages_left = log.layout().pages_per_segment();
            self.next_page = u64::from(segment) * self.pages_left;
        }
        self.pages_left -= 1;
        self.next_page += 1;
        Ok(self.next_page - 1)
    }
}

/// Writes a page of a run: those of merged ones go where what lives longer is.
fn write_page<S: PageStore>(
    tier: u8,
    page: u64,
    data: &[u8],
    log: &mut ValueLog,
    store: &mut S,
    at_ps: &mut u64,
) -> Result<(), KvError> {
    log.count_page_written();
    let written = match tier {
        0 => store.write_page(log.home(), page, data, Cause::Index, at_ps),
        _ => store.write_merged_page(log.home(), page, data, at_ps),
    };
    Ok(written?)
}
