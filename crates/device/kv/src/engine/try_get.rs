//! Gets by shared reference, by several threads at the same time while no thread changes the engine (decision 0065).

use byway_flash::FlashReads;
use byway_spec::Key;

use crate::engine::KvEngine;
use crate::engine::get::{Located, RECORD_START_BYTES};
use crate::index::entry::Entry;
use crate::index::in_ram::ValueIn;
use crate::store::PageStore;
use crate::value_log::read::Sought;

/// The result of [`KvEngine::try_get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryGet {
    /// The value was copied, as far as there was room.
    Found {
        /// Length of the whole value, in bytes.
        len_bytes: u32,
        /// What of the flash was read, in whole units; nothing for a value in protected memory.
        reads: FlashReads,
    },
    /// The key has no value.
    Absent,
    /// [`KvEngine::get`] is needed: a run of the index has to be searched, or the record cannot be looked at where it lies or is damaged.
    /// Or it lies in several pages or in a window, its value is longer than 4 KiB, and the room for it is shorter.
    Unknown,
}

impl KvEngine {
    /// As [`get`](Self::get) from the beginning of the value, without changing the engine or counting anything. What `into` holds is
    /// of use only if the value was found.
    #[inline]
    pub fn try_get<S: PageStore>(
        &self,
        store: &S,
        key: &Key,
        was_prefetched: bool,
        into: &mut [u8],
    ) -> TryGet {
        let Self { index, log, leases, .. } = self;
        if let Some(waiting) = leases.newest(key) {
            return self.try_waiting(store, key, waiting, into);
        }
        if !was_prefetched {
            index.prefetch_hint(key);
        }
        // While the entry comes, so does the record that its slot names.
        let prefetch = |address| {
            if !was_prefetched {
                log.prefetch(store, address, RECORD_START_BYTES);
            }
        };
        let found = match index.peek_in_ram(key, prefetch) {
            Some(found) if found.entry.shape().is_tombstone() => return TryGet::Absent,
            Some(found) => {
                if !was_prefetched && found.value_in == ValueIn::Log && index.has_copies() {
                    log.prefetch_rest(store, found.entry.address(), found.entry.shape(), 0);
                }
                Some(Located::in_ram(&found))
            }
            None if index.is_all_in_active() => return TryGet::Absent,
            None => self.try_hint(store, key),
        };
        found.map_or(TryGet::Unknown, |found| self.try_read(store, key, found, into))
    }

    /// The same of a key of which a record waits to be taken in. The records of runs are older than any that waits.
    #[cold]
    fn try_waiting<S: PageStore>(&self, store: &S, key: &Key, waiting: Entry, into: &mut [u8]) -> TryGet {
        let in_ram = self.index.peek_in_ram(key, |_| ()).map(|found| *found.entry);
        let newest = in_ram.filter(|in_ram| in_ram.seq() > waiting.seq()).unwrap_or(waiting);
        if newest.shape().is_tombstone() {
            return TryGet::Absent;
        }
        self.try_read(store, key, Located::of(&newest), into)
    }

    /// Where the value of a key is that is in no memtable, if a hint says so.
    #[inline(never)]
    fn try_hint<S: PageStore>(&self, store: &S, key: &Key) -> Option<Located> {
        let address = self.index.hint(key)?;
        let shape = self.log.peek_shape(store, address, key)?;
        Some(Located::at(address, shape))
    }

    #[inline]
    fn try_read<S: PageStore>(&self, store: &S, key: &Key, found: Located, into: &mut [u8]) -> TryGet {
        if let Some(copy) = self.copy_of(store, &found) {
            let len = copy.len().min(into.len());
            into[..len].copy_from_slice(&copy[..len]);
            return TryGet::Found { len_bytes: found.len(), reads: FlashReads::default() };
        }
        let (address, shape) = found.place();
        match self.log.peek_sought(store, &Sought { key, address, shape }, into) {
            Some(reads) => TryGet::Found { len_bytes: found.len(), reads },
            None => TryGet::Unknown,
        }
    }
}
