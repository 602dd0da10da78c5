//! Jobs that write runs, a few entries at a time: a flush of the frozen memtable, a merge of like runs.

use std::collections::HashMap;

use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::memtable::{Memtable, Walk};
use crate::index::run::{Keep, Run, RunCursor};
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::Kind;

/// Entries that one step of a flush sorts.
const SORT_ENTRIES: usize = 512;

/// How far a job is.
pub(crate) enum Progress {
    /// There is more to do.
    More,
    /// It is done, with the run it wrote, if anything was left to write.
    Done(Option<Run>),
}

/// Writes the frozen memtable as a run.
pub(crate) struct Flush {
    builder: RunBuilder,
    /// `None` while entries are still being sorted.
    walk: Option<Walk>,
    /// There is nothing older that a tombstone could hide.
    drop_tombstones: bool,
}

impl Flush {
    pub(crate) fn new(builder: RunBuilder, drop_tombstones: bool) -> Self {
        Self { builder, walk: None, drop_tombstones }
    }

    pub(crate) fn run_id(&self) -> u64 {
        self.builder.id()
    }

    /// Does the work of about `budget` entries.
    pub(crate) fn step<S: PageStore>(
        &mut self,
        table: &mut Memtable,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Progress, KvError> {
        let Some(walk) = &mut self.walk else {
            if table.order_next(SORT_ENTRIES) {
                self.walk = Some(table.walk(None));
            }
            return Ok(Progress::More);
        };
        for _ in 0..budget {
            let Some(entry) = walk.peek(table) else {
                return Ok(Progress::Done(self.builder.finish(log, store, at_ps)?));
            };
            if !(self.drop_tombstones && entry.shape().is_tombstone()) {
                self.builder.push(entry, log, store, at_ps)?;
            }
            walk.advance(table);
        }
        Ok(Progress::More)
    }
}

/// Merges adjacent runs into one.
pub(crate) struct Merge {
    /// The runs merged, newest first.
    inputs: Vec<u64>,
    cursors: Vec<RunCursor>,
    builder: RunBuilder,
    drop_tombstones: bool,
    /// Bytes of records that no entry points to any more, by segment.
    dead: HashMap<usize, i64>,
}

impl Merge {
    /// A merge of `runs`, newest first.
    pub(crate) fn new<S: PageStore>(
        runs: &[Run],
        builder: RunBuilder,
        drop_tombstones: bool,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Self, KvError> {
        let open = runs.iter().map(|run| RunCursor::new(run, None, Keep::Passing, pages, store, at_ps));
        let cursors = open.collect::<Result<_, _>>()?;
        let inputs = runs.iter().map(|run| run.id).collect();
        Ok(Self { inputs, cursors, builder, drop_tombstones, dead: HashMap::new() })
    }

    pub(crate) fn run_id(&self) -> u64 {
        self.builder.id()
    }

    pub(crate) fn inputs(&self) -> &[u64] {
        &self.inputs
    }

    pub(crate) fn dead(&self) -> &HashMap<usize, i64> {
        &self.dead
    }

    /// Does the work of `budget` entries.
    pub(crate) fn step<S: PageStore>(
        &mut self,
        budget: usize,
        pages: &mut PageCache,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Progress, KvError> {
        for _ in 0..budget {
            let Some(newest) = self.next(pages, log, store, at_ps)? else {
                return Ok(Progress::Done(self.builder.finish(log, store, at_ps)?));
            };
            if !(self.drop_tombstones && newest.shape().is_tombstone()) {
                self.builder.push(&newest, log, store, at_ps)?;
            }
        }
        Ok(Progress::More)
    }

    /// The newest entry of the smallest key; older ones of that key are dropped.
    fn next<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        log: &ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let heads = self.cursors.iter().filter_map(RunCursor::peek);
        // `min_by_key` gives the first of equals: the newest.
        let Some(newest) = heads.min_by_key(Entry::key) else { return Ok(None) };
        let key = newest.key();
        let mut is_newest = true;
        for cursor in &mut self.cursors {
            let Some(entry) = cursor.peek().filter(|entry| entry.is_of(&key)) else { continue };
            if !std::mem::take(&mut is_newest) && entry.shape().kind() == Kind::Value {
                for (segment, bytes) in log.segments.pieces(entry.address(), entry.shape().record_bytes()) {
                    *self.dead.entry(segment).or_default() += bytes;
                }
            }
            cursor.advance(pages, store, at_ps)?;
        }
        Ok(Some(newest))
    }
}
