//! Copies of short values, in the order of a memtable's entries (decision 0078).
//!
//! ```text
//! slot:  0        | 1        | 2        | …       one for each entry from the first one on, all of one length
//! ```
//!
//! An entry whose value is copied [says so](crate::index::entry::Entry::has_copy). The length of all slots is chosen with the first value: so
//! that it fits, and a value of the mean length of those that the table held before.

use std::ops::Range;

use byway_sys::cacheline::{LINE_BYTES, prefetch_all};
use byway_sys::huge::prefer_huge_pages;

/// Longest value that is copied, in bytes.
pub(crate) const COPY_MAX_BYTES: usize = 256;
/// The length of a slot is a multiple of this: two short ones make a cache line.
const SLOT_GRAIN_BYTES: usize = 32;

/// What is known of the value of an entry that is put into a memtable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// Nothing: it is in its record alone.
    Unknown,
    /// Its bytes, to be copied if they are few.
    Bytes(&'a [u8]),
    /// The value is that of the entry which this one replaces: its record was moved.
    Unchanged,
}

impl<'a> Value<'a> {
    /// These bytes, if they are few enough to be copied.
    #[inline]
    pub(crate) fn short(bytes: &'a [u8]) -> Self {
        if bytes.len() <= COPY_MAX_BYTES { Self::Bytes(bytes) } else { Self::Unknown }
    }

    /// The same where values are copied, else nothing.
    #[inline]
    pub(crate) fn if_copied(self, copies_values: bool) -> Self {
        if copies_values { self } else { Self::Unknown }
    }

    /// The bytes, if they are known.
    #[inline]
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Unknown | Self::Unchanged => None,
        }
    }
}

/// Bytes of a short value, copied while they are written to the log.
pub(crate) struct Captured {
    bytes: [u8; COPY_MAX_BYTES],
    len: usize,
    value_len: u64,
}

impl Captured {
    /// Nothing yet of a value of so many bytes.
    #[inline]
    pub(crate) fn of(value_len: u64) -> Self {
        Self { bytes: [0; COPY_MAX_BYTES], len: 0, value_len }
    }

    /// Copies the next bytes.
    #[inline]
    pub(crate) fn extend(&mut self, piece: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + piece.len()) {
            room.copy_from_slice(piece);
            self.len += piece.len();
        }
    }

    /// The value, if it is short and all of it came.
    #[inline]
    pub(crate) fn value(&self) -> Value<'_> {
        let is_whole = self.len as u64 == self.value_len;
        if is_whole { Value::Bytes(&self.bytes[..self.len]) } else { Value::Unknown }
    }
}

/// Copies of values by entry number.
pub(crate) struct ShortValues {
    bytes: Vec<u8>,
    /// Where slots begin in `bytes`: aligned to a cache line.
    base: usize,
    /// Length of a slot, 0 before the first value.
    slot_bytes: usize,
    /// Number of the entry that has the first slot.
    first: usize,
    budget_bytes: usize,
    /// How many short values came since the table was empty, and their bytes.
    seen: u64,
    seen_bytes: u64,
    /// Mean length of those that came before.
    usual_bytes: usize,
}

impl ShortValues {
    /// No values, with RAM for so many bytes of them.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            base: 0,
            slot_bytes: 0,
            first: 0,
            budget_bytes,
            seen: 0,
            seen_bytes: 0,
            usual_bytes: 0,
        }
    }

    /// Drops all of them.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.base, self.slot_bytes) = (0, 0);
        if let Some(mean) = self.seen_bytes.checked_div(self.seen) {
            self.usual_bytes = mean as usize;
        }
        (self.seen, self.seen_bytes) = (0, 0);
    }

    /// Whether there may be any.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.slot_bytes > 0
    }

    /// RAM that they take.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.bytes.len() - self.base
    }

    /// Adds the slot of a new entry, the last one, with a copy of its value if that is known; whether it has the copy.
    #[inline]
    pub(crate) fn push(&mut self, number: usize, value: Option<&[u8]>) -> bool {
        if self.slot_bytes == 0 {
            let Some(value) = value.filter(|_| self.budget_bytes > 0) else { return false };
            self.begin(number, value.len());
        }
        if let Some(value) = value {
            self.seen += 1;
            self.seen_bytes += value.len() as u64;
        }
        let end = self.bytes.len() + self.slot_bytes;
        if end > self.base + self.budget_bytes || end != self.slot_at(number + 1) {
            return false;
        }
        let copy = value.filter(|value| value.len() <= self.slot_bytes);
        self.bytes.extend_from_slice(copy.unwrap_or_default());
        self.bytes.resize(end, 0);
        copy.is_some()
    }

    /// Copies the value of an entry that has a slot; whether it has the copy.
    #[inline]
    pub(crate) fn replace(&mut self, number: usize, value: &[u8]) -> bool {
        let slot = self.slot(number, value.len()).and_then(|slot| self.bytes.get_mut(slot));
        slot.is_some_and(|slot| {
            slot.copy_from_slice(value);
            true
        })
    }

    /// The copy of an entry's value of so many bytes, if it has one.
    #[inline]
    pub(crate) fn get(&self, number: usize, len: usize) -> Option<&[u8]> {
        self.bytes.get(self.slot(number, len)?)
    }

    /// Prefetches the slot of an entry.
    #[inline]
    pub(crate) fn prefetch(&self, number: usize) {
        prefetch_all(self.get(number, self.slot_bytes).unwrap_or_default());
    }

    /// The first bytes of an entry's slot, as long as there are so many.
    #[inline]
    fn slot(&self, number: usize, len: usize) -> Option<Range<usize>> {
        if number < self.first || len > self.slot_bytes {
            return None;
        }
        let at = self.slot_at(number);
        Some(at..at + len)
    }

    /// Where the slot of an entry begins, which is not before the first one.
    #[inline]
    fn slot_at(&self, number: usize) -> usize {
        self.base.wrapping_add(number.wrapping_sub(self.first).wrapping_mul(self.slot_bytes))
    }

    /// Chooses the length of slots, of which entry `number` has the first.
    #[cold]
    fn begin(&mut self, number: usize, value_len: usize) {
        self.first = number;
        self.slot_bytes = value_len.max(self.usual_bytes).max(1).next_multiple_of(SLOT_GRAIN_BYTES);
        // Without memory for them there are no copies.
        if self.bytes.capacity() == 0 && self.bytes.try_reserve_exact(self.budget_bytes + LINE_BYTES).is_err()
        {
            self.budget_bytes = 0;
            return;
        }
        prefer_huge_pages(self.bytes.spare_capacity_mut());
        self.base = self.bytes.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        self.bytes.resize(self.base, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(n: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| (n * 31 + i) as u8).collect()
    }

    #[test]
    fn copies_follow_overwrites_and_end_with_the_budget() {
        let mut values = ShortValues::new(100 * 64);
        assert!(!values.push(0, None) && !values.are_there());
        let kept = (1..200).filter(|n| values.push(*n, Some(&value(*n, 33)))).count();
        assert_eq!((kept, values.ram_bytes()), (100, 100 * 64));
        for n in 1..=100 {
            assert_eq!(values.get(n, 33), Some(&value(n, 33)[..]));
        }
        assert!(values.replace(7, &value(8, 64)) && !values.replace(7, &value(8, 65)));
        assert!(!values.replace(0, b"none") && !values.replace(101, b"none"));
        assert_eq!((values.get(7, 64), values.get(0, 1)), (Some(&value(8, 64)[..]), None));
        values.clear();
        assert_eq!((values.get(7, 64), values.are_there()), (None, false));
        assert!(values.push(3, Some(b"")));
        assert_eq!(values.get(3, 0), Some(&[][..]));
    }

    #[test]
    fn an_entry_without_a_value_or_with_a_long_one_has_a_slot_without_a_copy() {
        let mut values = ShortValues::new(1 << 20);
        assert!(values.push(0, Some(b"short")));
        assert!(!values.push(1, None) && !values.push(2, Some(&[1; 33])));
        assert!(values.push(3, Some(b"again")) && values.replace(1, b"later"));
        assert_eq!((values.get(1, 5), values.get(3, 5)), (Some(&b"later"[..]), Some(&b"again"[..])));
    }
}
