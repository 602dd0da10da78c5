//! Entries on their way into a memtable, with their short values.

use crate::index::entry::Entry;
use crate::index::short_values::Value;
use byway_spec::Key;

/// Entries that are put into a memtable together, the oldest first.
pub(crate) struct NewEntries {
    /// Each that has a copy of its value says so.
    entries: Vec<Entry>,
    /// These copies, one behind the other.
    values: Vec<u8>,
}

impl NewEntries {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), values: Vec::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.values.clear();
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, value: Value<'_>) {
        let bytes = value.bytes();
        self.values.extend_from_slice(bytes.unwrap_or_default());
        self.entries.push(entry.with_copy(bytes.is_some()));
    }

    /// Moves all of `other` behind these.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            return std::mem::swap(self, other);
        }
        self.entries.append(&mut other.entries);
        self.values.append(&mut other.values);
    }

    #[inline]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The newest entry of a key.
    pub(crate) fn newest(&self, key: &Key) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.is_of(key))
    }

    /// All of them, each with what is known of its value.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Entry, Value<'_>)> {
        let mut rest = self.values.as_slice();
        self.entries.iter().map(move |entry| {
            if !entry.has_copy() {
                return (*entry, Value::Unknown);
            }
            let len = entry.shape().value_len() as usize;
            let (bytes, behind) = rest.split_at_checked(len).unwrap_or_default();
            rest = behind;
            (*entry, Value::Bytes(bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::value_log::record::{Kind, Shape};

    #[test]
    fn entries_come_out_in_order_each_with_its_value() {
        let key = Key::new(b"key").unwrap();
        let entry = |len, seq| Entry::new(&key, Shape::new(Kind::Value, 3, len), 0, seq);
        let mut new = NewEntries::new();
        new.push(entry(2, 1), Value::Bytes(b"ab"));
        new.push(entry(9, 2), Value::Unknown);
        new.push(entry(0, 3), Value::Bytes(b""));
        let mut behind = NewEntries::new();
        behind.push(entry(1, 4), Value::Bytes(b"c"));
        new.append(&mut behind);
        assert!(behind.is_empty());
        let seen: Vec<_> = new.iter().map(|(entry, value)| (entry.seq(), value.bytes())).collect();
        assert_eq!(seen, [(1, Some(&b"ab"[..])), (2, None), (3, Some(&[][..])), (4, Some(b"c"))]);
        new.clear();
        assert!(new.is_empty() && new.newest(&key).is_none());
    }
}
