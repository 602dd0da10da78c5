//! The key order of a memtable's entries, in leaves that are sorted only when they are read.
//!
//! A leaf has up to some hundreds of entries whose keys lie between its first key and the next leaf's, in no order; a full
//! one is split at its median. Of each it has a [`Word`]: where its key lies, as far as 40 bits show, and its number. So
//! leaves are sorted and split without a look at the entries, which lie anywhere in memory; only those of one place are
//! looked at. Puts place the entries that came before them, a few at once, so that no one has ever to sort all of them: a
//! walk sorts the leaf it enters.

use byway_sys::cacheline::{LINE_BYTES, prefetch};

use crate::index::entry::Entry;
use byway_spec::Key;

/// Entries of a leaf before it is split.
const LEAF_ENTRIES: usize = 256;
/// Leaves of a node before it is split.
const NODE_LEAVES: usize = 128;
/// Words of a cache line.
const WORDS_PER_LINE: usize = LINE_BYTES / size_of::<Word>();
/// Bits of a word that name the entry.
const NUMBER_BITS: u32 = 24;
/// Bits of a word that hold its place.
const PLACE_BITS: u32 = 64 - NUMBER_BITS;
const PLACE_MAX: u64 = (1 << PLACE_BITS) - 1;

/// Numbers of entries, by key.
pub(crate) struct Order {
    /// Where each node begins: the number of a key, 0 for the first.
    firsts: Vec<u128>,
    nodes: Vec<Node>,
    /// Entries before this one are in leaves.
    placed: usize,
    /// Room for the entries of one leaf while it is sorted or split.
    gathered: Vec<Gathered>,
    words: Vec<Word>,
}

struct Node {
    /// Where each leaf begins.
    firsts: Vec<u128>,
    leaves: Vec<Leaf>,
}

struct Leaf {
    words: Vec<Word>,
    scale: Scale,
    is_sorted: bool,
}

/// The place of an entry's key on the scale of its leaf, and below it the entry's number.
type Word = u64;

/// An entry's key as numbers, which order as keys do, and its number: the key's number, then its length above the
/// entry's.
type Gathered = (u128, u64);

/// A ruler along the keys: places grow as keys do, and keys of one place are distinguished by their entries.
#[derive(Clone, Copy, Debug)]
struct Scale {
    base: u128,
    shift: u32,
}

/// A place between two entries in key order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    node: usize,
    leaf: usize,
    at: usize,
}

impl Scale {
    /// All keys there are.
    const WHOLE: Self = Self { base: 0, shift: 128 - PLACE_BITS };

    /// A scale that distinguishes keys from `least` to `most` as well as it can. Keys beyond them share its ends.
    fn of(least: u128, most: u128) -> Self {
        let bits = 128 - (most - least).leading_zeros();
        Self { base: least, shift: bits.saturating_sub(PLACE_BITS - 1) }
    }

    #[inline]
    fn place(self, key: u128) -> u64 {
        (key.saturating_sub(self.base) >> self.shift).min(PLACE_MAX.into()) as u64
    }

    #[inline]
    fn word(self, key: u128, number: u32) -> Word {
        self.place(key) << NUMBER_BITS | Word::from(number)
    }

    /// The first key of a place that a key has.
    fn first_of(self, place: u64) -> u128 {
        self.base + (u128::from(place) << self.shift)
    }
}

#[inline]
fn place_of(word: Word) -> u64 {
    word >> NUMBER_BITS
}

#[inline]
fn number_of(word: Word) -> u32 {
    word as u32 & ((1 << NUMBER_BITS) - 1)
}

impl Leaf {
    fn new(scale: Scale) -> Self {
        Self { words: Vec::with_capacity(LEAF_ENTRIES), scale, is_sorted: true }
    }

    #[inline]
    fn push(&mut self, word: Word) {
        self.is_sorted &= self.words.last().is_none_or(|last| place_of(*last) < place_of(word));
        self.words.push(word);
    }

    /// A leaf of these entries, on a scale of their own.
    fn of(gathered: &[Gathered]) -> Self {
        let keys = || gathered.iter().map(|(key, _)| *key);
        let scale = match (keys().min(), keys().max()) {
            (Some(least), Some(most)) => Scale::of(least, most),
            _ => Scale::WHOLE,
        };
        let mut leaf = Self::new(scale);
        gathered.iter().for_each(|(key, number)| leaf.push(scale.word(*key, *number as u32)));
        leaf
    }
}

impl Order {
    pub(crate) fn new() -> Self {
        let node = Node { firsts: vec![0], leaves: vec![Leaf::new(Scale::WHOLE)] };
        Self { firsts: vec![0], nodes: vec![node], placed: 0, gathered: Vec::new(), words: Vec::new() }
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
        let Leaf { words, scale, .. } = &self.nodes[node].leaves[leaf];
        (0..words.len()).step_by(WORDS_PER_LINE).for_each(|at| prefetch(words, at));
        let place = scale.place(start.number());
        let from = words.partition_point(|&word| place_of(word) < place);
        let is_before = |word: &Word| entries[number_of(*word) as usize].key() < *start;
        let at = from
            + words[from..].iter().take_while(|word| place_of(**word) == place && is_before(word)).count();
        Walk { node, leaf, at }
    }

    /// The place behind the last entry at or before `start`. All entries are placed.
    pub(crate) fn seek_back(&mut self, entries: &[Entry], start: &Key) -> Walk {
        let mut walk = self.seek(entries, start);
        let words = &self.nodes[walk.node].leaves[walk.leaf].words;
        let is_there = |word: &Word| entries[number_of(*word) as usize].is_of(start);
        walk.at += usize::from(words.get(walk.at).is_some_and(is_there));
        walk
    }

    /// The place behind all entries.
    pub(crate) fn end(&self) -> Walk {
        self.end_of_node(self.nodes.len() - 1)
    }

    /// The place behind the entries of a node, of which there is at least one leaf.
    fn end_of_node(&self, node: usize) -> Walk {
        let leaves = &self.nodes[node].leaves;
        let leaf = leaves.len() - 1;
        Walk { node, leaf, at: leaves[leaf].words.len() }
    }

    /// The numbers of the entries before a place in descending order, at least one and at most `most` if there are any. Goes
    /// before them.
    pub(crate) fn previous(
        &mut self,
        entries: &[Entry],
        walk: &mut Walk,
        most: usize,
    ) -> impl Iterator<Item = u32> {
        while walk.at == 0 && (walk.node, walk.leaf) != (0, 0) {
            *walk = match (walk.node, walk.leaf) {
                (node, 0) => self.end_of_node(node - 1),
                (node, leaf) => {
                    let leaf = leaf - 1;
                    Walk { node, leaf, at: self.nodes[node].leaves[leaf].words.len() }
                }
            };
        }
        self.sort(entries, walk.node, walk.leaf);
        let words = &self.nodes[walk.node].leaves[walk.leaf].words;
        let to = walk.at;
        walk.at = to.saturating_sub(most);
        words[walk.at..to].iter().rev().map(|word| number_of(*word))
    }

    /// Nodes of leaves.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Empties up to `count` nodes; whether there is nothing left.
    pub(crate) fn empty_some(&mut self, count: usize) -> bool {
        self.nodes.truncate(self.nodes.len().saturating_sub(count));
        let is_empty = self.nodes.is_empty();
        if is_empty {
            let (gathered, words) = (std::mem::take(&mut self.gathered), std::mem::take(&mut self.words));
            *self = Self { gathered, words, ..Self::new() };
        }
        is_empty
    }

    /// The numbers of the next entries behind a place, at least one and at most `most` if there are any. Goes past them.
    pub(crate) fn next(
        &mut self,
        entries: &[Entry],
        walk: &mut Walk,
        most: usize,
    ) -> impl Iterator<Item = u32> {
        self.next_words(entries, walk, most).iter().map(|word| number_of(*word))
    }

    /// The numbers of entries behind a place, in its leaf and in the one after it. These leaves need not be sorted yet.
    pub(crate) fn behind(&self, walk: &Walk) -> impl Iterator<Item = u32> {
        let here = self.leaf(walk.node, walk.leaf).and_then(|leaf| leaf.words.get(walk.at..));
        let after = self.leaf(walk.node, walk.leaf + 1).or_else(|| self.leaf(walk.node + 1, 0));
        let words = here.into_iter().flatten().chain(after.into_iter().flat_map(|leaf| &leaf.words));
        words.map(|word| number_of(*word))
    }

    fn next_words(&mut self, entries: &[Entry], walk: &mut Walk, most: usize) -> &[Word] {
        while let Some(leaf) = self.leaf(walk.node, walk.leaf) {
            if walk.at < leaf.words.len() {
                self.sort(entries, walk.node, walk.leaf);
                let from = walk.at;
                let words = &self.nodes[walk.node].leaves[walk.leaf].words;
                walk.at = words.len().min(from + most);
                return &words[from..walk.at];
            }
            let is_last = walk.leaf + 1 == self.nodes[walk.node].leaves.len();
            let (node, leaf) = if is_last { (walk.node + 1, 0) } else { (walk.node, walk.leaf + 1) };
            *walk = Walk { node, leaf, at: 0 };
        }
        &[]
    }

    fn leaf(&self, node: usize, leaf: usize) -> Option<&Leaf> {
        self.nodes.get(node)?.leaves.get(leaf)
    }

    #[inline]
    fn place_one(&mut self, entries: &[Entry], number: u32, key: u128) {
        let node = last_at_or_below(&self.firsts, key);
        let leaf = last_at_or_below(&self.nodes[node].firsts, key);
        let place = &mut self.nodes[node].leaves[leaf];
        place.push(place.scale.word(key, number));
        if place.words.len() >= LEAF_ENTRIES {
            self.split(entries, node, leaf);
        }
    }

    /// Splits a leaf at its median, as far as places show; else by the keys. Keys that differ in their length alone stay
    /// together; these are never many.
    #[cold]
    fn split(&mut self, entries: &[Entry], node: usize, leaf: usize) {
        let place = &mut self.nodes[node];
        let whole = &mut place.leaves[leaf];
        self.words.clone_from(&whole.words);
        let middle = self.words.len() / 2;
        let median = place_of(*self.words.select_nth_unstable(middle).1);
        let is_low = |word: &Word| place_of(*word) < median;
        let low = self.words.iter().filter(|word| is_low(word)).count();
        let (first, low, high) = if low >= LEAF_ENTRIES / 4 {
            let (mut low, mut high) = (Leaf::new(whole.scale), Leaf::new(whole.scale));
            whole.words.iter().for_each(|word| if is_low(word) { low.push(*word) } else { high.push(*word) });
            (whole.scale.first_of(median), low, high)
        } else {
            gather(&mut self.gathered, entries, &whole.words);
            self.gathered.sort_unstable();
            let first = self.gathered[middle].0;
            let (low, high) = self.gathered.split_at(self.gathered.partition_point(|(key, _)| *key < first));
            (first, Leaf::of(low), Leaf::of(high))
        };
        place.leaves[leaf] = low;
        place.firsts.insert(leaf + 1, first);
        place.leaves.insert(leaf + 1, high);
        self.split_node(node);
    }

    fn split_node(&mut self, node: usize) {
        let place = &mut self.nodes[node];
        if place.leaves.len() > NODE_LEAVES {
            let firsts = place.firsts.split_off(NODE_LEAVES / 2);
            let leaves = place.leaves.split_off(NODE_LEAVES / 2);
            self.firsts.insert(node + 1, firsts[0]);
            self.nodes.insert(node + 1, Node { firsts, leaves });
        }
    }

    fn sort(&mut self, entries: &[Entry], node: usize, leaf: usize) {
        let Leaf { words, is_sorted, .. } = &mut self.nodes[node].leaves[leaf];
        if *is_sorted {
            return;
        }
        words.sort_unstable();
        for same in words.chunk_by_mut(|one, other| place_of(*one) == place_of(*other)) {
            if same.len() > 1 {
                sort_by_key(&mut self.gathered, entries, same);
            }
        }
        *is_sorted = true;
    }
}

/// Sorts words of one place by the keys of their entries.
#[cold]
fn sort_by_key(gathered: &mut Vec<Gathered>, entries: &[Entry], same: &mut [Word]) {
    let place = same.first().map_or(0, |word| place_of(*word));
    gather(gathered, entries, same);
    gathered.sort_unstable();
    for (word, (_, number)) in same.iter_mut().zip(gathered) {
        *word = place << NUMBER_BITS | Word::from(*number as u32);
    }
}

fn gather(gathered: &mut Vec<Gathered>, entries: &[Entry], words: &[Word]) {
    gathered.clear();
    gathered.extend(words.iter().map(|word| {
        let number = number_of(*word);
        let entry = &entries[number as usize];
        (entry.number(), (entry.shape().key_len() as u64) << 32 | u64::from(number))
    }));
}

/// The last of ascending `firsts`, of which the first is not above `key`, that is not above it. Where keys come at random
/// a processor guesses wrong at every other step, so there is nothing to guess.
#[inline]
fn last_at_or_below(firsts: &[u128], key: u128) -> usize {
    let (mut at, mut len) = (0, firsts.len());
    while len > 1 {
        let half = len / 2;
        at = std::hint::select_unpredictable(firsts[at + half] <= key, at + half, at);
        len -= half;
    }
    at
}
