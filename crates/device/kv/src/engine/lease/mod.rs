//! Stores by several threads at the same time, each by a lease of its own (decision 0061).
//!
//! A lease is a stretch of the stream of a window that no host stores into. Its thread appends to it without the engine, whatever other
//! threads do meanwhile. The index learns of these records later: the engine [takes them in](KvEngine::take_in). Until then
//! [`KvEngine::try_get`] learns by a filter that the lease may have the key, and looks there too.
//!
//! What a lease may take is set aside when it is given: entries of the memtable, bytes of the capacity, pages of the log. A thread whose
//! lease has no room stores by exclusive reference, which [renews](KvEngine::put_leased) the lease.
//!
//! Leases are active while the index takes in records, programs pages, flushes and merges, and while compaction moves records (decision
//! 0077). They are recalled before anything that needs all records or their order: reads under the run lock, conditions, deletions, a freeze of the
//! memtable, new numbers for moved records, a change of who may store.

mod filter;
mod slot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use byway_spec::Key;

use crate::engine::space::charge;
use crate::engine::window::WindowId;
use crate::engine::{KvEngine, StoreHow};
use crate::error::KvError;
use crate::features::Features;
use crate::index::entry::Entry;
use crate::index::new_entries::NewEntries;
use crate::index::short_values::Value;
use crate::layout::FIRST_WINDOW;
use crate::store::PageStore;
use crate::value_log::lease::Lease;
use crate::value_log::packing::Placement;
use crate::value_log::record::Kind;
use slot::Slot;

pub use slot::LeaseHandle;

/// Records that a lease takes at most.
const RECORDS_MOST: usize = 256;
/// The same while stores have work to share and no other thread does upkeep: the thread that takes them in pays the share of all.
const RECORDS_BESIDE_WORK: usize = 32;
/// A lease that is recalled before it took as many records costs more than it saves.
const RECORDS_FEW: usize = 4;
/// Stores by exclusive reference until such a lease is renewed.
const RENEW_AFTER_STORES: u32 = 64;
/// Leases together take at most this share of the capacity, and none are given where less than that is left.
const CAPACITY_SHARE: u64 = 64;
/// A lease takes at most this share of a memtable's entries.
const MEMTABLE_SHARE: usize = 8;
/// A lease takes one record for so many bytes of its log: shorter records use up their number before the log.
const BYTES_PER_RECORD: u64 = 64;
/// Records whose index lines are prefetched together before they are entered.
const GROUP: usize = 16;

/// A lease of a namespace. It names no other one, in this engine or a later one, after it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId {
    window: u16,
    /// Its number among the leases of this process.
    number: u64,
}

/// Leases given in this process so far.
static GIVEN: AtomicU64 = AtomicU64::new(0);

impl LeaseId {
    /// The next lease, of the stream of window `window`.
    fn next(window: usize) -> Self {
        Self { window: window as u16, number: GIVEN.fetch_add(1, Relaxed) }
    }

    fn window(self) -> usize {
        usize::from(self.window)
    }
}

/// The leases of a namespace, by window.
pub(crate) struct Leases {
    slots: Vec<Arc<Slot>>,
    /// Windows whose slots hold a lease.
    held: Vec<usize>,
    /// By window: stores until its lease is renewed again.
    stores_until_renewal: Vec<u32>,
    /// No lease was renewed since all were recalled: none has a record that waits, or room for one.
    is_quiet: bool,
    /// Entries of the memtable set aside: for records that leases may still add, and for those that wait.
    records_out: usize,
    /// Bytes of the capacity set aside for active leases.
    charged_out: u64,
    /// Room for records that are taken in.
    taken: NewEntries,
}

impl Leases {
    pub(crate) fn new(windows: usize) -> Self {
        Self {
            slots: (0..windows).map(|_| Arc::new(Slot::new())).collect(),
            held: Vec::new(),
            stores_until_renewal: vec![0; windows],
            is_quiet: true,
            records_out: 0,
            charged_out: 0,
            taken: NewEntries::new(),
        }
    }

    /// Entries of the memtable set aside for leases.
    #[inline]
    pub(crate) fn records_out(&self) -> usize {
        self.records_out
    }

    /// Bytes of the capacity set aside for leases.
    #[inline]
    pub(crate) fn charged_out(&self) -> u64 {
        self.charged_out
    }

    /// Whether threads may store by leases now.
    #[inline]
    pub(crate) fn are_active(&self) -> bool {
        !self.is_quiet
    }

    /// The newest record of a key that waits to be taken in. The index may have a newer one.
    #[inline]
    pub(crate) fn newest(&self, key: &Key) -> Option<Entry> {
        if self.is_quiet {
            return None;
        }
        let held = self.held.iter().map(|window| &self.slots[*window]);
        held.filter(|slot| slot.may_hold(key)).filter_map(|slot| slot.newest(key)).max_by_key(Entry::seq)
    }

    fn slot(&self, id: LeaseId) -> Option<&Arc<Slot>> {
        self.slots.get(id.window()).filter(|slot| slot.id() == Some(id))
    }

    /// Holds a lease in the slot of its window.
    fn hold(&mut self, id: LeaseId, lease: Lease, copies_values: bool) {
        let slot = &self.slots[id.window()];
        slot.set(Some((id, lease)), copies_values);
        self.held.push(id.window());
        self.stores_until_renewal[id.window()] = 0;
    }

    /// Has the lease of a window take no more records; how many it took since it was renewed, `None` if it was not.
    fn recall(&mut self, window: usize) -> Option<usize> {
        let returned = self.slots[window].recall();
        self.records_out -= returned.left;
        self.charged_out -= returned.charged;
        (returned.given > 0).then(|| returned.given - returned.left)
    }

    /// Has every lease take no more records.
    fn recall_all(&mut self) {
        for at in 0..self.held.len() {
            let window = self.held[at];
            if self.recall(window).is_some_and(|taken| taken < RECORDS_FEW) {
                self.stores_until_renewal[window] = RENEW_AFTER_STORES;
            }
        }
        self.is_quiet = true;
    }

    /// Whether a store that has found no room in the lease of a window is to renew it.
    fn is_to_be_renewed(&mut self, window: usize) -> bool {
        let stores = &mut self.stores_until_renewal[window];
        let is_now = *stores == 0;
        *stores = stores.saturating_sub(1);
        is_now
    }
}

/// A thread may have a handle still: what it stored by it, no engine would take in.
impl Drop for Leases {
    fn drop(&mut self) {
        self.slots.iter().for_each(|slot| slot.set(None, false));
    }
}

impl KvEngine {
    /// Gives a thread a lease, by which it stores with [`put_beside`](Self::put_beside), and else with [`put_leased`](Self::put_leased).
    /// `None` where every window is in use, or the namespace is small.
    pub fn open_lease<S: PageStore>(&mut self, store: &mut S) -> Option<LeaseId> {
        let is_large = self.capacity_bytes / CAPACITY_SHARE >= self.lease_charge(RECORDS_BESIDE_WORK);
        if !is_large || self.check_writable(store).is_err() {
            return None;
        }
        let most = self.log.layout().windows_in_segments();
        // Hosts take the first window that is free.
        let window = (0..self.windows.len()).rev().find(|window| {
            self.windows[*window].is_none()
                && self.leases.slots[*window].id().is_none()
                && self.windows_beside(WindowId(*window as u16)) < most
        })?;
        let id = LeaseId::next(window);
        let copies_values = store.reads_in_any_order();
        self.leases.hold(id, self.log.no_lease(FIRST_WINDOW + window), copies_values);
        self.note_leases(store, true);
        Some(id)
    }

    /// A lease for its thread. `None` where the windows are not in memory.
    #[must_use]
    pub fn lease_handle(&self, id: LeaseId) -> Option<LeaseHandle> {
        let (slot, numbers) = (self.leases.slot(id)?.clone(), self.next_seq.clone());
        Some(LeaseHandle { id, slot, numbers, windows: self.log.home().windows.clone()? })
    }

    /// Whether a lease has not ended: [`close_lease`](Self::close_lease) and hosts that open its window end it.
    #[must_use]
    pub fn has_lease(&self, id: LeaseId) -> bool {
        self.leases.slot(id).is_some()
    }

    /// Ends a lease. What was stored by it stays.
    pub fn close_lease<S: PageStore>(&mut self, store: &mut S, id: LeaseId) {
        let Some(slot) = self.leases.slot(id).cloned() else { return };
        self.take_in(store);
        slot.set(None, false);
        self.leases.held.retain(|window| *window != id.window());
        self.log.end_lease(store, FIRST_WINDOW + id.window());
        if self.leases.held.is_empty() {
            self.note_leases(store, false);
        }
    }

    /// Ends every lease, as before an orderly close: then older versions open the namespace.
    pub fn end_leases<S: PageStore>(&mut self, store: &mut S) {
        (0..self.leases.slots.len()).for_each(|window| self.end_lease_of(store, window));
    }

    /// Ends the lease of a window's stream, if there is one.
    pub(crate) fn end_lease_of<S: PageStore>(&mut self, store: &mut S, window: usize) {
        if let Some(id) = self.leases.slots.get(window).and_then(|slot| slot.id()) {
            self.close_lease(store, id);
        }
    }

    /// Notes in the namespace's header whether records behind write pointers count after a kill.
    pub(crate) fn note_leases<S: PageStore>(&self, store: &mut S, has_leases: bool) {
        let home = self.log.home();
        if !store.is_read_only() {
            Features::of(store.state(home)).with_leases(has_leases).store(store, home);
        }
    }

    /// Stores a value by a lease, whatever the key had before. False where that takes [`put_leased`](Self::put_leased): then nothing
    /// was stored. When this returns true, the value survives the process at any instruction.
    #[must_use]
    pub fn put_beside<S: PageStore>(&self, store: &S, id: LeaseId, key: &Key, value: &[u8]) -> bool {
        let write = |at: usize, bytes: &[u8]| store.write_window(self.log.home(), at, bytes);
        self.leases.slot(id).is_some_and(|slot| slot.put(id, &self.next_seq, (key, value), write))
    }

    /// Stores a value by exclusive reference in the stream of a lease, and leases the stretch behind it. Other leases stay active, unless
    /// the store has work to do that needs all records.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_leased<S: PageStore>(
        &mut self,
        store: &mut S,
        id: LeaseId,
        key: &Key,
        value: &[u8],
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let is_long = value.len() as u64 > self.window_segment_bytes() / 2;
        if is_long || self.leases.slot(id).is_none() {
            self.take_in(store);
            return self.put(store, key, value, StoreHow::default(), at_ps);
        }
        let (window, stream) = (id.window(), FIRST_WINDOW + id.window());
        self.leases.recall(window);
        self.take_in_waiting(store);
        self.counted(|engine| {
            let value_len = value.len() as u64;
            engine.check_store(store, value_len)?;
            let reach = engine.reach_from(stream, engine.log.stream(stream).tail(), value_len);
            let over = engine.admit_to(store, key, value_len, StoreHow::default(), reach, at_ps)?;
            let draft = engine.draft(key, Kind::Value, value_len as u32, Placement::Packed);
            let address = engine.log.append_behind_lease(store, stream, &draft, value, at_ps)?;
            engine.enter(store, &draft, address, over, Value::short(value), at_ps);
            if engine.leases.is_to_be_renewed(window) {
                engine.renew_lease(store, window, at_ps);
            }
            Ok(())
        })
    }

    /// Leases the next stretch to the thread that has the window, if there is room.
    fn renew_lease<S: PageStore>(&mut self, store: &mut S, window: usize, at_ps: &mut u64) {
        let most = self.lease_records();
        self.upkeep_ran = false;
        let charged = self.lease_charge(most);
        let share = self.capacity_bytes / CAPACITY_SHARE;
        let charged_out = self.leases.charged_out + charged;
        let has_room = charged_out <= share && self.used_bytes() + charged_out + share <= self.capacity_bytes;
        if !has_room || self.is_due_with(most) {
            return;
        }
        let Ok(lease) = self.log.lease(store, FIRST_WINDOW + window, at_ps) else { return };
        self.leases.slots[window].renew(lease, most, charged);
        self.leases.records_out += most;
        self.leases.charged_out = charged_out;
        self.leases.is_quiet = false;
    }

    /// Most records that a lease given now takes.
    fn lease_records(&self) -> usize {
        let pays = self.has_work() && !self.upkeep_ran;
        let most = if pays { RECORDS_BESIDE_WORK } else { RECORDS_MOST };
        let share = (self.index.most_entries() / MEMTABLE_SHARE).max(1);
        most.min(share).min((self.log.lease_bytes() / BYTES_PER_RECORD) as usize)
    }

    /// What a lease of so many records takes of the capacity at most, in bytes.
    fn lease_charge(&self, records: usize) -> u64 {
        charge(0) * records as u64 + self.log.lease_bytes()
    }

    /// Recalls every lease and takes in what was stored by them: from here on until one is renewed, no thread stores but by this
    /// reference, and the engine knows of all that was stored.
    #[inline]
    pub fn take_in<S: PageStore>(&mut self, store: &mut S) {
        if self.leases.are_active() {
            self.leases.recall_all();
            self.take_in_waiting(store);
        }
    }

    /// Takes in the records that wait now.
    #[inline(never)]
    fn take_in_waiting<S: PageStore>(&mut self, store: &mut S) {
        let mut taken = std::mem::replace(&mut self.leases.taken, NewEntries::new());
        for at in 0..self.leases.held.len() {
            self.collect(store, self.leases.held[at], &mut taken);
        }
        let mut records = taken.iter();
        for group in taken.entries().chunks(GROUP) {
            self.index.prefetch_to_insert_each(group);
            self.take_in_group(store, records.by_ref().take(group.len()));
        }
        drop(records);
        // Each pays its share of the work, once the index knows all.
        for entry in taken.entries() {
            if !self.has_work() {
                break;
            }
            let bytes = entry.shape().record_bytes();
            self.counted(|engine| engine.tend(store, bytes, &mut 0));
        }
        taken.clear();
        self.leases.taken = taken;
    }

    /// Collects the records of a window's lease, and moves the write pointer past them.
    fn collect<S: PageStore>(&mut self, store: &mut S, window: usize, into: &mut NewEntries) {
        let Self { leases, log, .. } = self;
        let (before, records_out) = (into.len(), &mut leases.records_out);
        leases.slots[window].collect(into, |lease, records, value_bytes| {
            log.pass_leased(store, lease, value_bytes);
            *records_out -= records;
        });
        if into.len() > before {
            // A page that cannot be programmed now is tried again before its slot is needed.
            let _ = log.settle(store, FIRST_WINDOW + window, &mut 0);
        }
    }

    /// Enters records in the index. Of one key, the highest number counts.
    fn take_in_group<'a, S: PageStore>(
        &mut self,
        store: &mut S,
        group: impl Iterator<Item = (Entry, Value<'a>)>,
    ) {
        let (mut payload_bytes, copies_values) = (0, store.reads_in_any_order());
        for (entry, value) in group {
            let shape = entry.shape();
            payload_bytes += shape.key_len() as u64 + u64::from(shape.value_len());
            self.unsaved.add(charge(shape.record_bytes()));
            self.index.insert(entry, value.if_copied(copies_values), &mut self.log);
        }
        store.count_payload(payload_bytes);
    }
}
