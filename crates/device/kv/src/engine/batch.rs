//! Batches: stores and deletions of many keys that take effect atomically.
//!
//! A batch is admitted, appended and committed, then all of it is entered in the memtable, and only then is any background work done.
//! So no flush and no checkpoint lies between two records of a batch.

use crate::engine::KvEngine;
use crate::engine::scan::Selection;
use crate::engine::space::{Over, charge};
use crate::error::KvError;
use crate::features::Features;
use crate::index::entry::Entry;
use crate::index::short_values::Value;
use crate::store::PageStore;
use crate::value_log::batch::{BatchRecord, batch_log_bytes};
use crate::value_log::packing::Placement;
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES, Shape};
use crate::value_log::{Draft, SHARED};
use byway_flash::SyncPoint;
use byway_spec::Key;
use byway_spec::vendor::KeyRange;

/// A batch has at most one in so many of a memtable's entries.
const MEMTABLE_DIVISOR: usize = 2;
/// Entries whose older versions are looked for per step, where the namespace is nearly full.
const SETTLED_AT_ONCE: usize = 64;

/// Most keys that one deletion of a range deletes.
const DELETE_RANGE_MAX_KEYS: usize = 1024;

/// Records whose places in the memtable are prefetched ahead of the one that is entered.
const AHEAD: usize = 32;

/// One change of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The key.
    pub key: Key,
    /// The value to store; `None` to delete the key, whether it is there or not.
    pub value: Option<&'a [u8]>,
}

/// Result of [`KvEngine::delete_range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedRange {
    /// Keys that were deleted.
    pub deleted_keys: usize,
    /// Whether more keys of the range may be there.
    pub has_more: bool,
}

impl Change<'_> {
    fn shape(&self) -> Shape {
        match self.value {
            Some(value) => Shape::new(Kind::Value, self.key.len(), value.len() as u32),
            None => Shape::new(Kind::Tombstone, self.key.len(), 0),
        }
    }
}

/// A change, and the version that it replaces, if that was looked up.
struct Staged<'a> {
    change: Change<'a>,
    over: Over,
}

impl<'a> Staged<'a> {
    fn record(&self, seq: u64) -> BatchRecord<'a> {
        let (Change { key, value }, shape) = (self.change, self.change.shape());
        let (kind, value_len) = (shape.kind(), shape.value_len());
        let draft = Draft { key, kind, seq, value_len, placement: Placement::Packed };
        BatchRecord { draft, value: value.unwrap_or_default(), address: 0 }
    }

    /// Whether it needs a record: the deletion of an absent key does not. For deletions that were looked up.
    fn has_effect(&self) -> bool {
        self.change.value.is_some() || matches!(self.over, Over::Known(Some(_)))
    }

    /// What the version that it replaces takes of the capacity.
    fn freed_bytes(&self) -> u64 {
        match self.over {
            Over::Known(Some(old)) => charge(old.shape().record_bytes()),
            Over::Known(None) | Over::Unknown => 0,
        }
    }
}

impl KvEngine {
    /// Largest sum of [`record_header_bytes`](crate::record_header_bytes) and value bytes over the changes of a batch.
    #[must_use]
    pub fn batch_max_bytes(&self) -> u64 {
        self.log.batch_max_bytes()
    }

    /// Most changes of a batch.
    #[must_use]
    pub fn batch_max_changes(&self) -> usize {
        self.index.most_entries() / MEMTABLE_DIVISOR
    }

    /// Stores and deletes all of these keys, or none: through a kill at any instruction, and through a loss of power. Of several
    /// changes of a key the last counts.
    ///
    /// # Errors
    /// [`KvError::BatchTooLong`], [`KvError::ValueTooLong`], [`KvError::Full`], errors of the index and the flash, of which one says that
    /// the namespace is read-only. On an error no key has changed.
    pub fn store_many<S: PageStore>(
        &mut self,
        store: &mut S,
        changes: &[Change<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.take_in(store);
        self.counted(|engine| engine.store_batch(store, changes, at_ps))
    }

    /// Deletes the first keys of `range` atomically: at most `max_keys`, and as many as fit one batch. It passes tombstones without a
    /// bound until it finds a key or the range ends, as its caller has no place for a resume key. `selection` is scratch memory.
    ///
    /// # Errors
    /// As [`store_many`](Self::store_many), errors of the index.
    pub fn delete_range<S: PageStore>(
        &mut self,
        store: &mut S,
        range: &KeyRange,
        max_keys: usize,
        selection: &mut Selection,
        at_ps: &mut u64,
    ) -> Result<DeletedRange, KvError> {
        self.take_in(store);
        let record_bytes = PREAMBLE_MAX_BYTES as u64;
        let in_batch = self.batch_max_changes().min((self.batch_max_bytes() / record_bytes) as usize);
        let most = max_keys.min(in_batch).clamp(1, DELETE_RANGE_MAX_KEYS);
        let mut range = *range;
        loop {
            let mut left = most;
            let wants = |_: &Key, _| {
                left = left.checked_sub(1)?;
                Some(0)
            };
            self.select(store, &range, most, selection, wants, at_ps)?;
            match selection.resume() {
                Some(passed) if selection.is_empty() => range = range.behind(passed),
                _ => break,
            }
        }
        let changes: Vec<_> = selection.keys().map(|key| Change { key, value: None }).collect();
        self.store_many(store, &changes, at_ps)?;
        Ok(DeletedRange { deleted_keys: changes.len(), has_more: !selection.is_end() })
    }

    fn store_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        changes: &[Change<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.check_batch(store, changes)?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = last_of_each_key(changes);
        let bytes = batch_log_bytes(changes.len(), record_bytes(changes));
        let only_deletes = changes.iter().all(|change| change.value.is_none());
        self.make_room_in_open(store, self.reach_of_batch(batch.len(), bytes, only_deletes), at_ps)?;
        self.fit_batch(store, &mut batch, at_ps)?;
        batch.retain(Staged::has_effect);
        if batch.is_empty() {
            return Ok(());
        }
        self.commit_batch(store, &batch, at_ps)
    }

    fn check_batch<S: PageStore>(&self, store: &S, changes: &[Change<'_>]) -> Result<(), KvError> {
        self.check_writable(store)?;
        for change in changes {
            self.check_store(store, change.value.map_or(0, |value| value.len() as u64))?;
        }
        let bytes = record_bytes(changes);
        let (limit_bytes, limit_changes) = (self.batch_max_bytes(), self.batch_max_changes());
        if bytes > limit_bytes || changes.len() > limit_changes {
            let changes = changes.len();
            return Err(KvError::BatchTooLong { bytes, limit_bytes, changes, limit_changes });
        }
        Ok(())
    }

    /// Checks the capacity. Looks up the older versions of keys that are deleted, and of all keys where the namespace is nearly full.
    fn fit_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        batch: &mut [Staged<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let charge_of = |staged: &Staged<'_>| charge(staged.change.shape().record_bytes());
        let values = batch.iter().filter(|staged| staged.change.value.is_some());
        let charged: u64 = values.map(charge_of).sum();
        if charged == 0 || self.used_bytes() + charged <= self.nearly_full_bytes() {
            return self.look_up_old(store, batch, |staged| staged.change.value.is_none(), at_ps);
        }
        loop {
            self.look_up_old(store, batch, |_| true, at_ps)?;
            let freed: u64 = batch.iter().map(Staged::freed_bytes).sum();
            if self.used_bytes() + charged <= self.capacity_bytes + freed {
                return Ok(());
            }
            if self.index.settle_some(SETTLED_AT_ONCE, &mut self.log, store, at_ps) {
                continue;
            }
            if !self.index.settle_frozen(&mut self.log, store, at_ps)? {
                return Err(KvError::Full);
            }
            // That took segments: they are made free again, which may move the versions just looked up.
            let bytes = batch_log_bytes(batch.len(), record_bytes(batch.iter().map(|staged| &staged.change)));
            self.make_room_in_open(store, self.reach_of_batch(batch.len(), bytes, false), at_ps)?;
        }
    }

    /// Looks up the live versions that these changes replace.
    fn look_up_old<S: PageStore>(
        &mut self,
        store: &mut S,
        batch: &mut [Staged<'_>],
        is_wanted: impl Fn(&Staged<'_>) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        for staged in batch.iter_mut().filter(|staged| is_wanted(staged)) {
            staged.over = Over::Known(self.live_entry(store, &staged.change.key, at_ps)?);
        }
        Ok(())
    }

    fn commit_batch<S: PageStore>(
        &mut self,
        store: &mut S,
        batch: &[Staged<'_>],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.announce_batches(store)?;
        let first = self.next_seq.get();
        let mut records: Vec<_> = (first..).zip(batch).map(|(seq, staged)| staged.record(seq)).collect();
        records.iter().take(AHEAD).for_each(|record| self.index.prefetch_to_insert(&record.draft.key));
        let before = self.log.stream(SHARED).tail();
        self.log.append_batch(store, &mut records, at_ps)?;
        // A replay also reads what was left empty at a segment's end.
        let appended: u64 = records.iter().map(|record| record.draft.record_bytes()).sum();
        self.unsaved.add(self.log.stream(SHARED).wp() - before - appended);
        for (nth, (record, staged)) in records.iter().zip(batch).enumerate() {
            if let Some(ahead) = records.get(nth + AHEAD) {
                self.index.prefetch_to_insert(&ahead.draft.key);
            }
            self.enter_one(store, record, staged);
        }
        for record in &records {
            if !self.has_work() {
                break;
            }
            self.tend(store, record.draft.record_bytes(), at_ps);
        }
        Ok(())
    }

    fn enter_one<S: PageStore>(&mut self, store: &mut S, record: &BatchRecord<'_>, staged: &Staged<'_>) {
        let BatchRecord { draft, address, .. } = record;
        let shape = Shape::new(draft.kind, draft.key.len(), draft.value_len);
        if draft.kind == Kind::Value {
            store.count_payload(draft.key.len() as u64 + u64::from(draft.value_len));
        }
        self.next_seq.pass(draft.seq);
        self.unsaved.add_with_gaps(charge(shape.record_bytes()), self.log.counters().wasted_bytes);
        let entry = Entry::new(&draft.key, shape, *address, draft.seq);
        let value = staged.change.value.map_or(Value::Unknown, Value::short);
        let value = value.if_copied(store.reads_in_any_order());
        match staged.over {
            Over::Unknown => drop(self.index.insert(entry, value, &mut self.log)),
            Over::Known(old) => self.index.insert_over(entry, value, old.as_ref(), &mut self.log),
        }
    }

    /// Sets the feature bit of batches, on the medium before the first batch: an older release would cut inside a batch after a loss
    /// of power.
    fn announce_batches<S: PageStore>(&self, store: &mut S) -> Result<(), KvError> {
        let home = self.log.home();
        let features = Features::of(store.state(home));
        if !features.has_unflushed_batches() {
            features.with_unflushed_batches(true).store(store, home);
            store.order(SyncPoint::FeatureBit)?;
        }
        Ok(())
    }

    /// Clears it, once no batch is to be replayed.
    pub(crate) fn retract_batches<S: PageStore>(&self, store: &mut S) {
        let home = self.log.home();
        Features::of(store.state(home)).with_unflushed_batches(false).store(store, home);
    }
}

/// Bytes of the records of a batch.
fn record_bytes<'a>(changes: impl IntoIterator<Item = &'a Change<'a>>) -> u64 {
    changes.into_iter().map(|change| change.shape().record_bytes()).sum()
}

/// The last change of each key, in the order of keys: neighbours in the log are neighbours in scans.
fn last_of_each_key<'a>(changes: &[Change<'a>]) -> Vec<Staged<'a>> {
    let mut staged: Vec<_> =
        changes.iter().map(|change| Staged { change: *change, over: Over::Unknown }).collect();
    staged.reverse();
    staged.sort_by_key(|staged| staged.change.key);
    staged.dedup_by_key(|staged| staged.change.key);
    staged
}
