//! The newest entries, in RAM: a hash table for points, an order made when someone asks for it.
//!
//! Puts and gets are most of what a store does and want one probe; listing wants an order. Entries stay where they
//! were first put, the hash table finds them, and an overwrite changes them in place. The order is kept aside as
//! sorted pieces of entry numbers over all but the newest entries, which are sorted into a new piece when a list
//! or a flush comes. A store that never lists never pays for order until it flushes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use byway_sys::cacheline::prefetch;
use byway_sys::huge::prefer_huge_pages;

use crate::index::entry::Entry;
use byway_spec::Key;

/// Most entries a memtable can have: 24 bits of a slot name the entry.
pub(crate) const MEMTABLE_MAX_ENTRIES: usize = (1 << 24) - 1;
/// RAM of one entry: itself, its share of a half-full hash table, its place in the order.
pub(crate) const MEMTABLE_ENTRY_BYTES: usize = 44;

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

/// Newest entries by key.
pub(crate) struct Memtable {
    entries: Vec<Entry>,
    /// Open addressing, never more than half full: tag (8 bits) and entry number + 1 (24 bits), 0 for none.
    slots: Vec<u32>,
    shift: u32,
    seed: u64,
    capacity: usize,
    tombstones: usize,
    pieces: Vec<Vec<u32>>,
    /// Entries before this one are in `pieces`.
    ordered: usize,
}

impl Memtable {
    /// A table for `capacity` entries. The seed keeps a peer from choosing keys that collide.
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        let capacity = capacity.clamp(16, MEMTABLE_MAX_ENTRIES);
        let slots = (capacity * 2).next_power_of_two();
        Self {
            entries: Vec::with_capacity(capacity),
            slots: empty_slots(slots),
            shift: 64 - slots.trailing_zeros(),
            seed,
            capacity,
            tombstones: 0,
            pieces: Vec::new(),
            ordered: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        match self.find(key) {
            Found::At(number) => self.entries.get(number),
            Found::Vacant(..) => None,
        }
    }

    /// Puts an entry, unless the table has a newer one of the same key. A full table grows: only recovery does that.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry) -> Inserted {
        match self.find(&entry.key()) {
            Found::At(number) => self.replace(number, entry),
            Found::Vacant(slot, tag) => {
                self.slots[slot] = tag << 24 | (self.entries.len() as u32 + 1);
                self.entries.push(entry);
                self.tombstones += usize::from(entry.shape().is_tombstone());
                if self.entries.len() * 2 > self.slots.len() {
                    self.grow();
                }
                Inserted::New
            }
        }
    }

    /// Asks for the memory that finding or putting a key will look at first.
    #[inline]
    pub(crate) fn prefetch(&self, key: &Key) {
        prefetch(&self.slots, (self.hash(key) >> self.shift) as usize);
    }

    /// Puts every entry in order.
    pub(crate) fn order_all(&mut self) {
        if self.ordered == self.entries.len() {
            return;
        }
        self.order_next(usize::MAX);
        while let [.., earlier, later] = self.pieces.as_slice()
            && earlier.len() <= 2 * later.len()
        {
            self.merge_last_two();
        }
    }

    /// Puts up to `count` more entries in order, as a piece of their own. Whether all are now.
    pub(crate) fn order_next(&mut self, count: usize) -> bool {
        let end = self.ordered.saturating_add(count).min(self.entries.len());
        let mut keyed: Vec<(Key, u32)> =
            (self.ordered..end).map(|number| (self.entries[number].key(), number as u32)).collect();
        keyed.sort_unstable();
        if !keyed.is_empty() {
            self.pieces.push(keyed.into_iter().map(|(_, number)| number).collect());
        }
        self.ordered = end;
        end == self.entries.len()
    }

    /// A walk in key order from the first key at or after `start`. All entries must be in order.
    pub(crate) fn walk(&self, start: Option<&Key>) -> Walk {
        debug_assert_eq!(self.ordered, self.entries.len());
        let mut walk = Walk { heads: BinaryHeap::with_capacity(self.pieces.len()) };
        for (piece, numbers) in self.pieces.iter().enumerate() {
            let at = start.map_or(0, |start| {
                numbers.partition_point(|&number| self.entries[number as usize].key() < *start)
            });
            walk.push(self, piece as u32, at as u32);
        }
        walk
    }

    fn replace(&mut self, number: usize, entry: Entry) -> Inserted {
        let old = self.entries[number];
        if old.seq() > entry.seq() {
            return Inserted::Older;
        }
        self.entries[number] = entry;
        self.tombstones += usize::from(entry.shape().is_tombstone());
        self.tombstones -= usize::from(old.shape().is_tombstone());
        Inserted::Replaced(old)
    }

    #[inline]
    fn find(&self, key: &Key) -> Found {
        let hash = self.hash(key);
        let tag = hash as u32 & 0xff;
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> self.shift) as usize & mask;
        loop {
            let held = self.slots[slot];
            if held == 0 {
                return Found::Vacant(slot, tag);
            }
            let number = (held & 0xff_ffff) as usize - 1;
            if held >> 24 == tag && self.entries[number].is_of(key) {
                return Found::At(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// A folded multiplication of both halves of the key, each masked by the seed.
    #[inline]
    fn hash(&self, key: &Key) -> u64 {
        let number = key.number();
        let high = (number >> 64) as u64 ^ self.seed;
        let low =
            number as u64 ^ self.seed.rotate_left(32) ^ (key.len() as u64) << 48 ^ 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(high) * u128::from(low);
        let folded = (product >> 64) as u64 ^ product as u64;
        folded.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ folded >> 32
    }

    #[cold]
    fn grow(&mut self) {
        let slots = self.slots.len() * 2;
        self.slots = empty_slots(slots);
        self.shift -= 1;
        for number in 0..self.entries.len() {
            if let Found::Vacant(slot, tag) = self.find(&self.entries[number].key()) {
                self.slots[slot] = tag << 24 | (number as u32 + 1);
            }
        }
    }

    fn merge_last_two(&mut self) {
        let (Some(later), Some(earlier)) = (self.pieces.pop(), self.pieces.pop()) else { return };
        let key = |number: &u32| self.entries[*number as usize].key();
        let mut merged = Vec::with_capacity(earlier.len() + later.len());
        let (mut a, mut b) = (earlier.iter().peekable(), later.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let next = if key(x) < key(y) { a.next() } else { b.next() };
            merged.extend(next);
        }
        merged.extend(a.chain(b));
        self.pieces.push(merged);
    }
}

fn empty_slots(count: usize) -> Vec<u32> {
    let slots = vec![0; count];
    prefer_huge_pages(&slots);
    slots
}

enum Found {
    At(usize),
    Vacant(usize, u32),
}

/// A walk over a memtable in key order. It borrows nothing, so that a flush can rest between two steps; the table
/// must not change between them.
pub(crate) struct Walk {
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next entry of one piece; ordered by key, which is unique among pieces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: Key,
    piece: u32,
    at: u32,
}

impl Walk {
    /// The entry the walk stands at.
    pub(crate) fn peek<'a>(&self, table: &'a Memtable) -> Option<&'a Entry> {
        let Reverse(head) = self.heads.peek()?;
        let number = table.pieces.get(head.piece as usize)?.get(head.at as usize)?;
        table.entries.get(*number as usize)
    }

    /// Goes to the next entry.
    pub(crate) fn advance(&mut self, table: &Memtable) {
        if let Some(Reverse(head)) = self.heads.pop() {
            self.push(table, head.piece, head.at + 1);
        }
    }

    fn push(&mut self, table: &Memtable, piece: u32, at: u32) {
        if let Some(&number) = table.pieces[piece as usize].get(at as usize) {
            let key = table.entries[number as usize].key();
            self.heads.push(Reverse(Head { key, piece, at }));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::value_log::record::{Kind, Shape};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(key: u16, seq: u64) -> Entry {
        let key = Key::new(&key.to_be_bytes()).unwrap();
        Entry::new(&key, Shape::new(Kind::Value, 2, 1), 0, seq)
    }

    fn keys_from(table: &Memtable, start: Option<u16>) -> Vec<Key> {
        let start = start.map(|s| Key::new(&s.to_be_bytes()).unwrap());
        let mut walk = table.walk(start.as_ref());
        std::iter::from_fn(|| {
            let key = walk.peek(table)?.key();
            walk.advance(table);
            Some(key)
        })
        .collect()
    }

    #[test]
    fn an_older_record_never_replaces_a_newer_one() {
        let mut table = Memtable::new(16, 0);
        assert_eq!(table.insert(entry(1, 9)), Inserted::New);
        assert_eq!(table.insert(entry(1, 8)), Inserted::Older);
        assert_eq!(table.insert(entry(1, 10)), Inserted::Replaced(entry(1, 9)));
    }

    #[test]
    fn a_table_given_more_than_it_was_made_for_still_finds_everything() {
        let mut table = Memtable::new(16, 1);
        (0..5000).for_each(|k| assert_eq!(table.insert(entry(k, 1)), Inserted::New));
        assert!((0..5000).all(|k| table.get(&entry(k, 1).key()).is_some()));
        assert!(table.get(&entry(5000, 1).key()).is_none());
    }

    proptest! {
        #[test]
        fn a_memtable_is_a_sorted_map(ops in proptest::collection::vec((0u16..300, any::<bool>()), 1..600), start: u16, chunk in 1usize..50) {
            let (mut table, mut model) = (Memtable::new(1000, 7), BTreeMap::new());
            for (seq, (key, list)) in ops.into_iter().enumerate() {
                table.insert(entry(key, seq as u64));
                model.insert(entry(key, 0).key(), seq as u64);
                if list {
                    table.order_all();
                }
            }
            while !table.order_next(chunk) {}
            for (key, seq) in &model {
                prop_assert_eq!(table.get(key).unwrap().seq(), *seq);
            }
            prop_assert_eq!(keys_from(&table, None), model.keys().copied().collect::<Vec<_>>());
            let start = start % 300;
            let from = Key::new(&start.to_be_bytes()).unwrap();
            prop_assert_eq!(keys_from(&table, Some(start)), model.range(from..).map(|(k, _)| *k).collect::<Vec<_>>());
        }
    }
}
