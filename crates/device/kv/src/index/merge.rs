//! Jobs that write runs, a few entries at a time: a flush of the frozen memtable, a merge of like runs.
//!
//! A merge goes through the keys in order. Now and then it is cut: what it has written becomes a run of the manifest,
//! what it has read is taken off the runs it reads, and their segments up to there are freed. So the room that a merge
//! needs does not grow with the runs.

use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::hints::Hints;
use crate::index::key_order::KeyOrder;
use crate::index::memtable::Memtable;
use crate::index::order::Walk;
use crate::index::run::{Run, RunCursor, Walker};
use crate::index::settle::Older;
use crate::index::tournament::{Limit, Tournament};
use crate::reserve::CUT_SEGMENTS;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use byway_spec::Key;

/// Entries taken from a source at once.
const BATCH_ENTRIES: usize = 64;
/// Cost of reading a page, in entries.
const ENTRIES_PER_PAGE: usize = 6;
/// Pages that a step may read at least.
const LEAST_PAGES: usize = 16;
/// Times that a flush tries to read a page of the index, before it leaves it to compaction to find out what is alive.
const TRIES: u32 = 64;

/// How far a job is.
pub(crate) enum Progress {
    /// There is more to do.
    More,
    /// There is more to do, when this is over.
    Stuck(KvError),
    /// There is more to do. The output so far is a run that replaces the input read so far.
    Cut(Run),
    /// It is done, with the run it wrote, if anything was left to write.
    Done(Option<Run>),
}

/// Writes the frozen memtable as a run.
pub(crate) struct Flush {
    builder: RunBuilder,
    /// `None` before the first step.
    walk: Option<Walk>,
    batch: Vec<u32>,
    /// Entries of the batch that were written, and that were settled first.
    at: usize,
    settled_to: usize,
    /// Those that are written together.
    taken: Vec<Entry>,
    /// Entries that were passed, of all batches.
    passed: usize,
    /// Times that the next entry could not be settled.
    tries: u32,
    /// Entries written without being settled, as a page of the index was damaged, or stayed unreadable for [`TRIES`] tries:
    /// the records that they replace still count as live.
    unsettled: u64,
    /// There is nothing older that a tombstone could hide.
    drop_tombstones: bool,
}

impl Flush {
    pub(crate) fn new(builder: RunBuilder, drop_tombstones: bool) -> Self {
        Self {
            builder,
            walk: None,
            batch: Vec::with_capacity(BATCH_ENTRIES),
            at: 0,
            settled_to: 0,
            taken: Vec::with_capacity(BATCH_ENTRIES),
            passed: 0,
            tries: 0,
            unsettled: 0,
            drop_tombstones,
        }
    }

    pub(crate) fn run_id(&self) -> u64 {
        self.builder.id()
    }

    /// Segments taken so far.
    pub(crate) fn segments(&self) -> u64 {
        self.builder.segments()
    }

    /// Entries passed so far.
    #[inline]
    pub(crate) fn passed(&self) -> usize {
        self.passed
    }

    /// Entries written so far without being settled.
    pub(crate) fn unsettled(&self) -> u64 {
        self.unsettled
    }

    /// Does the work of about `budget` entries, or less where it would read much for them. Each is settled on the way: what
    /// it replaces is counted dead. Hints point to it from now on.
    #[expect(clippy::too_many_arguments, reason = "a step, and all that it changes")]
    pub(crate) fn step<S: PageStore>(
        &mut self,
        table: &mut Memtable,
        older: &mut Older<'_>,
        hints: &mut Hints,
        budget: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Progress, KvError> {
        let (mut left, before) = (budget, older.pages.pages_read());
        let most_pages = (budget / ENTRIES_PER_PAGE).clamp(LEAST_PAGES, u32::MAX as usize) as u32;
        while left > 0 {
            if self.at == self.batch.len() {
                self.take_batch(table, hints);
            }
            if self.at >= self.settled_to {
                let pages_left = most_pages.saturating_sub(older.pages.pages_read() - before);
                if pages_left == 0 {
                    return Ok(Progress::More);
                }
                let rest = &self.batch[self.at..];
                let settled = older.settle_each(table, rest, pages_left, log, store, at_ps);
                // What cannot be settled now is tried one by one.
                self.settled_to = settled.map_or(self.batch.len(), |settled| self.at + settled);
            }
            let settled = self.write_settled(table, hints, left, log, store, at_ps)?;
            if settled > 0 {
                left -= settled;
                continue;
            }
            let Some(&number) = self.batch.get(self.at) else {
                return Ok(Progress::Done(self.builder.finish(log, store, at_ps)?));
            };
            log.count_entries(1);
            if let Err(error) = older.settle(table, number as usize, log, store, at_ps) {
                self.tries += 1;
                if self.tries < TRIES && matches!(error, KvError::Flash(_)) {
                    return Ok(Progress::Stuck(error));
                }
                self.unsettled += 1;
            }
            table.leave_hint(number as usize, hints);
            if let Some(entry) = table.entry(number as usize).filter(|entry| self.keeps(entry)) {
                self.builder.push(entry, log, store, at_ps)?;
            }
            (self.at, self.tries, left) = (self.at + 1, 0, left - 1);
            self.passed += 1;
        }
        Ok(Progress::More)
    }

    /// Takes the numbers of the next entries, and has the memory come that each will need: by loads, as some of many prefetches would
    /// be dropped.
    fn take_batch(&mut self, table: &mut Memtable, hints: &Hints) {
        (self.at, self.settled_to) = (0, 0);
        let walk = self.walk.get_or_insert_with(|| table.walk(None));
        table.next(walk, &mut self.batch, BATCH_ENTRIES, 0);
        table.touch_each(&self.batch);
        let mut hashes = [0; BATCH_ENTRIES];
        let numbers = self.batch.iter().filter_map(|&n| table.hash_at(n as usize));
        let count = hashes.iter_mut().zip(numbers).map(|(place, hash)| *place = hash).count();
        hints.touch_each(&hashes[..count]);
    }

    fn keeps(&self, entry: &Entry) -> bool {
        !(self.drop_tombstones && entry.shape().is_tombstone())
    }

    /// Writes up to `most` entries of the batch, as far as they are settled; how many.
    fn write_settled<S: PageStore>(
        &mut self,
        table: &Memtable,
        hints: &mut Hints,
        most: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        let numbers = self.batch[self.at..].iter().take(most).map(|number| *number as usize);
        self.taken.clear();
        let mut count = 0;
        for number in numbers.take_while(|number| table.is_settled(*number)) {
            table.leave_hint(number, hints);
            let entry = table.entry(number).filter(|entry| self.keeps(entry));
            self.taken.extend(entry);
            count += 1;
        }
        if count > 0 {
            self.builder.extend(&self.taken, log, store, at_ps)?;
            (self.at, self.passed, self.tries) = (self.at + count, self.passed + count, 0);
            log.count_entries(count as u32);
        }
        Ok(count)
    }
}

/// A run being merged, and the entries taken from it so far.
struct Input {
    run: u64,
    /// Entries passed since the last cut, and how many of them were tombstones.
    passed: u64,
    passed_tombstones: u64,
    cursor: RunCursor,
    batch: Vec<Entry>,
    at: usize,
}

impl Input {
    /// Its current entry.
    #[inline]
    fn head(&self) -> Option<&Entry> {
        self.batch.get(self.at)
    }

    /// Buffered entries from the source's current one on that sort before the other sources' current entries, at most `most`.
    /// The first is not compared: the source is the winner.
    #[inline]
    fn stretch(&self, limit: Limit, most: usize) -> &[Entry] {
        let ahead = self.batch.get(self.at..).unwrap_or_default();
        let behind = ahead.iter().take(most.max(1)).skip(1).take_while(|entry| limit.is_above(entry));
        let len = 1 + behind.count();
        &ahead[..len.min(ahead.len())]
    }

    /// Advances by `count` entries.
    #[inline]
    fn advance<S: PageStore>(
        &mut self,
        count: usize,
        pages: &mut PageCache,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let passed = self.batch.get(self.at..self.at + count).unwrap_or_default();
        self.passed += passed.len() as u64;
        self.passed_tombstones += passed.iter().filter(|entry| entry.shape().is_tombstone()).count() as u64;
        self.at += count;
        if self.at < self.batch.len() {
            return Ok(());
        }
        self.batch.clear();
        self.at = 0;
        self.cursor.next(&mut self.batch, BATCH_ENTRIES, pages, store, at_ps)
    }
}

/// What is left of an input beyond a cut.
pub(crate) struct Rest {
    pub(crate) run: u64,
    /// The first key that is left; `None` when nothing is.
    pub(crate) first: Option<Key>,
    pub(crate) passed: u64,
    pub(crate) passed_tombstones: u64,
    /// The page from which on it is.
    pub(crate) needed_from: Option<u64>,
}

/// Merges adjacent runs into one.
pub(crate) struct Merge {
    /// Newest first.
    inputs: Vec<Input>,
    tournament: Tournament,
    /// The newest entries of the next keys.
    taken: Vec<Entry>,
    builder: RunBuilder,
    drop_tombstones: bool,
    /// Segments the builder had taken at the last cut.
    cut_at: u64,
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
            let cursor = RunCursor::new(run, Some(&run.first), Walker::Merge, pages, store, at_ps)?;
            let batch = Vec::with_capacity(BATCH_ENTRIES);
            let mut input = Input { run: run.id, passed: 0, passed_tombstones: 0, cursor, batch, at: 0 };
            input.advance(0, pages, store, at_ps)?;
            inputs.push(input);
        }
        let tournament = Tournament::new(KeyOrder::Ascending, inputs.iter().map(Input::head));
        let taken = Vec::with_capacity(BATCH_ENTRIES);
        Ok(Self { inputs, tournament, taken, builder, drop_tombstones, cut_at: 0 })
    }

    pub(crate) fn run_id(&self) -> u64 {
        self.builder.id()
    }

    /// The runs merged, newest first.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = u64> {
        self.inputs.iter().map(|input| input.run)
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
        let mut left = budget;
        while left > 0 {
            if self.wants_cut()
                && let Some(run) = self.builder.cut(log, store, at_ps)?
            {
                self.cut_at = self.builder.segments();
                return Ok(Progress::Cut(run));
            }
            // Not beyond a page: it may be the last one of a cut.
            let most = left.min(BATCH_ENTRIES).min(self.builder.page_room());
            let passed = self.take(most, pages, log, store, at_ps)?;
            if passed == 0 {
                return Ok(Progress::Done(self.builder.finish(log, store, at_ps)?));
            }
            self.builder.extend(&self.taken, log, store, at_ps)?;
            left = left.saturating_sub(passed);
        }
        Ok(Progress::More)
    }

    /// Segments taken since the last cut.
    pub(crate) fn segments(&self) -> u64 {
        self.builder.segments() - self.cut_at
    }

    /// Whether enough was written since the last cut that the room of what was read is worth the pages of a root.
    fn wants_cut(&self) -> bool {
        self.builder.segments() >= self.cut_at + CUT_SEGMENTS
    }

    /// What is left of each input at a cut.
    pub(crate) fn rests(&mut self) -> Vec<Rest> {
        let rest = |input: &mut Input| Rest {
            run: input.run,
            first: input.head().map(Entry::key),
            passed: std::mem::take(&mut input.passed),
            passed_tombstones: std::mem::take(&mut input.passed_tombstones),
            needed_from: input.cursor.needed_from(),
        };
        self.inputs.iter_mut().map(rest).collect()
    }

    /// Takes the newest entries of the next keys, and goes over older ones of these; how many entries that was, 0 at the end. What
    /// one run has in a row is taken in a row. Of entries of one key, the newest comes first.
    fn take<S: PageStore>(
        &mut self,
        most: usize,
        pages: &mut PageCache,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        self.taken.clear();
        let (mut count, mut passed, mut last) = (0, 0, None::<Entry>);
        while let Some(winner) = self.tournament.winner() {
            let input = &mut self.inputs[winner];
            let stretch = input.stretch(self.tournament.limit(), most - count);
            let is_older = last.zip(stretch.first()).is_some_and(|(last, first)| first.has_key_of(&last));
            if count == most && !is_older {
                break;
            }
            let newest = &stretch[usize::from(is_older)..];
            match self.drop_tombstones {
                true => self.taken.extend(newest.iter().filter(|entry| !entry.shape().is_tombstone())),
                false => self.taken.extend_from_slice(newest),
            }
            (count, last) = (count + newest.len(), stretch.last().copied());
            let len = stretch.len();
            passed += len;
            input.advance(len, pages, store, at_ps)?;
            self.tournament.replace(input.head());
        }
        log.count_entries(passed as u32);
        Ok(passed)
    }
}
