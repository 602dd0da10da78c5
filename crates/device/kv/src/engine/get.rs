//! Looking keys up and reading their values.

use std::ops::Range;

use byway_flash::Cause;

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::store::PageStore;
use crate::value_log::read::{Sought, Wanted};
use crate::value_log::record::Shape;
use byway_spec::Key;

/// Which memory to prefetch for a lookup. Each stage follows a pointer that the one before has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStage {
    /// The cache line that the index reads first.
    Key,
    /// The index entry, and the start of the record.
    Entry,
    /// What a long record has beyond its start.
    Value,
}

/// Bytes of a record that are asked for before its length is known: most small ones, wherever in a line they begin.
const RECORD_START_BYTES: u64 = 128;

/// Where the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    address: u64,
    shape: Shape,
}

impl Located {
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
    /// Prefetches memory for a put or get of `key`. A caller with several keys calls it for each key once a stage, with other
    /// work between the stages.
    #[inline]
    pub fn prefetch<S: PageStore>(&self, store: &S, key: &Key, stage: PrefetchStage) {
        match stage {
            PrefetchStage::Key => self.index.prefetch(key),
            PrefetchStage::Entry => match self.index.record_of(key) {
                Some(address) => self.log.prefetch(store, address, RECORD_START_BYTES),
                None => {
                    if let Some(address) = self.index.hint(key) {
                        self.log.prefetch_typical(store, address);
                    }
                }
            },
            PrefetchStage::Value => {
                if let Some(entry) = self.index.get_active(key) {
                    self.log.prefetch_rest(store, entry.address(), entry.shape(), RECORD_START_BYTES);
                }
            }
        }
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
        let found = self.find(store, key, at_ps)?.ok_or(KvError::NotFound)?;
        let part = offset..offset.saturating_add(limit_bytes);
        self.read(store, key, &found, part, &mut into, at_ps)?;
        Ok(ValueInfo { len: found.len() })
    }

    /// Looks a key up, for [`read`](Self::read); `None` where it has no value. The memory its value is in may come
    /// closer meanwhile.
    ///
    /// # Errors
    /// [`KvError::DamagedIndex`], errors of the flash.
    #[inline]
    pub fn find<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<Option<Located>, KvError> {
        self.index.prefetch_hint(key);
        if let Some(address) = self.index.record_of(key) {
            // While the entry comes, so does the record it points to.
            self.log.prefetch(store, address, RECORD_START_BYTES);
        }
        let in_ram = self.index.get_in_ram(key).map(|entry| (entry.address(), entry.shape()));
        let found = match in_ram {
            Some((_, shape)) if shape.is_tombstone() => None,
            Some((address, shape)) => {
                self.log.prefetch_rest(store, address, shape, RECORD_START_BYTES);
                Some(Located { address, shape })
            }
            None if self.index.is_all_in_active() => None,
            None => self.find_in_runs(store, key, at_ps)?,
        };
        self.lookup_hints.publish(self.index.tables());
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
        let sought = Sought { key, address: found.address, shape: found.shape };
        self.log.read_sought(store, &sought, Wanted { from, to }, Cause::Host, &mut into, at_ps)
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
            return Ok(Some(Located { address, shape }));
        }
        let found = self.index.get_noting(key, store, at_ps)?;
        let found = found.filter(|entry| !entry.shape().is_tombstone());
        let found = found.map(|entry| Located { address: entry.address(), shape: entry.shape() });
        if let Some(Located { address, shape }) = found {
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
