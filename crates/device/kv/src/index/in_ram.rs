//! What the index has in RAM of a key: its entry, and a copy of its value if that is short.

use crate::index::Index;
use crate::index::entry::Entry;
use crate::index::memtable::InTable;
use byway_spec::Key;

/// Where a value is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ValueIn {
    /// In its record alone.
    #[default]
    Log,
    /// In the active memtable, beside the entry of this number; in its record too.
    Active(u32),
    /// The same of the memtable that is being written out.
    Frozen(u32),
}

/// The newest entry of a key.
#[derive(Clone, Copy)]
pub(crate) struct InRam<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) value_in: ValueIn,
}

impl<'a> InRam<'a> {
    #[inline]
    fn of(found: InTable<'a>, value_in: impl Fn(u32) -> ValueIn) -> Self {
        let InTable { entry, number } = found;
        let value_in = if entry.has_copy() { value_in(number) } else { ValueIn::Log };
        Self { entry, value_in }
    }
}

impl Index {
    /// The newest entry of a key that is in RAM, which may be a tombstone. The copy of its value is prefetched before the entry is
    /// looked at; where there are no copies, `record_at` is called with about where its record is.
    #[inline]
    pub(crate) fn get_in_ram(&mut self, key: &Key, record_at: impl FnMut(u64)) -> Option<InRam<'_>> {
        self.catch_up();
        self.in_tables(key, record_at)
    }

    /// The same by shared reference.
    #[inline]
    pub(crate) fn peek_in_ram(&self, key: &Key, record_at: impl FnMut(u64)) -> Option<InRam<'_>> {
        let late = self.late.newest(key).map(|entry| InRam { entry, value_in: ValueIn::Log });
        late.or_else(|| self.in_tables(key, record_at))
    }

    #[inline]
    fn in_tables(&self, key: &Key, record_at: impl FnMut(u64)) -> Option<InRam<'_>> {
        let in_active = self.active.get_noting(key, record_at);
        in_active.map(|found| InRam::of(found, ValueIn::Active)).or_else(|| {
            let found = self.frozen.as_ref()?.table.get_noting(key, |_| {})?;
            Some(InRam::of(found, ValueIn::Frozen))
        })
    }

    /// Whether the active memtable has copies of values: then a lookup prefetches a copy and not the record.
    #[inline]
    pub(crate) fn has_copies(&self) -> bool {
        self.active.values().are_there()
    }

    /// The copy of a value of so many bytes. The caller has entered nothing since the value was found.
    #[inline]
    pub(crate) fn copy_of(&self, value_in: ValueIn, len: u32) -> Option<&[u8]> {
        match value_in {
            ValueIn::Log => None,
            ValueIn::Active(number) => self.active.values().get(number as usize, len as usize),
            ValueIn::Frozen(number) => {
                self.frozen.as_ref()?.table.values().get(number as usize, len as usize)
            }
        }
    }

    /// Bytes of short values that memtables have.
    pub(crate) fn copies_bytes(&self) -> usize {
        let frozen = self.frozen.as_ref().map(|frozen| &frozen.table);
        [Some(&self.active), frozen, self.spare.as_ref()]
            .into_iter()
            .flatten()
            .map(|table| table.values().ram_bytes())
            .sum()
    }
}
