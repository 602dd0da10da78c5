//! Jobs that write runs, a few entries at a time: a flush of the frozen memtable, a merge of like runs.

use std::collections::HashMap;

use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::memtable::Memtable;
use crate::index::order::Walk;
use crate::index::run::{Run, RunCursor, Walker};
use crate::index::tournament::Tournament;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::Kind;

/// Entries taken from a source at once.
const BATCH_ENTRIES: usize = 64;

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
    /// `None` before the first step.
    walk: Option<Walk>,
    batch: Vec<Entry>,
    /// There is nothing older that a tombstone could hide.
    drop_tombstones: bool,
}

impl Flush {
    pub(crate) fn new(builder: RunBuilder, drop_tombstones: bool) -> Self {
        Self { builder, walk: None, batch: Vec::with_capacity(BATCH_ENTRIES), drop_tombstones }
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
        let walk = self.walk.get_or_insert_with(|| table.walk(None));
        let mut left = budget;
        while left > 0 {
            self.batch.clear();
            table.next(walk, &mut self.batch, BATCH_ENTRIES.min(left));
            if self.batch.is_empty() {
                return Ok(Progress::Done(self.builder.finish(log, store, at_ps)?));
            }
            left -= self.batch.len();
            for entry in &self.batch {
                if !(self.drop_tombstones && entry.shape().is_tombstone()) {
                    self.builder.push(entry, log, store, at_ps)?;
                }
            }
        }
        Ok(Progress::More)
    }
}

/// A run being merged, and the entries taken from it so far.
struct Input {
    cursor: RunCursor,
    batch: Vec<Entry>,
    at: usize,
}

impl Input {
    /// The entry it stands at.
    #[inline]
    fn head(&self) -> Option<&Entry> {
        self.batch.get(self.at)
    }

    /// Goes to the next entry.
    #[inline]
    fn advance<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.at += 1;
        if self.at < self.batch.len() {
            return Ok(());
        }
        self.batch.clear();
        self.at = 0;
        self.cursor.next(&mut self.batch, BATCH_ENTRIES, pages, store, at_ps)
    }
}

/// Merges adjacent runs into one.
pub(crate) struct Merge {
    /// The runs merged, newest first.
    runs: Vec<u64>,
    inputs: Vec<Input>,
    tournament: Tournament,
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
        let mut inputs = Vec::with_capacity(runs.len());
        for run in runs {
            let cursor = RunCursor::new(run, None, Walker::Merge, pages, store, at_ps)?;
            let mut input = Input { cursor, batch: Vec::with_capacity(BATCH_ENTRIES), at: 0 };
            input.advance(pages, store, at_ps)?;
            inputs.push(input);
        }
        let tournament = Tournament::new(inputs.iter().map(Input::head));
        let runs = runs.iter().map(|run| run.id).collect();
        Ok(Self { runs, inputs, tournament, builder, drop_tombstones, dead: HashMap::new() })
    }

    pub(crate) fn run_id(&self) -> u64 {
        self.builder.id()
    }

    pub(crate) fn inputs(&self) -> &[u64] {
        &self.runs
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
            let Some(newest) = self.take(pages, store, at_ps)? else {
                return Ok(Progress::Done(self.builder.finish(log, store, at_ps)?));
            };
            while let Some(older) = self.take_same(&newest, pages, store, at_ps)? {
                self.note_dead(&older, log);
            }
            if !(self.drop_tombstones && newest.shape().is_tombstone()) {
                self.builder.push(&newest, log, store, at_ps)?;
            }
        }
        Ok(Progress::More)
    }

    /// Takes the next entry; of entries of one key, the newest comes first.
    #[inline]
    fn take<S: PageStore>(
        &mut self,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let Some(winner) = self.tournament.winner() else { return Ok(None) };
        let input = &mut self.inputs[winner];
        let entry = input.head().copied();
        input.advance(pages, store, at_ps)?;
        self.tournament.replace(input.head());
        Ok(entry)
    }

    /// Takes the next entry if it has the key of `newer`.
    #[inline]
    fn take_same<S: PageStore>(
        &mut self,
        newer: &Entry,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let head = self.tournament.winner().and_then(|winner| self.inputs[winner].head());
        if !head.is_some_and(|head| head.has_key_of(newer)) {
            return Ok(None);
        }
        self.take(pages, store, at_ps)
    }

    fn note_dead(&mut self, older: &Entry, log: &ValueLog) {
        if older.shape().kind() == Kind::Value {
            for (segment, bytes) in log.segments.pieces(older.address(), older.shape().record_bytes()) {
                *self.dead.entry(segment).or_default() += bytes;
            }
        }
    }
}
