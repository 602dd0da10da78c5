//! A lease as its thread has it, and as the engine does.

use std::fmt;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_spec::Key;
use byway_sys::Mapping;

use super::LeaseId;
use super::filter::Filter;
use crate::engine::next_seq::NextSeq;
use crate::index::entry::Entry;
use crate::index::new_entries::NewEntries;
use crate::index::short_values::Value;
use crate::value_log::lease::Lease;
use crate::value_log::record::record_header_bytes;

/// The place of one lease. The thread that has it stores into no line that other threads store into while it stores records.
#[repr(align(128))]
pub(super) struct Slot {
    filter: Filter,
    held: Mutex<Option<Held>>,
}

/// A lease and its records that wait to be taken in.
struct Held {
    id: LeaseId,
    lease: Lease,
    /// With copies of short values, if gets may read these.
    records: NewEntries,
    copies_values: bool,
    value_bytes: u64,
    /// Records that could be added when it was renewed; 0 once it was recalled.
    given: usize,
    /// Records that may still be added.
    left: usize,
    /// What the lease takes of the capacity at most, in bytes.
    charged: u64,
}

/// What a lease gives back.
#[derive(Default)]
pub(super) struct Returned {
    /// Records that could be added when it was renewed; 0 if it was recalled since.
    pub(super) given: usize,
    /// Those of them that it may no longer add.
    pub(super) left: usize,
    /// What it no longer takes of the capacity, in bytes.
    pub(super) charged: u64,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self { filter: Filter::default(), held: Mutex::new(None) }
    }

    /// The lease. The engine and the thread that has it hold it for the time of one record at most.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease that is held here.
    pub(super) fn id(&self) -> Option<LeaseId> {
        self.lock().as_ref().map(|held| held.id)
    }

    /// Holds a lease that takes no record, or none. Of its records, short values are copied or not.
    pub(super) fn set(&self, lease: Option<(LeaseId, Lease)>, copies_values: bool) {
        let held = |(id, lease)| Held {
            id,
            lease,
            records: NewEntries::new(),
            copies_values,
            value_bytes: 0,
            given: 0,
            left: 0,
            charged: 0,
        };
        *self.lock() = lease.map(held);
    }

    /// Whether a record of a key may wait.
    #[inline]
    pub(super) fn may_hold(&self, key: &Key) -> bool {
        self.filter.may_hold(key)
    }

    /// The newest record of a key that waits. Held for a look at each record: ask the filter first.
    #[cold]
    pub(super) fn newest(&self, key: &Key) -> Option<Entry> {
        self.lock().as_ref()?.records.newest(key).copied()
    }

    /// Appends a record, if lease `id` is held here and has room: `write` writes bytes of the windows' memory.
    #[inline]
    pub(super) fn put(
        &self,
        id: LeaseId,
        numbers: &NextSeq,
        (key, value): (&Key, &[u8]),
        write: impl FnMut(usize, &[u8]),
    ) -> bool {
        let mut held = self.lock();
        let Some(held) = held.as_mut().filter(|held| held.id == id) else { return false };
        let Held { lease, records, copies_values, value_bytes, left, .. } = held;
        let record_bytes = (record_header_bytes(key.len()) + value.len()) as u64;
        if *left == 0 || !lease.has_room(record_bytes) {
            return false;
        }
        // Taken after the command came and before it is completed: so numbers order the stores of a key.
        let entry = lease.append((key, value), numbers.take(), write);
        records.push(entry, Value::short(value).if_copied(*copies_values));
        *left -= 1;
        *value_bytes += value.len() as u64;
        self.filter.insert(key);
        true
    }

    /// Gives the lease another stretch.
    pub(super) fn renew(&self, lease: Lease, records: usize, charged: u64) {
        if let Some(held) = &mut *self.lock() {
            (held.lease, held.given, held.left, held.charged) = (lease, records, records, charged);
        }
    }

    /// Takes out the records that wait: `pass` gets the lease, how many there are, and the bytes of their values.
    pub(super) fn collect(&self, into: &mut NewEntries, pass: impl FnOnce(&Lease, usize, u64)) {
        let mut held = self.lock();
        let Some(held) = held.as_mut().filter(|held| !held.records.is_empty()) else { return };
        pass(&held.lease, held.records.len(), take(&mut held.value_bytes));
        into.append(&mut held.records);
        self.filter.clear();
    }

    /// Has the lease take no more records.
    pub(super) fn recall(&self) -> Returned {
        let mut held = self.lock();
        let Some(held) = held.as_mut() else { return Returned::default() };
        held.lease.close();
        let Held { given, left, charged, .. } = held;
        Returned { given: take(given), left: take(left), charged: take(charged) }
    }
}

/// A lease for the thread that stores by it, without the engine.
#[derive(Clone)]
pub struct LeaseHandle {
    pub(super) id: LeaseId,
    pub(super) slot: Arc<Slot>,
    pub(super) numbers: Arc<NextSeq>,
    pub(super) windows: Arc<Mapping>,
}

impl LeaseHandle {
    /// Its name for the engine.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// As [`KvEngine::put_beside`](crate::KvEngine::put_beside).
    #[inline]
    #[must_use]
    pub fn put(&self, key: &Key, value: &[u8]) -> bool {
        self.slot.put(self.id, &self.numbers, (key, value), |at, bytes| {
            let copied = self.windows.write_at(at, bytes);
            debug_assert!(copied.is_ok(), "windows lie inside their area");
        })
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
