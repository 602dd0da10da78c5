//! Deferred lookup of the older version that a new entry replaces, so that a put reads no flash.
//!
//! A put enters its key in RAM without a lookup of an older version. Until that lookup, the old record counts as live and
//! the key counts twice. An entry is *settled* once its older version was looked up and subtracted from the counts: by a put
//! that needs a lookup anyway, by a put that needs the exact free space, and at the latest by the flush of the memtable,
//! which looks keys up in order and therefore cheaply.

use crate::error::KvError;
use crate::index::Index;
use crate::index::cache::PageCache;
use crate::index::entry::Entry;
use crate::index::manifest::Manifest;
use crate::index::memtable::Memtable;
use crate::list::Visit;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::live::Part;
use crate::value_log::record::Kind;
use byway_spec::Key;

/// Everything older than one memtable.
pub(crate) struct Older<'a> {
    pub(crate) frozen: Option<&'a Memtable>,
    pub(crate) manifest: &'a Manifest,
    pub(crate) pages: &'a mut PageCache,
    /// Where changes of the counts are kept.
    pub(crate) part: Part,
}

impl Older<'_> {
    /// Settles entry `number` of the table.
    ///
    /// # Errors
    /// Where the index cannot be read. The old version goes on to count as alive.
    pub(crate) fn settle<S: PageStore>(
        &mut self,
        table: &mut Memtable,
        number: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if table.is_settled(number) {
            return Ok(());
        }
        let Some(key) = table.entry(number).map(Entry::key) else { return Ok(()) };
        log.count_entries(1);
        let old = self.find(&key, store, at_ps)?;
        settle_over(table, number, old.as_ref(), self.part, self.manifest, log);
        Ok(())
    }

    /// Settles entries of the table whose keys are in order, in one way over the runs: the first of them, and as many as
    /// reading about so many pages goes for. How many.
    ///
    /// # Errors
    /// Where the index cannot be read. Some are settled then, others not.
    pub(crate) fn settle_each<S: PageStore>(
        &mut self,
        table: &mut Memtable,
        all: &[u32],
        most_pages: u32,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        debug_assert!(self.frozen.is_none(), "only runs are gone through");
        let unsettled = all.iter().map(|number| *number as usize).filter(|n| !table.is_settled(*n));
        let (mut numbers, mut keys): (Vec<usize>, Vec<Key>) =
            unsettled.filter_map(|n| Some((n, table.entry(n)?.key()))).unzip();
        log.count_entries(keys.len() as u32);
        let mut found = Vec::with_capacity(keys.len());
        let most_pages = most_pages / self.manifest.runs.len().max(1) as u32;
        // The first key that some run was not asked for.
        let mut end = None;
        for run in &self.manifest.runs {
            let from = keys.partition_point(|key| *key < run.first);
            let to = keys.partition_point(|key| *key <= run.last && end.is_none_or(|end| *key < end));
            let wanted = &keys[from..to.max(from)];
            found.clear();
            let done = run.get_each(wanted, most_pages, &mut found, self.pages, store, at_ps)?;
            end = wanted.get(done).copied().or(end);
            found.iter().for_each(|(_, old)| log.segments().prefetch_note(old.address()));
            for (at, old) in &found {
                settle_over(table, numbers[from + at], Some(old), self.part, self.manifest, log);
            }
            if !found.is_empty() {
                numbers.retain(|number| !table.is_settled(*number));
                keys.clear();
                keys.extend(numbers.iter().filter_map(|n| Some(table.entry(*n)?.key())));
            }
        }
        let settled = end.map_or(keys.len(), |end| keys.partition_point(|key| *key < end));
        numbers[..settled].iter().for_each(|number| table.settle(*number));
        Ok(all.iter().take_while(|number| table.is_settled(**number as usize)).count())
    }

    fn find<S: PageStore>(
        &mut self,
        key: &Key,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        if let Some(entry) = self.frozen.and_then(|table| table.get(key)) {
            return Ok(Some(*entry));
        }
        let runs = &self.manifest.runs;
        for (i, run) in runs.iter().enumerate().filter(|(_, run)| run.covers(key)) {
            let is_oldest = i + 1 == runs.len();
            if let Some(entry) = run.get(key, is_oldest, self.pages, store, at_ps)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Settles entry `number` of a table, whose older version is `old`.
pub(crate) fn settle_over(
    table: &mut Memtable,
    number: usize,
    old: Option<&Entry>,
    part: Part,
    manifest: &Manifest,
    log: &mut ValueLog,
) {
    table.settle(number);
    let Some(old) = old.filter(|old| old.shape().kind() == Kind::Value) else { return };
    log.segments_mut().count_keys(part, -1);
    // An entry of a run may point to a segment that was freed since, and perhaps used again: its bytes are off already.
    if old.seq() > manifest.seq || log.segments().is_of_checkpoint(old.address(), &manifest.replay_from) {
        log.segments_mut().drop_older(part, old);
    }
}

impl Index {
    /// Settles up to `count` entries of the memtable being filled; whether there were any left.
    pub(crate) fn settle_some<S: PageStore>(
        &mut self,
        count: usize,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> bool {
        self.account(log);
        let from = self.settled_to;
        let mut older = Older {
            frozen: self.frozen.as_ref().map(|frozen| &frozen.table),
            manifest: &self.manifest,
            pages: &mut self.pages,
            part: Part::Active,
        };
        let (mut to, mut left) = (from, count);
        while to < self.active.len() && left > 0 {
            left -= usize::from(!self.active.is_settled(to));
            // One that cannot be settled now will be when the table is written out.
            let _ = older.settle(&mut self.active, to, log, store, at_ps);
            to += 1;
        }
        self.settled_to = to;
        from < to
    }

    /// Entries of which it may not be known what they replace.
    pub(crate) fn unsettled(&self) -> usize {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.table.len());
        self.active.len().saturating_sub(self.settled_to) + frozen
    }

    /// Counts anew what is alive at the checkpoint, where the manifest says that some of it may be dead. There is nothing
    /// in RAM yet. An index that cannot be read now either is counted at another opening.
    pub(crate) fn recount<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S) {
        let (mut live, mut keys) = (vec![0; log.layout().segments], 0);
        let (replay_from, segments) = (self.manifest.replay_from.clone(), log.segments());
        let add = |entry: &Entry, _| {
            let is_value = entry.shape().kind() == Kind::Value;
            keys += u64::from(is_value);
            if is_value && segments.is_of_checkpoint(entry.address(), &replay_from) {
                for (segment, bytes) in segments.pieces(entry.address(), entry.shape().record_bytes()) {
                    live[segment] += bytes;
                }
            }
            true
        };
        if self.visit(store, Visit::from(None), add, &mut 0).is_err() {
            return;
        }
        for (segment, bytes) in live.into_iter().enumerate() {
            log.segments_mut().set_checkpoint_bytes(segment, bytes);
        }
        log.segments_mut().set_checkpoint_keys(keys);
        self.manifest.is_overcounted = false;
    }

    /// Settles every entry of the memtable being filled.
    pub(crate) fn settle_all<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, at_ps: &mut u64) {
        while self.settle_some(usize::MAX, log, store, at_ps) {}
    }

    /// Whether the newest entry of a key that runs have is its newest of all. Else what replaced it is settled over it.
    pub(crate) fn is_newest(&mut self, entry: &Entry, log: &mut ValueLog) -> bool {
        self.account(log);
        let key = entry.key();
        let frozen = self.frozen.as_mut().map(|frozen| &mut frozen.table);
        for (table, part) in [(frozen, Part::Frozen), (Some(&mut self.active), Part::Active)] {
            let Some(table) = table else { continue };
            let Some(number) = table.number_of(&key) else { continue };
            if !table.is_settled(number) {
                settle_over(table, number, Some(entry), part, &self.manifest, log);
            }
            return false;
        }
        true
    }

    /// Settles a key wherever it is in RAM, so that the room of its older versions is known now.
    pub(crate) fn settle_key<S: PageStore>(
        &mut self,
        key: &Key,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) {
        self.account(log);
        let manifest = &self.manifest;
        if let Some(frozen) = &mut self.frozen
            && let Some(number) = frozen.table.number_of(key)
        {
            let mut older = Older { frozen: None, manifest, pages: &mut self.pages, part: Part::Frozen };
            let _ = older.settle(&mut frozen.table, number, log, store, at_ps);
        }
        if let Some(number) = self.active.number_of(key) {
            let frozen = self.frozen.as_ref().map(|frozen| &frozen.table);
            let mut older = Older { frozen, manifest, pages: &mut self.pages, part: Part::Active };
            let _ = older.settle(&mut self.active, number, log, store, at_ps);
        }
    }
}
