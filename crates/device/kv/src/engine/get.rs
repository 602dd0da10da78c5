//! Looking keys up and reading their values.

use std::ops::Range;

use byway_flash::Cause;

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::Index;
use crate::index::entry::Entry;
use crate::index::in_ram::{InRam, ValueIn};
use crate::store::PageStore;
use crate::value_log::read::{Sought, Wanted};
use crate::value_log::record::Shape;
use byway_spec::Key;

/// Lookups that are prefetched together: so many cache misses overlap.
pub const PREFETCH_GROUP: usize = 16;

/// Bytes of a record that are asked for before its length is known: most small ones, wherever in a line they begin.
pub(super) const RECORD_START_BYTES: u64 = 128;

/// Where the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    address: u64,
    shape: Shape,
    value_in: ValueIn,
}

/// Bytes of a record that a lookup has prefetched before it knows the entry: none where there are copies of values.
#[inline]
pub(super) fn asked_bytes(index: &Index) -> u64 {
    if index.has_copies() { 0 } else { RECORD_START_BYTES }
}

impl Located {
    /// Where the record of an entry is.
    #[inline]
    pub(super) fn of(entry: &Entry) -> Self {
        Self::at(entry.address(), entry.shape())
    }

    #[inline]
    pub(super) fn at(address: u64, shape: Shape) -> Self {
        Self { address, shape, value_in: ValueIn::Log }
    }

    /// Where the value of an entry in RAM is.
    #[inline]
    pub(super) fn in_ram(found: &InRam<'_>) -> Self {
        Self { value_in: found.value_in, ..Self::of(found.entry) }
    }

    /// Address and shape of its record.
    #[inline]
    pub(super) fn place(&self) -> (u64, Shape) {
        (self.address, self.shape)
    }

    /// Address of its record in the value log: another one once the value was moved. An address may be used again.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length of the whole value, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.shape.value_len()
    }

    /// Whether it is a value of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The result of a get beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Length of the whole value, in bytes.
    pub len: u32,
}

impl KvEngine {
    /// Prefetches memory for lookups of these keys, the first [`PREFETCH_GROUP`] of them, in stages: the index lines of all
    /// keys, then their entries and the beginnings of their records, then what long records have beyond that.
    pub fn prefetch<S: PageStore>(&self, store: &S, keys: impl Iterator<Item = Key>) {
        let mut hashes = [0; PREFETCH_GROUP];
        let mut count = 0;
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.index.prefetch(&key);
            count += 1;
        }
        let mut entries = [None; PREFETCH_GROUP];
        for (entry, hash) in entries.iter_mut().zip(&hashes[..count]) {
            *entry = self.prefetch_record(store, *hash);
        }
        for number in entries.into_iter().flatten() {
            if let Some(entry) = self.index.active_entry(number).filter(|entry| !entry.has_copy()) {
                self.log.prefetch_rest(store, entry.address(), entry.shape(), asked_bytes(&self.index));
            }
        }
    }

    /// Prefetches the entry of a hash and the beginning of its record. The number of the entry, if the active memtable
    /// has it.
    #[inline]
    fn prefetch_record<S: PageStore>(&self, store: &S, hash: u64) -> Option<usize> {
        if let Some((number, address)) = self.index.record_of(hash) {
            address.iter().for_each(|address| self.log.prefetch(store, *address, RECORD_START_BYTES));
            return Some(number);
        }
        self.log.prefetch_typical(store, self.index.hint_of(hash)?);
        None
    }

    /// Reads up to `limit_bytes` of a value from byte `offset` on, handed over in pieces; the length of it all.
    /// `into` is given the time at which a piece is there, and moves that on to when it is out of the way.
    ///
    /// When this fails, bytes that were handed over are not to be used.
    ///
    /// # Errors
    /// [`KvError::NotFound`], [`KvError::DamagedRecord`], [`KvError::DamagedIndex`], errors of the flash, and what
    /// `into` returns.
    #[inline]
    pub fn get<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        key: &Key,
        offset: u64,
        limit_bytes: u64,
        mut into: impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<ValueInfo, E> {
        let found = self.find(store, key, false, at_ps)?.ok_or(KvError::NotFound)?;
        let part = offset..offset.saturating_add(limit_bytes);
        self.read(store, key, &found, part, &mut into, at_ps)?;
        Ok(ValueInfo { len: found.len() })
    }

    /// Looks a key up, for [`read`](Self::read); `None` where it has no value. Unless the lookup
    /// [was prefetched](Self::prefetch), the memory of the value is prefetched meanwhile.
    ///
    /// # Errors
    /// [`KvError::DamagedIndex`], errors of the flash.
    #[inline]
    pub fn find<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        was_prefetched: bool,
        at_ps: &mut u64,
    ) -> Result<Option<Located>, KvError> {
        let Self { index, log, .. } = self;
        if !was_prefetched {
            index.prefetch_hint(key);
        }
        // While the entry comes, so does the record that its slot names.
        let prefetch = |address| {
            if !was_prefetched {
                log.prefetch(store, address, RECORD_START_BYTES);
            }
        };
        let in_ram = index.get_in_ram(key, prefetch).map(|found| Located::in_ram(&found));
        let found = match in_ram {
            Some(located) if located.shape.is_tombstone() => None,
            Some(located) => {
                if !was_prefetched && located.value_in == ValueIn::Log {
                    log.prefetch_rest(store, located.address, located.shape, asked_bytes(index));
                }
                Some(located)
            }
            None if index.is_all_in_active() => None,
            None => self.find_in_runs(store, key, at_ps)?,
        };
        // A host whose gets come in groups prefetches nothing by itself.
        if !was_prefetched {
            self.lookup_hints.publish(self.index.tables());
        }
        Ok(found)
    }

    /// Reads a part of the value of `key`, as far as there is one, as [`get`](Self::get) does. Nothing was changed
    /// since it was found.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline]
    pub fn read<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        key: &Key,
        found: &Located,
        part: Range<u64>,
        mut into: impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let len = u64::from(found.len());
        let (from, to) = (part.start.min(len), part.end.min(len));
        if let Some(copy) = self.copy_of(store, found) {
            let part = &copy[from as usize..to as usize];
            return if part.is_empty() { Ok(()) } else { into(part, at_ps) };
        }
        self.read_located(store, key, found, Wanted::part(from, to), into, at_ps)
    }

    /// Reads the next part of a value whose record has not moved since a part before was read: pages before this part are not read again.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn read_next_part<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        key: &Key,
        found: &Located,
        part: Range<u64>,
        into: impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let len = u64::from(found.len());
        let wanted = Wanted { from: part.start.min(len), to: part.end.min(len), continues: true };
        self.read_located(store, key, found, wanted, into, at_ps)
    }

    fn read_located<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        key: &Key,
        found: &Located,
        wanted: Wanted,
        mut into: impl FnMut(&[u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<(), E> {
        let sought = Sought { key, address: found.address, shape: found.shape };
        self.log.read_sought(store, &sought, wanted, Cause::Host, &mut into, at_ps)
    }

    /// Bytes of a value in the first page of flash that it lies in, and bytes of a page.
    #[must_use]
    pub fn pages_of(&self, found: &Located) -> (u32, u32) {
        self.log.pages_of(found.address, found.shape)
    }

    /// The copy of a value, where reading its record takes no modelled time and disturbs nothing.
    /// The memtables are those in which it was found.
    #[inline]
    pub(super) fn copy_of<S: PageStore>(&self, store: &S, found: &Located) -> Option<&[u8]> {
        self.index.copy_of(found.value_in, found.len()).filter(|_| store.reads_in_any_order())
    }

    /// Where the value of a key is that is in no memtable: from its record, where a hint says where that is, else as a run does.
    #[inline(never)]
    fn find_in_runs<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<Option<Located>, KvError> {
        if let Some(address) = self.index.hint(key)
            && let Some(shape) = self.log.value_of(store, address, key)
        {
            return Ok(Some(Located::at(address, shape)));
        }
        let found = self.index.get_noting(key, store, at_ps)?;
        let found = found.filter(|entry| !entry.shape().is_tombstone());
        let found = found.map(|entry| Located::of(&entry));
        if let Some(Located { address, shape, .. }) = found {
            self.log.prefetch_rest(store, address, shape, 0);
        }
        Ok(found)
    }

    /// Length of the value of a key, from the index alone; `None` where there is none.
    ///
    /// # Errors
    /// [`KvError::DamagedIndex`], errors of the flash.
    #[inline]
    pub fn len_of<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<Option<u32>, KvError> {
        Ok(self.live_entry(store, key, at_ps)?.map(|entry| entry.shape().value_len()))
    }

    /// Sequence number of the value of a key, which no other value of it has, and where it is; `None` where there is none.
    ///
    /// # Errors
    /// As [`len_of`](Self::len_of).
    pub fn find_version<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<Option<(u64, Located)>, KvError> {
        Ok(self.live_entry(store, key, at_ps)?.map(|entry| (entry.seq(), Located::of(&entry))))
    }

    /// The entry of a key that has a value.
    #[inline]
    pub(crate) fn live_entry<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<Option<Entry>, KvError> {
        let entry = self.index.get(key, store, at_ps)?;
        Ok(entry.filter(|entry| !entry.shape().is_tombstone()))
    }
}
