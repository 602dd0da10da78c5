//! The engine: its state, puts, deletes, and their guarantees.
//!
//! A put appends its record to the value log, which commits it by one store, and then enters it in the index in RAM.
//! The index can be made anew from the log and the manifest, so nothing after the commit can lose a put.

mod admission;
pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod compaction;
pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod lease;
mod list;
mod next_seq;
mod power_loss;
pub(crate) mod rebuild;
pub(crate) mod recovery;
mod salvage;
pub(crate) mod scan;
mod space;
mod stall;
pub(crate) mod stats;
pub(crate) mod try_get;
mod unsaved;
mod upkeep;
pub(crate) mod window;
mod work;

use std::ops::Range;
use std::sync::Arc;

use byway_flash::{FlashError, NamespaceRecord, SyncPoint};

use crate::engine::compaction::Compaction;
use crate::engine::follow::FollowCounters;
use crate::engine::lease::Leases;
use crate::engine::next_seq::NextSeq;
use crate::engine::recovery::{Recovery, Replay};
use crate::engine::space::{Over, charge};
use crate::engine::unsaved::Unsaved;
use crate::engine::window::Window;
use crate::engine::work::Longest;
use crate::error::KvError;
use crate::index::Index;
use crate::index::entry::Entry;
use crate::index::manifest::Manifest;
use crate::index::short_values::{Captured, Value};
use crate::layout::{HEADER_BYTES, KvFormat, LOSSES_AT, Layout};
use crate::lookup_hints::LookupHints;
use crate::options::KvOptions;
use crate::reserve::Reserve;
use crate::sealed;
use crate::store::PageStore;
use crate::value_log::packing::{Packing, Placement};
use crate::value_log::record::{Kind, Shape, pieces_of};
use crate::value_log::{Draft, SHARED, ValueLog};
use byway_spec::Key;

/// What a store asks for (NVMe KV Store, store options), and how its value comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreHow {
    /// Only where the key is already there.
    pub must_exist: bool,
    /// Only where the key is not there yet.
    pub must_not_exist: bool,
    /// How the value arrives.
    pub placement: Placement,
}

/// One key-value namespace.
///
/// It owns no flash: every call is given the store it lives in, always the same one, and a cursor of modelled time in
/// picoseconds, which is moved on by what the caller has to wait for.
pub struct KvEngine {
    log: ValueLog,
    index: Index,
    compaction: Compaction,
    capacity_bytes: u64,
    /// Bytes of the namespace.
    size_bytes: u64,
    reserve: Reserve,
    value_max_bytes: u32,
    windows: Vec<Option<Window>>,
    leases: Leases,
    next_seq: Arc<NextSeq>,
    unsaved: Unsaved,
    options: KvOptions,
    read_only: bool,
    replay: Replay,
    follow: FollowCounters,
    /// Following another process ended in the midst of what it committed: everything is to be read anew.
    is_half_way: bool,
    lookup_hints: LookupHints,
    longest: Longest,
    /// Bytes of the memtable's records when a step of upkeep failed: the next is tried once that has changed.
    upkeep_failed_at_bytes: Option<u64>,
    /// A step of upkeep was done since a lease was last renewed.
    upkeep_ran: bool,
}

impl KvEngine {
    /// Makes an empty engine in a namespace. One that is there already is forgotten. In an image that was opened read-only it is
    /// made in private memory: a kill within a format leaves a namespace without an engine, which is empty to a reader too.
    ///
    /// # Errors
    /// [`KvError::TooSmall`]; a flash that cannot give the protected areas.
    pub fn create<S: PageStore>(
        store: &mut S,
        namespace: &NamespaceRecord,
        format: &KvFormat,
        options: KvOptions,
    ) -> Result<Self, KvError> {
        let layout = Layout::plan(store.page_bytes(), store.extent_bytes(namespace), format)?;
        let home = store.settle_in(namespace, layout.state_bytes(), layout.windows_bytes())?;
        let state = store.state(&home);
        if state.len() < layout.state_bytes() {
            return Err(KvError::DamagedState("the state area is of another format"));
        }
        // Whatever was here before ends with its header.
        state[..HEADER_BYTES].fill(0);
        store.order(SyncPoint::EngineEnd)?;
        store.state(&home).fill(0);
        if !store.is_read_only() {
            store.trim_pages(&home, 0, layout.segments as u64 * layout.pages_per_segment())?;
        }
        ValueLog::create(store, &home, &layout);
        let log = ValueLog::open(store, &home, &layout, options.packing)?;
        let replay_from = log.replay_positions();
        let manifest = Manifest {
            generation: 0,
            next_run: 1,
            seq: 0,
            runs: Vec::new(),
            replay_from,
            is_overcounted: false,
            lost_log_bytes: 0,
        };
        manifest.commit(store, &log)?;
        store.commit_u64(&home, LOSSES_AT, sealed::seal(store.power_losses(), LOSSES_AT));
        // The header comes last: without it there is no engine here, and creation can begin anew. What it stands on was synced
        // for the manifest, but for words that are 0 if they are not there, which is what they should say.
        layout.write_header(store.state(&home));
        Ok(Self::open(store, namespace, options)?.0)
    }

    /// Opens the engine of a namespace, as its last commit left it.
    ///
    /// # Errors
    /// [`KvError::DamagedState`], [`KvError::OtherVersion`], [`KvError::UnknownFeatures`] when the state cannot be
    /// worked with. Damaged records are listed in [`Recovery::damage`].
    pub fn open<S: PageStore>(
        store: &mut S,
        namespace: &NamespaceRecord,
        options: KvOptions,
    ) -> Result<(Self, Recovery), KvError> {
        crate::engine::recovery::open(store, namespace, options)
    }

    /// Keeps `lookup_hints` up to date from now on with where gets look first.
    pub fn publish_hints(&mut self, lookup_hints: LookupHints) {
        lookup_hints.publish(self.index.tables());
        self.lookup_hints = lookup_hints;
    }

    /// Stores a value. When this returns, the value survives the process at any instruction.
    ///
    /// # Errors
    /// [`KvError::ValueTooLong`], [`KvError::Exists`], [`KvError::NotFound`], [`KvError::Full`], errors of the
    /// flash. After an error the key is as it was.
    #[inline(always)]
    pub fn put<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        value: &[u8],
        how: StoreHow,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.put_with(store, key, value.len() as u64, how, pieces_of(value), at_ps)
    }

    /// Stores a value that `fill` writes into its final place, piece by piece in order: one copy from wherever it is.
    /// It is given the time at which a piece is wanted, and moves that on to when the piece is there.
    ///
    /// # Errors
    /// As [`put`](Self::put), and what `fill` returns. After an error the key is as it was.
    #[inline(always)]
    pub fn put_with<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        key: &Key,
        value_len: u64,
        how: StoreHow,
        fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        self.counted(|engine| engine.put_one(store, key, value_len, how, fill, at_ps))
    }

    #[inline]
    pub(crate) fn put_one<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        key: &Key,
        value_len: u64,
        how: StoreHow,
        mut fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let over = self.admit(store, key, value_len, how, at_ps)?;
        let draft = self.draft(key, Kind::Value, value_len as u32, how.placement);
        let mut captured = Captured::of(value_len);
        let fill = |piece: &mut [u8], at_ps: &mut u64| {
            fill(piece, at_ps)?;
            captured.extend(piece);
            Ok::<(), E>(())
        };
        let address = self.log.append(store, SHARED, &draft, fill, at_ps)?;
        self.enter(store, &draft, address, over, captured.value(), at_ps);
        Ok(())
    }

    /// Deletes a key; whether it was there.
    ///
    /// # Errors
    /// [`KvError::Full`] when not even a deletion has room, errors of the index and the flash.
    pub fn delete<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        self.counted(|engine| {
            engine.check_writable(store)?;
            if engine.live_entry(store, key, at_ps)?.is_none() {
                return Ok(false);
            }
            engine.make_room_for_deletion(store, at_ps)?;
            // Making room may have moved it.
            let Some(old) = engine.live_entry(store, key, at_ps)? else { return Ok(false) };
            let draft = engine.draft(key, Kind::Tombstone, 0, Placement::Packed);
            let address = engine.log.append(store, SHARED, &draft, |_, _| Ok::<(), KvError>(()), at_ps)?;
            engine.enter(store, &draft, address, Over::Known(Some(old)), Value::Unknown, at_ps);
            Ok(true)
        })
    }

    /// Writes everything that is in RAM only to flash, so that the next opening replays nothing. Durability does not
    /// need it: a clean shutdown does, to open fast.
    ///
    /// # Errors
    /// [`KvError::Full`], errors of the flash.
    pub fn flush<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        self.check_writable(store)?;
        self.checkpoint(store, at_ps)?;
        // No batch is replayed from here on.
        self.retract_batches(store);
        self.index.finish_jobs(&mut self.log, store, at_ps)
    }

    /// Finds everything that was overwritten or deleted, frees the segments that hold nothing else, and merges the index
    /// into one run. The engine does as much of this as it needs by itself.
    ///
    /// # Errors
    /// [`KvError::Full`] when there is not even room to write the index anew, errors of the flash.
    pub fn reclaim<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        self.check_writable(store)?;
        self.checkpoint(store, at_ps)?;
        self.index.merge_all(&mut self.log, store, at_ps)
    }

    /// Forgets every key, at once: a crash leaves all of them or none. Windows are closed.
    ///
    /// # Errors
    /// Errors of the flash.
    pub fn format<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> Result<(), KvError> {
        self.check_writable(store)?;
        self.end_leases(store);
        self.drop_compaction(store);
        let segment_bytes = self.log.layout().segment_bytes();
        for stream in 0..self.log.stream_count() {
            self.log.skip_to_multiple(store, stream, segment_bytes, at_ps)?;
        }
        self.windows.fill_with(|| None);
        self.index.clear(&mut self.log, store, self.next_seq.last())?;
        self.compaction.forget();
        self.note_checkpoint();
        // The manifest before does not need it: what was in it was programmed, and that synced for the manifest that counts now.
        self.log.empty_ring(store, SHARED);
        self.index.finish_jobs(&mut self.log, store, at_ps)
    }

    /// What the namespace's state area holds, by name: ranges of its bytes, in their order.
    #[must_use]
    pub fn state_parts(&self) -> Vec<(&'static str, Range<usize>)> {
        self.log.layout().parts()
    }

    /// Takes no more stores: the flash below can only be read from now on.
    pub fn freeze(&mut self) {
        self.read_only = true;
    }

    /// Changes the packing policy for what is stored from now on.
    pub fn set_packing(&mut self, packing: Packing) {
        self.log.set_packing(packing);
    }

    #[inline]
    pub(crate) fn draft(&self, key: &Key, kind: Kind, value_len: u32, placement: Placement) -> Draft {
        // Threads that store by leases take numbers meanwhile.
        let seq = if self.leases.are_active() { self.next_seq.take() } else { self.next_seq.get() };
        Draft { key: *key, kind, seq, value_len, placement }
    }

    /// Enters a committed record in the index, over what is known of its older version.
    #[inline(always)]
    pub(crate) fn enter<S: PageStore>(
        &mut self,
        store: &mut S,
        draft: &Draft,
        address: u64,
        over: Over,
        value: Value<'_>,
        at_ps: &mut u64,
    ) {
        let shape = Shape::new(draft.kind, draft.key.len(), draft.value_len);
        if draft.kind == Kind::Value {
            store.count_payload(draft.key.len() as u64 + u64::from(draft.value_len));
        }
        let bytes = shape.record_bytes();
        self.next_seq.pass(draft.seq);
        self.unsaved.add_with_gaps(charge(bytes), self.log.counters().wasted_bytes);
        let entry = Entry::new(&draft.key, shape, address, draft.seq);
        let value = value.if_copied(store.reads_in_any_order());
        match over {
            Over::Unknown => self.index.enter(entry, value, &mut self.log),
            Over::Known(old) => self.index.insert_over(entry, value, old.as_ref(), &mut self.log),
        }
        if self.has_work() {
            self.tend(store, bytes, at_ps);
        }
    }

    #[inline]
    pub(crate) fn check_writable<S: PageStore>(&self, store: &S) -> Result<(), KvError> {
        // What the store says is clearer than that it said so when the engine was opened.
        store.check_takes_writes()?;
        if self.read_only { Err(FlashError::ReadOnly.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
impl KvEngine {
    /// Log and index, for tests of these.
    pub(crate) fn parts(&mut self) -> (&mut ValueLog, &mut Index) {
        (&mut self.log, &mut self.index)
    }

    /// The log alone.
    pub(crate) fn into_log(self) -> ValueLog {
        self.log
    }
}
