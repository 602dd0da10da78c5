//! The order of a memtable's entries, kept in leaves: which entries are where by key, and sorted only where someone looks.
//!
//! A leaf has the numbers of up to some hundreds of entries whose keys lie between its first key and the next leaf's, in
//! no order; a full one is split at its median. Puts place the entries that came before them, a few at once,
//! so that no one has ever to sort all of them: a walk sorts the leaf it enters.

use crate::index::entry::Entry;
use byway_spec::Key;

/// Entries of a leaf before it is split.
const LEAF_ENTRIES: usize = 256;
/// Leaves of a node before it is split.
const NODE_LEAVES: usize = 128;

/// Numbers of entries, by key.
pub(crate) struct Order {
    /// Where each node begins: the number of a key, 0 for the first.
    firsts: Vec<u128>,
    nodes: Vec<Node>,
    /// Entries before this one are in leaves.
    placed: usize,
    /// Room for the entries of one leaf while it is sorted or split.
    gathered: Vec<Gathered>,
}

struct Node {
    /// Where each leaf begins.
    firsts: Vec<u128>,
    leaves: Vec<Leaf>,
}

struct Leaf {
    numbers: Vec<u32>,
    is_sorted: bool,
}

impl Leaf {
    fn of(numbers: Vec<u32>) -> Self {
        Self { numbers, is_sorted: false }
    }
}

/// An entry's key as numbers, which order as keys do, and its number: the key's number, then its length above the
/// entry's.
type Gathered = (u128, u64);

/// A place between two entries in key order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    node: usize,
    leaf: usize,
    at: usize,
}

impl Order {
    pub(crate) fn new() -> Self {
        let node = Node { firsts: vec![0], leaves: vec![Leaf::of(Vec::new())] };
        Self { firsts: vec![0], nodes: vec![node], placed: 0, gathered: Vec::new() }
    }

    /// Entries that are in order.
    #[inline]
    pub(crate) fn placed(&self) -> usize {
        self.placed
    }

    /// Places up to `count` more of `entries`.
    pub(crate) fn place(&mut self, entries: &[Entry], count: usize) {
        let end = self.placed.saturating_add(count).min(entries.len());
        for (number, entry) in entries.iter().enumerate().take(end).skip(self.placed) {
            self.place_one(entries, number as u32, entry.number());
        }
        self.placed = end;
    }

    /// The place before the first entry at or after `start`. All entries are placed.
    pub(crate) fn seek(&mut self, entries: &[Entry], start: &Key) -> Walk {
        let node = last_at_or_below(&self.firsts, start.number());
        let leaf = last_at_or_below(&self.nodes[node].firsts, start.number());
        self.sort(entries, node, leaf);
        let numbers = &self.nodes[node].leaves[leaf].numbers;
        let at = numbers.partition_point(|&number| entries[number as usize].key() < *start);
        Walk { node, leaf, at }
    }

    /// Empties up to `count` nodes; whether there is nothing left.
    pub(crate) fn empty_some(&mut self, count: usize) -> bool {
        self.nodes.truncate(self.nodes.len().saturating_sub(count));
        let is_empty = self.nodes.is_empty();
        if is_empty {
            *self = Self { gathered: std::mem::take(&mut self.gathered), ..Self::new() };
        }
        is_empty
    }

    /// Appends the next entries behind a place to `into`, at least one and at most `most` if there are any, and goes past
    /// them.
    pub(crate) fn next(&mut self, entries: &[Entry], walk: &mut Walk, into: &mut Vec<Entry>, most: usize) {
        let numbers = self.next_numbers(entries, walk, most);
        into.extend(numbers.iter().map(|&number| entries[number as usize]));
    }

    /// The numbers of the next entries behind a place, as [`next`](Self::next) takes them.
    pub(crate) fn next_numbers(&mut self, entries: &[Entry], walk: &mut Walk, most: usize) -> &[u32] {
        while let Some(len) = self.leaf_len(walk) {
            if walk.at < len {
                self.sort(entries, walk.node, walk.leaf);
                let from = walk.at;
                let numbers = &self.nodes[walk.node].leaves[walk.leaf].numbers;
                walk.at = numbers.len().min(from + most);
                return &numbers[from..walk.at];
            }
            let is_last = walk.leaf + 1 == self.nodes[walk.node].leaves.len();
            let (node, leaf) = if is_last { (walk.node + 1, 0) } else { (walk.node, walk.leaf + 1) };
            *walk = Walk { node, leaf, at: 0 };
        }
        &[]
    }

    fn leaf_len(&self, walk: &Walk) -> Option<usize> {
        Some(self.nodes.get(walk.node)?.leaves.get(walk.leaf)?.numbers.len())
    }

    fn place_one(&mut self, entries: &[Entry], number: u32, key: u128) {
        let node = last_at_or_below(&self.firsts, key);
        let leaf = last_at_or_below(&self.nodes[node].firsts, key);
        let place = &mut self.nodes[node].leaves[leaf];
        place.numbers.push(number);
        place.is_sorted = false;
        if place.numbers.len() >= LEAF_ENTRIES {
            self.split(entries, node, leaf);
        }
    }

    /// Splits a leaf at its median. Keys that differ in their length alone stay together; these are never many.
    fn split(&mut self, entries: &[Entry], node: usize, leaf: usize) {
        let numbers = std::mem::take(&mut self.nodes[node].leaves[leaf].numbers);
        self.gather(entries, &numbers);
        let middle = self.gathered.len() / 2;
        let first = self.gathered.select_nth_unstable(middle).1.0;
        let (mut low, mut high) = (Vec::with_capacity(LEAF_ENTRIES), Vec::with_capacity(LEAF_ENTRIES));
        for (key, number) in &self.gathered {
            let half = if *key < first { &mut low } else { &mut high };
            half.push(*number as u32);
        }
        let place = &mut self.nodes[node];
        place.leaves[leaf] = Leaf::of(low);
        place.firsts.insert(leaf + 1, first);
        place.leaves.insert(leaf + 1, Leaf::of(high));
        if place.leaves.len() > NODE_LEAVES {
            let firsts = place.firsts.split_off(NODE_LEAVES / 2);
            let leaves = place.leaves.split_off(NODE_LEAVES / 2);
            self.firsts.insert(node + 1, firsts[0]);
            self.nodes.insert(node + 1, Node { firsts, leaves });
        }
    }

    fn sort(&mut self, entries: &[Entry], node: usize, leaf: usize) {
        if self.nodes[node].leaves[leaf].is_sorted {
            return;
        }
        let mut numbers = std::mem::take(&mut self.nodes[node].leaves[leaf].numbers);
        self.gather(entries, &numbers);
        self.gathered.sort_unstable();
        numbers.clear();
        numbers.extend(self.gathered.iter().map(|(_, number)| *number as u32));
        self.nodes[node].leaves[leaf] = Leaf { numbers, is_sorted: true };
    }

    fn gather(&mut self, entries: &[Entry], numbers: &[u32]) {
        self.gathered.clear();
        let gather = |&number: &u32| {
            let entry = &entries[number as usize];
            (entry.number(), (entry.shape().key_len() as u64) << 32 | u64::from(number))
        };
        self.gathered.extend(numbers.iter().map(gather));
    }
}

/// The last of ascending `firsts`, of which the first is 0, that is not above `key`.
#[inline]
fn last_at_or_below(firsts: &[u128], key: u128) -> usize {
    firsts.partition_point(|first| *first <= key).saturating_sub(1)
}
