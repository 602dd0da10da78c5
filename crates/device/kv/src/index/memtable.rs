//! The newest entries, in RAM: a hash table for points, and an [`Order`] for lists.
//!
//! Puts and gets are most of what a store does and want one probe; listing and flushing want an order. Entries stay
//! where they were first put, the hash table finds them, and an overwrite changes them in place. Their order is kept
//! beside, in steps paid by puts, so that neither the first list nor a flush has all of them to sort.

use std::hint::black_box;

use byway_sys::cacheline::prefetch;
use byway_sys::huge::{HugeWords, prefer_huge_pages};

use crate::index::entry::Entry;
use crate::index::hints::Hints;
use crate::index::order::{Order, Walk};
use crate::index::short_values::{ShortValues, Value};
use crate::index::slot::{hash_of, number_of, record_line, slot_of, tag_of};
use byway_spec::Key;

/// Most entries a memtable can have: 24 bits of a slot name the entry.
pub(crate) const MEMTABLE_MAX_ENTRIES: usize = (1 << 24) - 1;
/// RAM of one entry: itself, its share of a half-full hash table, its place in a leaf that is about two thirds full.
pub(crate) const MEMTABLE_ENTRY_BYTES: usize = 60;
/// Number of new entries that are sorted at a time.
const ORDER_ENTRIES: usize = 8;
/// Words that are emptied in the time that finding the slot of an entry takes.
const WORDS_PER_ENTRY: usize = 64;
/// Words that are emptied in the time that dropping a node of the order takes.
const WORDS_PER_NODE: usize = 8192;

/// A table is sized for this many times the entries expected, at two slots an entry.
const SPARE_TIMES: usize = 2;
/// Slots that a table has in use at least.
const LEAST_SLOTS: usize = 1024;

/// What an insertion met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The key was not here.
    New,
    /// The key was here, with this entry.
    Replaced(Entry),
    /// The key is here with a newer record: nothing changed.
    Older,
}

/// A key's entry as a memtable has it.
#[derive(Clone, Copy)]
pub(crate) struct InTable<'a> {
    pub(crate) entry: &'a Entry,
    /// Its number, by which the table finds the copy of its value.
    pub(crate) number: u32,
}

/// Newest entries by key.
pub(crate) struct Memtable {
    entries: Vec<Entry>,
    values: ShortValues,
    /// Open addressing, never more than half full: the line of the record's address (modulo 2³²), tag (8 bits) and entry
    /// number + 1 (24 bits), 0 for none. So record and entry can be asked for at the same time.
    slots: HugeWords,
    /// Of these slots, as many as this turn needs, less one: few slots stay in the processor's cache.
    mask: usize,
    shift: u32,
    seed: u64,
    capacity: usize,
    order: Order,
    /// Slots before this one are zero, while the table is being emptied.
    emptied: usize,
    /// A bit for each entry whose older version was looked for; as long as the last of them.
    settled: Vec<u64>,
}

impl Memtable {
    /// A table for `capacity` entries and so many bytes of short values. The seed keeps a peer from choosing keys that collide.
    pub(crate) fn new(capacity: usize, values_bytes: usize, seed: u64) -> Self {
        let capacity = capacity.clamp(16, MEMTABLE_MAX_ENTRIES);
        let slots = (capacity * 2).next_power_of_two();
        let mut entries = Vec::with_capacity(capacity);
        prefer_huge_pages(entries.spare_capacity_mut());
        Self {
            entries,
            values: ShortValues::new(values_bytes),
            slots: HugeWords::zeroed(slots),
            mask: slots - 1,
            shift: 64 - slots.trailing_zeros(),
            seed,
            capacity,
            order: Order::new(),
            emptied: slots,
            settled: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Limits the slots of an empty table to what `entries` need. With more than twice as many entries it is full early.
    pub(crate) fn set_expected_entries(&mut self, entries: usize) {
        if !self.is_emptied() {
            return;
        }
        let slots = entries.saturating_mul(2 * SPARE_TIMES).max(LEAST_SLOTS);
        let slots = slots.min(self.slots.len()).next_power_of_two().min(self.slots.len());
        (self.mask, self.shift, self.emptied) = (slots - 1, 64 - slots.trailing_zeros(), slots);
    }

    /// Slots in use.
    #[inline]
    fn slot_count(&self) -> usize {
        self.mask + 1
    }

    /// Whether nothing is in it, nor left of what was.
    pub(crate) fn is_emptied(&self) -> bool {
        self.entries.is_empty() && self.emptied == self.slot_count()
    }

    /// Empties the table for its next use, by about `words` words. Whether it is empty now.
    pub(crate) fn empty_some(&mut self, words: usize) -> bool {
        if self.is_emptied() {
            return true;
        }
        self.settled.clear();
        self.values.clear();
        if !self.order.empty_some(words / WORDS_PER_NODE + 1) {
            return false;
        }
        let is_swept = self.emptied < self.slot_count();
        if !is_swept && self.entries.len() * WORDS_PER_ENTRY < self.slot_count() {
            return self.drop_some(words / WORDS_PER_ENTRY + 1);
        }
        if !is_swept {
            self.entries.clear();
            self.emptied = 0;
        }
        let end = self.emptied.saturating_add(words).min(self.slot_count());
        self.slots[self.emptied..end].fill(0);
        self.emptied = end;
        self.emptied == self.slot_count()
    }

    /// About how many words [`empty_some`](Self::empty_some) has yet to empty.
    pub(crate) fn words_to_empty(&self) -> usize {
        let table = match self.emptied {
            emptied if emptied < self.slot_count() => self.slot_count() - emptied,
            _ => (self.entries.len() * WORDS_PER_ENTRY).min(self.slot_count()),
        };
        let nodes = if self.is_emptied() { 0 } else { self.order.nodes() };
        table + nodes * WORDS_PER_NODE
    }

    /// Drops the last entries, each with its slot. The later ones go first: whatever stands before the slot of one that is
    /// left is there still. Whether none is left.
    fn drop_some(&mut self, count: usize) -> bool {
        let left = self.entries.len().saturating_sub(count);
        while self.entries.len() > left
            && let Some(entry) = self.entries.pop()
        {
            let slot = self.slot_of_number(&entry.key(), self.entries.len());
            self.slots[slot] = 0;
        }
        left == 0
    }

    fn slot_of_number(&self, key: &Key, number: usize) -> usize {
        let mask = self.mask;
        let mut slot = (self.hash(key) >> self.shift) as usize & mask;
        while number_of(self.slots[slot]) != Some(number) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// The entry of this number: they count up as keys come.
    #[inline]
    pub(crate) fn entry(&self, number: usize) -> Option<&Entry> {
        self.entries.get(number)
    }

    /// Appends copies of the entries of these numbers.
    pub(crate) fn copy_to(&self, into: &mut Vec<Entry>, numbers: &[u32]) {
        into.extend(numbers.iter().map(|number| self.entries[*number as usize]));
    }

    /// Copies of short values, by entry number.
    #[inline]
    pub(crate) fn values(&self) -> &ShortValues {
        &self.values
    }

    /// Brings the entries of these numbers into the processor's cache.
    #[inline(never)]
    pub(crate) fn touch_each(&self, numbers: &[u32]) {
        let word = |number: &u32| self.entries.get(*number as usize).map_or(0, Entry::seq);
        black_box(numbers.iter().fold(0, |sum, number| sum ^ word(number)));
    }

    /// Prefetches entry `number`.
    #[inline]
    pub(crate) fn prefetch_at(&self, number: usize) {
        prefetch(&self.entries, number);
    }

    /// The hash of the key of entry `number`, by which [`Hints`] know it.
    pub(crate) fn hash_at(&self, number: usize) -> Option<u64> {
        Some(self.hash(&self.entry(number)?.key()))
    }

    /// Notes where the record of entry `number` is, if it has a value.
    pub(crate) fn leave_hint(&self, number: usize, hints: &mut Hints) {
        let Some(entry) = self.entry(number) else { return };
        let hash = self.hash(&entry.key());
        match entry.shape().is_tombstone() {
            true => hints.forget(hash),
            false => hints.note(hash, entry.address()),
        }
    }

    /// The number of a key's entry.
    pub(crate) fn number_of(&self, key: &Key) -> Option<usize> {
        match self.find(key) {
            Found::At(_, number) => Some(number),
            Found::Vacant(..) => None,
        }
    }

    /// Whether the older version of an entry's key, in older tables and runs, was looked for.
    pub(crate) fn is_settled(&self, number: usize) -> bool {
        self.settled.get(number / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }

    /// Notes that the older version was looked for.
    pub(crate) fn settle(&mut self, number: usize) {
        if self.settled.len() <= number / 64 {
            self.settled.resize(number / 64 + 1, 0);
        }
        self.settled[number / 64] |= 1 << (number % 64);
    }

    /// Whether it has no room for more entries than these.
    #[inline]
    pub(crate) fn is_full_with(&self, more: usize) -> bool {
        self.entries.len() + more >= self.capacity.min(self.slot_count() / 2)
    }

    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        self.get_noting(key, |_| {}).map(|found| found.entry)
    }

    /// The entry of a key. Before it is looked at the copy of its value is prefetched; where the table has no copies, `record_at` is
    /// called with about where its record is, as [`record_of`](Self::record_of) has it.
    #[inline]
    pub(crate) fn get_noting(&self, key: &Key, record_at: impl FnMut(u64)) -> Option<InTable<'_>> {
        if self.entries.is_empty() {
            return None;
        }
        match self.find_noting(key, record_at) {
            Found::At(_, number) => {
                self.entries.get(number).map(|entry| InTable { entry, number: number as u32 })
            }
            Found::Vacant(..) => None,
        }
    }

    /// Puts an entry, with a copy of its value if that is known and short, unless the table has a newer one of the same key. A full
    /// table grows: only recovery does that.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry, value: Value<'_>) -> Inserted {
        debug_assert!(value.bytes().is_none_or(|bytes| bytes.len() == entry.shape().value_len() as usize));
        match self.find(&entry.key()) {
            Found::At(slot, number) => self.replace(slot, number, entry, value),
            Found::Vacant(slot, tag) => {
                let number = self.entries.len();
                self.slots[slot] = slot_of(&entry, tag, number);
                let has_copy = self.values.push(number, value.bytes());
                self.entries.push(entry.with_copy(has_copy));
                if self.entries.len() * 2 > self.slot_count() {
                    self.grow();
                }
                if self.entries.len() - self.order.placed() >= ORDER_ENTRIES {
                    self.order.place(&self.entries, ORDER_ENTRIES);
                }
                Inserted::New
            }
        }
    }

    /// Prefetches the slot that a lookup or insertion of `key` reads first.
    #[inline]
    pub(crate) fn prefetch(&self, key: &Key) {
        self.prefetch_hash(self.hash(key));
    }

    /// The same for a key of this hash.
    #[inline]
    pub(crate) fn prefetch_hash(&self, hash: u64) {
        prefetch(&self.slots, (hash >> self.shift) as usize);
    }

    /// Where its hash table is in memory, 0 while there is nothing in it, and what a hash is shifted by there.
    #[inline]
    pub(crate) fn place(&self) -> (usize, u32) {
        let address = if self.entries.is_empty() { 0 } else { self.slots.as_ptr().addr() };
        (address, self.shift)
    }

    /// A walk in key order from the first key at or after `start`. The table takes no new keys while it lasts.
    pub(crate) fn walk(&mut self, start: Option<&Key>) -> Walk {
        self.order.place(&self.entries, usize::MAX);
        start.map_or_else(Walk::default, |start| self.order.seek(&self.entries, start))
    }

    /// A walk in descending order from the last key at or before `start`. The table takes no new keys while it lasts.
    pub(crate) fn walk_back(&mut self, start: Option<&Key>) -> Walk {
        self.order.place(&self.entries, usize::MAX);
        match start {
            Some(start) => self.order.seek_back(&self.entries, start),
            None => self.order.end(),
        }
    }

    /// The numbers of the next entries of a walk in descending order: at least one and at most `most`, if there are any.
    pub(crate) fn previous(&mut self, walk: &mut Walk, numbers: &mut Vec<u32>, most: usize) {
        numbers.clear();
        numbers.extend(self.order.previous(&self.entries, walk, most));
    }

    /// The numbers of the next entries of a walk: at least one and at most `most`, if there are any. Prefetches `ahead` entries
    /// behind these: they lie anywhere in memory.
    pub(crate) fn next(&mut self, walk: &mut Walk, numbers: &mut Vec<u32>, most: usize, ahead: usize) {
        numbers.clear();
        numbers.extend(self.order.next(&self.entries, walk, most));
        self.order.behind(walk).take(ahead).for_each(|number| self.prefetch_at(number as usize));
    }

    /// About where the record of a key of this hash is: in the 64 bytes at the address, or behind them; or, seldom, somewhere
    /// else; not said where the table has copies of values. Prefetches the entry, which knows, and the copy; gives the entry's number.
    #[inline]
    pub(crate) fn record_of(&self, hash: u64) -> Option<(usize, Option<u64>)> {
        if self.entries.is_empty() {
            return None;
        }
        let mask = self.mask;
        let mut slot = (hash >> self.shift) as usize & mask;
        loop {
            let held = self.slots[slot];
            let number = number_of(held)?;
            if tag_of(held) == hash as u8 {
                prefetch(&self.entries, number);
                if self.values.are_there() {
                    self.values.prefetch(number);
                    return Some((number, None));
                }
                return Some((number, Some(record_line(held))));
            }
            slot = (slot + 1) & mask;
        }
    }

    fn replace(&mut self, slot: usize, number: usize, entry: Entry, value: Value<'_>) -> Inserted {
        let old = self.entries[number];
        if old.seq() > entry.seq() {
            return Inserted::Older;
        }
        let has_copy = match value {
            Value::Bytes(bytes) => self.values.replace(number, bytes),
            Value::Unchanged => old.has_copy() && old.shape() == entry.shape(),
            Value::Unknown => false,
        };
        self.entries[number] = entry.with_copy(has_copy);
        self.slots[slot] = slot_of(&entry, tag_of(self.slots[slot]), number);
        Inserted::Replaced(old)
    }

    #[inline]
    fn find(&self, key: &Key) -> Found {
        self.find_noting(key, |_| {})
    }

    #[inline]
    fn find_noting(&self, key: &Key, mut record_at: impl FnMut(u64)) -> Found {
        let hash = self.hash(key);
        let tag = hash as u8;
        let mask = self.mask;
        let mut slot = (hash >> self.shift) as usize & mask;
        loop {
            let held = self.slots[slot];
            let Some(number) = number_of(held) else { return Found::Vacant(slot, tag) };
            if tag_of(held) == tag {
                match self.values.are_there() {
                    true => self.values.prefetch(number),
                    false => record_at(record_line(held)),
                }
                if self.entries[number].is_of(key) {
                    return Found::At(slot, number);
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    #[inline]
    fn hash(&self, key: &Key) -> u64 {
        hash_of(key, self.seed)
    }

    #[cold]
    fn grow(&mut self) {
        let slots = self.slot_count() * 2;
        if slots > self.slots.len() {
            self.slots = HugeWords::zeroed(slots);
        } else {
            self.slots[..slots / 2].fill(0);
        }
        (self.mask, self.emptied) = (slots - 1, slots);
        self.shift -= 1;
        for number in 0..self.entries.len() {
            if let Found::Vacant(slot, tag) = self.find(&self.entries[number].key()) {
                self.slots[slot] = slot_of(&self.entries[number], tag, number);
            }
        }
    }
}

enum Found {
    /// In a slot, with the number of the entry.
    At(usize, usize),
    /// Nowhere: the slot where it would be, and its tag there.
    Vacant(usize, u8),
}

#[cfg(test)]
mod tests;
