//! Listing the keys of an engine in order.

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::list::Visit;
use crate::store::PageStore;
use byway_spec::Key;

impl KvEngine {
    /// Visits keys in order from the first at or after `start` (NVMe KV List), each with the length of its value,
    /// until `visit` says no. An empty `start` is before every key. To go on after a key, start at it and skip it.
    ///
    /// # Errors
    /// A `start` of more than 16 bytes, [`KvError::DamagedIndex`], errors of the flash.
    pub fn list<S: PageStore>(
        &mut self,
        store: &mut S,
        start: &[u8],
        mut visit: impl FnMut(&Key, u32) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let start = if start.is_empty() { None } else { Some(Key::new(start)?) };
        let visit =
            |entry: &Entry, _| entry.shape().is_tombstone() || visit(&entry.key(), entry.shape().value_len());
        self.index.visit(store, Visit::from(start.as_ref()), visit, at_ps)
    }
}
