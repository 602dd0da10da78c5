//! The ordered index: a memtable, and runs on flash that it is flushed to and that are merged.
//!
//! One memtable fills while at most one frozen one is written out; runs of like size are merged into larger ones.
//! Both go on in small steps, paid by the puts that make them necessary ([`Index::tend`]).

pub(crate) mod back_cursor;
pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod entry;
pub(crate) mod filter;
pub(crate) mod hints;
pub(crate) mod in_ram;
mod jobs;
pub(crate) mod key_order;
pub(crate) mod manifest;
pub(crate) mod memtable;
pub(crate) mod merge;
mod merging;
pub(crate) mod new_entries;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod settle;
pub(crate) mod share;
pub(crate) mod short_values;
pub(crate) mod slot;
pub(crate) mod tournament;

use crate::error::KvError;
use crate::layout::Layout;
use crate::lookup_hints::Tables;
use crate::store::{Home, PageStore};
use crate::value_log::ValueLog;
use crate::value_log::live::Part;
use crate::value_log::record::Kind;
use crate::value_log::segment::ReplayFrom;
use byway_spec::Key;
use cache::{PageCache, PageName};
use entry::Entry;
use hints::Hints;
use manifest::Manifest;
use memtable::{Inserted, MEMTABLE_ENTRY_BYTES, Memtable};
use merge::{Flush, Merge};
use merging::NeededSegments;
use new_entries::NewEntries;
use page::PageShape;
use run::Run;
use share::Filled;
use short_values::Value;
use slot::hash_of;

/// Entries that enter the memtable together.
const LATE_ENTRIES: usize = 8;

/// A memtable that is being written out.
struct Frozen {
    table: Memtable,
    /// Write pointers of all streams when it froze: where the next replay begins once it is on flash.
    replay_from: Vec<ReplayFrom>,
    seq: u64,
}

/// Sizes of the index in RAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexBudget {
    pub(crate) memtable_entries: usize,
    /// Of copies of short values beside the entries of a memtable.
    pub(crate) values_bytes: usize,
    pub(crate) cache_bytes: usize,
    pub(crate) hash_seed: u64,
}

/// Counts of index work since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounters {
    /// Memtables written out.
    pub flushes: u64,
    /// Merges of runs.
    pub merges: u64,
    /// Times that a merge freed the segments of its input.
    pub cuts: u64,
    /// Puts that had to wait for a memtable to be written out.
    pub stalls: u64,
    /// Steps of flushes and merges that failed, to be tried again.
    pub failed_steps: u64,
    /// Entries whose older version could not be looked for: it counts as alive until compaction finds otherwise.
    pub unsettled: u64,
}

/// Keys and where their records are.
pub(crate) struct Index {
    budget: IndexBudget,
    active: Memtable,
    /// Entries newer than those of the active memtable, which they enter together: their memory has come by then.
    late: NewEntries,
    /// Entries that were replaced and still count as alive.
    replaced: Vec<Entry>,
    frozen: Option<Frozen>,
    /// The table that was flushed last, being emptied to take the next turn: making and dropping one takes milliseconds.
    spare: Option<Memtable>,
    flush: Option<Flush>,
    merge: Option<Merge>,
    manifest: Manifest,
    /// Bytes of the logs that could not be read when they were replayed, now or earlier. The next manifest that lets the
    /// replay begin behind them covers them.
    lost_log_bytes: u64,
    pages: PageCache,
    hints: Hints,
    /// Segments without content that are still to be freed.
    to_release: Vec<u32>,
    /// Entries of the active memtable before this one were settled, or tried to be.
    settled_to: usize,
    /// What is still needed of runs that merges have passed in part.
    needed: Vec<NeededSegments>,
    /// A tier has enough runs to merge.
    ripe: bool,
    credit: usize,
    /// Entries that upkeep has done the work of, ahead of the records that will ask for it.
    done_ahead: usize,
    /// How full the memtable was when the work beside puts was last gone on with.
    filled: Filled,
    /// It came nearer than the one before it was written out.
    is_behind: bool,
    /// Times the usual work that each put does.
    hurry: usize,
    counters: IndexCounters,
}

impl IndexBudget {
    fn memtable(&self) -> Memtable {
        Memtable::new(self.memtable_entries, self.values_bytes, self.hash_seed)
    }
}

impl Index {
    pub(crate) fn new(manifest: Manifest, home: &Home, layout: &Layout, budget: IndexBudget) -> Self {
        let pages = PageCache::new(home, layout.page_bytes, budget.cache_bytes);
        let hints = Hints::new(layout.extent_bytes(), budget.cache_bytes / 2);
        Self {
            budget,
            active: budget.memtable(),
            late: NewEntries::new(),
            replaced: Vec::with_capacity(LATE_ENTRIES),
            frozen: None,
            spare: None,
            flush: None,
            merge: None,
            lost_log_bytes: manifest.lost_log_bytes,
            manifest,
            pages,
            hints,
            to_release: Vec::new(),
            settled_to: 0,
            needed: Vec::new(),
            ripe: false,
            credit: 0,
            done_ahead: 0,
            filled: Filled::default(),
            is_behind: false,
            hurry: 1,
            counters: IndexCounters::default(),
        }
    }

    /// Goes on with the runs of a newer manifest of the same checkpoint, which another process has committed. Pages of the segments in
    /// `changed` are something else now.
    pub(crate) fn follow_manifest(&mut self, manifest: Manifest, changed: &[u32], pages_per_segment: u64) {
        for segment in changed {
            self.pages.forget(u64::from(*segment) * pages_per_segment, pages_per_segment);
        }
        // What the memtable took over by this number stays there.
        let seq = self.manifest.seq;
        self.manifest = Manifest { seq, ..manifest };
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The highest sequence number of the checkpoint, or of the next one if that is being written.
    pub(crate) fn checkpoint_seq(&self) -> u64 {
        self.frozen.as_ref().map_or(self.manifest.seq, |frozen| frozen.seq)
    }

    /// Bytes of the logs that could not be read when they were replayed, and that no repair has dealt with.
    pub(crate) fn lost_log_bytes(&self) -> u64 {
        self.lost_log_bytes
    }

    /// Adds bytes of the logs that could not be read.
    pub(crate) fn note_lost(&mut self, bytes: u64) {
        self.lost_log_bytes = self.lost_log_bytes.saturating_add(bytes);
    }

    pub(crate) fn counters(&self) -> IndexCounters {
        self.counters
    }

    /// Counts a step of a flush, of a merge or of compaction if it failed.
    pub(crate) fn count_failed_step<T>(&mut self, done: &Result<T, KvError>) {
        self.counters.failed_steps += u64::from(done.is_err());
    }

    /// Shape of its pages.
    #[inline]
    pub(crate) fn page_shape(&self) -> PageShape {
        self.pages.shape()
    }

    /// Pages that the command at hand has read so far.
    #[inline]
    pub(crate) fn pages_read(&self) -> u32 {
        self.pages.pages_read()
    }

    /// Counts pages read from zero: a command begins.
    #[inline]
    pub(crate) fn begin_work(&mut self) {
        self.pages.begin_work();
    }

    /// Copies a page of a run, and does not cache it.
    ///
    /// # Errors
    /// Where it cannot be read, or is damaged.
    pub(crate) fn copy_page<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        into: &mut Vec<u8>,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.pages.copy(store, name, into, at_ps)
    }

    /// Runs on flash.
    pub(crate) fn runs(&self) -> usize {
        self.manifest.runs.len()
    }

    /// Bytes of the memtables, of cached pages and of hints.
    pub(crate) fn ram_bytes(&self) -> usize {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.table.len());
        (self.memtable_len() + frozen) * MEMTABLE_ENTRY_BYTES
            + self.copies_bytes()
            + self.pages.ram_bytes()
            + self.hints.ram_bytes()
    }

    /// Segments that a flush and a merge at work have taken so far, of those left alone for them.
    pub(crate) fn segments_at_work(&self) -> [u64; 2] {
        [self.flush.as_ref().map_or(0, Flush::segments), self.merge.as_ref().map_or(0, Merge::segments)]
    }

    /// Whether a memtable is being written out.
    pub(crate) fn is_flushing(&self) -> bool {
        self.frozen.is_some()
    }

    /// Whether the memtable can be exchanged for an empty one that is there already.
    pub(crate) fn may_freeze(&self) -> bool {
        self.frozen.is_none() && self.spare.as_ref().is_none_or(Memtable::is_emptied)
    }

    /// Entries of all runs.
    pub(crate) fn entries_on_flash(&self) -> u64 {
        self.manifest.runs.iter().map(|run| run.entries).sum()
    }

    /// Entries of each memtable.
    pub(crate) fn entries_in_ram(&self) -> [usize; 2] {
        [self.memtable_len(), self.frozen.as_ref().map_or(0, |frozen| frozen.table.len())]
    }

    /// Most entries of a memtable.
    pub(crate) fn most_entries(&self) -> usize {
        self.budget.memtable_entries
    }

    /// Sizes the active memtable, if it is empty, for the entries that `bytes` of log make at the rate of the frozen one, which
    /// was filled by `before_bytes`.
    pub(crate) fn set_expected_entries(&mut self, bytes: u64, before_bytes: u64) {
        let Some(frozen) = &self.frozen else { return };
        let entries = u128::from(bytes) * frozen.table.len() as u128 / u128::from(before_bytes.max(1));
        self.active.set_expected_entries(entries.min(self.budget.memtable_entries as u128) as usize);
    }

    pub(crate) fn memtable_len(&self) -> usize {
        self.active.len() + self.late.len()
    }

    /// Whether the active memtable has every key.
    pub(crate) fn is_all_in_active(&self) -> bool {
        self.frozen.is_none() && self.manifest.runs.is_empty()
    }

    /// The newest entry of a key, which may be a tombstone.
    #[inline]
    pub(crate) fn get<S: PageStore>(
        &mut self,
        key: &Key,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        self.catch_up();
        match self.active.get(key) {
            Some(entry) => Ok(Some(*entry)),
            None if self.is_all_in_active() => Ok(None),
            None => self.get_older(key, store, at_ps),
        }
    }

    /// Where the newest record of a key that is not in RAM is said to be: the record knows better.
    #[inline]
    pub(crate) fn hint(&self, key: &Key) -> Option<u64> {
        self.hint_of(self.hash(key))
    }

    /// The same for a key of this hash.
    #[inline]
    pub(crate) fn hint_of(&self, hash: u64) -> Option<u64> {
        self.hints.get(hash)
    }

    /// Looks a key up that is not in RAM, and leaves a hint of where its value is.
    pub(crate) fn get_noting<S: PageStore>(
        &mut self,
        key: &Key,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let found = self.get_in_runs(key, store, at_ps)?;
        if let Some(entry) = found.filter(|entry| entry.shape().kind() == Kind::Value) {
            self.hints.note(self.hash(key), entry.address());
        }
        Ok(found)
    }

    /// The hash of a key.
    #[inline]
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        hash_of(key, self.budget.hash_seed)
    }

    /// Everything that has entries, newest first; and the cache to read runs with.
    pub(crate) fn places(&mut self) -> ([Option<&mut Memtable>; 2], &[Run], &mut PageCache) {
        self.catch_up();
        let frozen = self.frozen.as_mut().map(|frozen| &mut frozen.table);
        ([Some(&mut self.active), frozen], &self.manifest.runs, &mut self.pages)
    }

    /// Enters a record of which it is unknown what it replaces. What it replaces in RAM is no longer alive: that is found out a
    /// little later, when several entries are looked for together.
    #[inline(always)]
    pub(crate) fn enter(&mut self, entry: Entry, value: Value<'_>, log: &mut ValueLog) {
        self.active.prefetch(&entry.key());
        count(&entry, log, 1);
        self.late.push(entry, value);
        if self.late.len() == LATE_ENTRIES {
            self.account(log);
        }
    }

    /// Enters a record, with a copy of its value if that is given. What it replaces in RAM is no longer alive.
    pub(crate) fn insert(&mut self, entry: Entry, value: Value<'_>, log: &mut ValueLog) -> Inserted {
        self.account(log);
        let inserted = self.active.insert(entry, value);
        if let Inserted::Replaced(old) = &inserted {
            count(old, log, -1);
        }
        match inserted {
            Inserted::Older => log.segments_mut().note_dead(entry.address()),
            _ => count(&entry, log, 1),
        }
        inserted
    }

    /// Brings the memtable up to date.
    #[inline]
    fn catch_up(&mut self) {
        if !self.late.is_empty() {
            self.enter_late();
        }
    }

    #[inline(never)]
    fn enter_late(&mut self) {
        let Self { late, active, replaced, .. } = self;
        for (entry, value) in late.iter() {
            // A late entry is newer than any in the table.
            if let Inserted::Replaced(old) = active.insert(entry, value) {
                replaced.push(old);
            }
        }
        late.clear();
    }

    /// The same, and takes off what was replaced.
    pub(crate) fn account(&mut self, log: &mut ValueLog) {
        self.catch_up();
        self.replaced.drain(..).for_each(|old| count(&old, log, -1));
    }

    /// Enters a record whose key's newest entry was `old`.
    pub(crate) fn insert_over(
        &mut self,
        entry: Entry,
        value: Value<'_>,
        old: Option<&Entry>,
        log: &mut ValueLog,
    ) {
        if self.insert(entry, value, log) == Inserted::New {
            let number = self.active.len() - 1;
            settle::settle_over(&mut self.active, number, old, Part::Active, &self.manifest, log);
        }
    }

    /// Prefetches the lines that a lookup of `key` reads first. The hash of the key.
    #[inline]
    pub(crate) fn prefetch(&self, key: &Key) -> u64 {
        let hash = self.hash(key);
        self.active.prefetch_hash(hash);
        if self.hints.are_there() {
            self.hints.prefetch(hash);
        }
        hash
    }

    /// Prefetches the line that an insertion of `key` reads first.
    #[inline]
    pub(crate) fn prefetch_to_insert(&self, key: &Key) {
        self.active.prefetch(key);
    }

    /// Prefetches what insertions of these entries read and change: the lines of all keys, then the entries of those that are there.
    pub(crate) fn prefetch_to_insert_each(&self, entries: &[Entry]) {
        entries.iter().for_each(|entry| self.active.prefetch(&entry.key()));
        for entry in entries {
            let _ = self.active.record_of(self.hash(&entry.key()));
        }
    }

    /// Prefetches the memtables' lines for a lookup of `key`.
    #[inline]
    pub(crate) fn prefetch_in_ram(&self, key: &Key) {
        self.active.prefetch(key);
        self.frozen.iter().for_each(|frozen| frozen.table.prefetch(key));
    }

    /// Prefetches the line of the address hint of `key`.
    #[inline]
    pub(crate) fn prefetch_hint(&self, key: &Key) {
        if self.hints.are_there() {
            self.hints.prefetch(self.hash(key));
        }
    }

    /// Where a get looks first.
    #[inline]
    pub(crate) fn tables(&self) -> Tables {
        Tables { seed: self.budget.hash_seed, slots: self.active.place(), hints: self.hints.place() }
    }

    /// The number of the entry of a key of this hash, if the active memtable has one, and about where its record is, as
    /// [`Memtable::record_of`] has it.
    #[inline]
    pub(crate) fn record_of(&self, hash: u64) -> Option<(usize, Option<u64>)> {
        self.active.record_of(hash)
    }

    /// Entry `number` of the active memtable.
    #[inline]
    pub(crate) fn active_entry(&self, number: usize) -> Option<&Entry> {
        self.active.entry(number)
    }

    /// Whether a record may come only after [`Index::make_room`], where there are so many more to come.
    #[inline]
    pub(crate) fn is_full_with(&self, more: usize) -> bool {
        self.active.is_full_with(self.late.len() + more)
    }

    /// Whether there are jobs for [`Index::tend`].
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        let emptying = self.spare.as_ref().is_some_and(|table| !table.is_emptied());
        self.frozen.is_some() || self.merge.is_some() || self.ripe || !self.to_release.is_empty() || emptying
    }

    #[inline(never)]
    fn get_older<S: PageStore>(
        &mut self,
        key: &Key,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        if let Some(entry) = self.frozen.as_ref().and_then(|frozen| frozen.table.get(key)) {
            return Ok(Some(*entry));
        }
        self.get_in_runs(key, store, at_ps)
    }

    /// The newest entry that runs have of a key.
    fn get_in_runs<S: PageStore>(
        &mut self,
        key: &Key,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let runs = &self.manifest.runs;
        for (i, run) in runs.iter().enumerate().filter(|(_, run)| run.covers(key)) {
            let is_oldest = i + 1 == runs.len();
            if let Some(entry) = run.get(key, is_oldest, &mut self.pages, store, at_ps)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Counts a record of the active memtable as alive, or no longer.
#[inline]
fn count(entry: &Entry, log: &mut ValueLog, by: i64) {
    if entry.shape().kind() == Kind::Value {
        log.segments_mut().account(entry.address(), entry.shape().record_bytes(), by);
        log.segments_mut().count_keys(Part::Active, by);
    }
}
