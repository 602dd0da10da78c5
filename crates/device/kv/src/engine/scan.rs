//! Scanning: pairs of a range in key order.
//!
//! A scan first selects its pairs from the index alone, by their lengths, and then reads their values: copies that memtables have, or
//! records. Copies and small records are brought into the processor's cache in groups; while a longer record is read, those behind it
//! are prefetched.

use std::hint::black_box;
use std::mem;

use byway_flash::{Cause, FlashReads};
use byway_spec::Key;
use byway_spec::vendor::KeyRange;
use byway_sys::cacheline::LINE_BYTES;

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::in_ram::ValueIn;
use crate::index::key_order::KeyOrder;
use crate::index::short_values::COPY_MAX_BYTES;
use crate::list::Visit;
use crate::store::PageStore;
use crate::value_log::read::{Sought, Wanted};
use crate::value_log::record::Shape;
use crate::value_log::shared::{PeekedRecord, Records};

/// Small records that are prefetched together.
const GROUP: usize = 16;
/// Copies of values that are brought into the cache together.
const COPIES_TOUCHED: usize = 128;
/// Longer records that are prefetched ahead of the one that is read.
const LONG_AHEAD: usize = 8;
/// Bytes of a small record, at most.
const SMALL_BYTES: u64 = 2048;

/// Pairs that a selection makes room for before it begins, at most.
const RESERVED_PAIRS: usize = 1024;

/// Deleted keys that one selection passes: a bound of its work, as they do not fill a result.
pub const PASSED_MAX: usize = 4096;

/// Pairs that a scan selected, in the order of its range. Reused for the next scan.
#[derive(Debug, Default)]
pub struct Selection {
    pairs: Vec<Selected>,
    is_end: bool,
    resume: Option<Key>,
    passed: usize,
}

/// A selected pair: what its entry says, and how many bytes of its value are wanted.
#[derive(Clone, Copy, Debug)]
struct Selected {
    number: u128,
    address: u64,
    shape: Shape,
    value_bytes: u32,
    value_in: ValueIn,
}

impl Selected {
    #[inline]
    fn of(entry: &Entry, value_in: ValueIn, value_bytes: u32) -> Self {
        let (number, address, shape) = (entry.number(), entry.address(), entry.shape());
        let value_in = if entry.has_copy() { value_in } else { ValueIn::Log };
        Self { number, address, shape, value_bytes, value_in }
    }

    #[inline]
    fn key(&self) -> Key {
        Key::from_number(self.number, self.shape.key_len())
    }

    /// Whether bytes of its value are wanted, and its record is small.
    #[inline]
    fn is_small(&self) -> bool {
        self.value_bytes > 0 && self.shape.record_bytes() <= SMALL_BYTES
    }
}

impl Selection {
    /// Selected pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether no pair was selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The selected keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.pairs.iter().map(Selected::key)
    }

    /// Releases the memory of more than `pairs` pairs.
    pub fn shrink_to(&mut self, pairs: usize) {
        self.pairs.clear();
        self.pairs.shrink_to(pairs);
    }

    /// Whether the range ends with these pairs.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.is_end
    }

    /// The key behind which to go on, where the selection ended because it passed [`PASSED_MAX`] deleted keys.
    #[must_use]
    pub fn resume(&self) -> Option<Key> {
        self.resume
    }

    /// Deleted keys that the selection passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.passed
    }
}

/// What a scan hands over: a pair at once, or its head and then the bytes of its value in pieces.
#[derive(Clone, Copy, Debug)]
pub enum ScanPart<'a> {
    /// A pair begins.
    Pair {
        /// Its key.
        key: Key,
        /// Length of the whole value in bytes.
        value_len: u32,
        /// Bytes of the value that follow.
        value_bytes: u32,
    },
    /// Bytes of the value.
    Value(&'a [u8]),
    /// A pair with all bytes of its value that are wanted.
    Whole {
        /// Its key.
        key: Key,
        /// Length of the whole value in bytes.
        value_len: u32,
        /// Bytes of the value.
        value: &'a [u8],
    },
}

impl KvEngine {
    /// Selects pairs of `range` in its order, and passes at most [`PASSED_MAX`] deleted keys. `wants` is given key and value length of each, and says how many bytes of the
    /// value are wanted; `None` ends the selection before this pair. About `expected` pairs are looked for at once.
    ///
    /// # Errors
    /// [`KvError::DamagedIndex`], errors of the flash.
    pub fn select<S: PageStore>(
        &mut self,
        store: &mut S,
        range: &KeyRange,
        expected: usize,
        selection: &mut Selection,
        mut wants: impl FnMut(&Key, u32) -> Option<u32>,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let order = if range.backward { KeyOrder::Descending } else { KeyOrder::Ascending };
        let visit = Visit { start: range.start.as_ref(), order, expected };
        let mut left_out = range.start.filter(|_| range.exclusive);
        selection.pairs.clear();
        selection.pairs.reserve(expected.min(RESERVED_PAIRS));
        let (mut is_end, mut resume, mut passed) = (true, None, 0);
        let each = |entry: &Entry, value_in| {
            if range.bound.is_some() && !range.is_within_bound(&entry.key()) {
                return false;
            }
            // It is the first one, if it is there.
            if left_out.take().is_some_and(|left_out| entry.is_of(&left_out)) {
                return true;
            }
            let shape = entry.shape();
            if shape.is_tombstone() {
                passed += 1;
                if passed < PASSED_MAX {
                    return true;
                }
                (is_end, resume) = (false, Some(entry.key()));
                return false;
            }
            let Some(value_bytes) = wants(&entry.key(), shape.value_len()) else {
                is_end = false;
                return false;
            };
            selection.pairs.push(Selected::of(entry, value_in, value_bytes));
            true
        };
        self.index.visit(store, visit, each, at_ps)?;
        (selection.is_end, selection.resume, selection.passed) = (is_end, resume, passed);
        Ok(())
    }

    /// Reads the selected pairs and hands them to `into`. Nothing was changed since they were selected. Ends before a pair
    /// whose value cannot be read, unless it is the first; says how many were handed over.
    ///
    /// # Errors
    /// Of the first pair: [`KvError::DamagedRecord`], errors of the flash.
    pub fn read_selected<S: PageStore>(
        &mut self,
        store: &mut S,
        selection: &mut Selection,
        mut into: impl FnMut(ScanPart<'_>),
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        let pairs = mem::take(&mut selection.pairs);
        let mut room = [0; SMALL_BYTES as usize];
        let mut done = 0;
        let failed = loop {
            done += self.read_copies(store, &pairs[done..], &mut into);
            done += self.read_small(store, &pairs[done..], &mut room, &mut into);
            match self.read_others(store, &pairs, &mut done, &mut into, at_ps) {
                Ok(()) if done < pairs.len() => {}
                ended => break ended.err(),
            }
        };
        selection.pairs = pairs;
        match failed {
            Some(error) if done == 0 => Err(error),
            Some(_) => {
                (selection.is_end, selection.resume) = (false, None);
                Ok(done)
            }
            None => Ok(done),
        }
    }

    /// Hands over the first of these pairs, as long as there are copies of their values; how many.
    fn read_copies<S: PageStore>(
        &self,
        store: &S,
        pairs: &[Selected],
        into: &mut impl FnMut(ScanPart<'_>),
    ) -> usize {
        if !store.reads_in_any_order() {
            return 0;
        }
        let mut done = 0;
        for group in pairs.chunks(COPIES_TOUCHED) {
            self.touch_copies(group);
            for pair in group {
                let value_len = pair.shape.value_len();
                let copy = self.index.copy_of(pair.value_in, value_len);
                let wanted = copy.and_then(|copy| copy.get(..pair.value_bytes as usize));
                let Some(value) = wanted else { return done };
                into(ScanPart::Whole { key: pair.key(), value_len, value });
                done += 1;
            }
        }
        done
    }

    /// Brings the first of these pairs' copies into the processor's cache: by loads, as some of many prefetches would be dropped. The
    /// loop is short so that many loads overlap.
    #[inline(never)]
    fn touch_copies(&self, pairs: &[Selected]) {
        let touch = |len: u32| {
            let byte = |pair: &Selected| self.index.copy_of(pair.value_in, len)?.last().copied();
            black_box(pairs.iter().fold(0, |sum, pair| sum ^ byte(pair).unwrap_or_default()));
        };
        let copied = pairs.iter().take_while(|pair| pair.value_in != ValueIn::Log).count();
        let pairs = &pairs[..copied];
        let longest = pairs.iter().map(|pair| pair.value_bytes.min(COPY_MAX_BYTES as u32)).max();
        (1..=longest.unwrap_or_default()).step_by(LINE_BYTES).for_each(touch);
    }

    /// Reads the first of these pairs whose records are small and can be read where they lie; how many. One in two pages is put together
    /// in `room`.
    fn read_small<S: PageStore>(
        &mut self,
        store: &mut S,
        pairs: &[Selected],
        room: &mut [u8],
        into: &mut impl FnMut(ScanPart<'_>),
    ) -> usize {
        let Some(records) = self.log.records(store) else { return 0 };
        let (read, reads) = peek_small(&records, pairs, room, into);
        self.log.count_pages_read(reads.pages);
        store.count_reads(reads);
        read
    }

    /// Reads pair `done` and those behind it, one by one, up to a small one.
    fn read_others<S: PageStore>(
        &mut self,
        store: &mut S,
        pairs: &[Selected],
        done: &mut usize,
        into: &mut impl FnMut(ScanPart<'_>),
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let may_peek = store.reads_in_any_order();
        let first = *done;
        pairs.iter().skip(first).take(LONG_AHEAD).for_each(|pair| self.prefetch_selected(store, pair));
        while let Some(pair) = pairs.get(*done) {
            let is_other = !may_peek || !pair.is_small();
            if *done > first && !is_other {
                break;
            }
            if let Some(ahead) = pairs.get(*done + LONG_AHEAD) {
                self.prefetch_selected(store, ahead);
            }
            self.read_pair(store, pair, into, at_ps)?;
            *done += 1;
        }
        Ok(())
    }

    #[inline]
    fn prefetch_selected<S: PageStore>(&self, store: &S, pair: &Selected) {
        if pair.value_bytes > 0 {
            self.log.prefetch(store, pair.address, pair.shape.record_bytes());
        }
    }

    #[inline]
    fn read_pair<S: PageStore>(
        &mut self,
        store: &mut S,
        pair: &Selected,
        into: &mut impl FnMut(ScanPart<'_>),
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Selected { address, shape, value_bytes, .. } = *pair;
        let key = pair.key();
        into(ScanPart::Pair { key, value_len: shape.value_len(), value_bytes });
        if value_bytes == 0 {
            return Ok(());
        }
        let wanted = Wanted::part(0, u64::from(value_bytes));
        let mut piece = |bytes: &[u8], _: &mut u64| {
            into(ScanPart::Value(bytes));
            Ok::<(), KvError>(())
        };
        let sought = Sought { key: &key, address, shape };
        self.log.read_sought(store, &sought, wanted, Cause::Host, &mut piece, at_ps)
    }
}

/// Hands over the first of these pairs whose records are small and can be read where they lie; how many, and what was read.
fn peek_small(
    records: &Records<'_>,
    pairs: &[Selected],
    room: &mut [u8],
    into: &mut impl FnMut(ScanPart<'_>),
) -> (usize, FlashReads) {
    let (mut done, mut reads) = (0, FlashReads::default());
    let mut group = [PeekedRecord::default(); GROUP];
    loop {
        let pairs = &pairs[done..];
        let count = look_ahead(records, pairs, &mut group);
        touch_records(&group[..count], pairs);
        for (record, pair) in group[..count].iter().zip(pairs) {
            let (key, shape) = (pair.key(), pair.shape);
            let sought = Sought { key: &key, address: pair.address, shape };
            let value = record.value(&sought, room);
            let Some(value) = value.and_then(|value| value.get(..pair.value_bytes as usize)) else {
                return (done, reads);
            };
            reads += record.reads;
            into(ScanPart::Whole { key, value_len: shape.value_len(), value });
            done += 1;
        }
        if count < GROUP {
            return (done, reads);
        }
    }
}

/// Finds the records of the first of these pairs, as long as they are small and can be looked at; how many.
#[inline]
fn look_ahead<'a>(records: &Records<'a>, pairs: &[Selected], group: &mut [PeekedRecord<'a>; GROUP]) -> usize {
    let mut count = 0;
    for (place, pair) in group.iter_mut().zip(pairs) {
        if !pair.is_small() {
            break;
        }
        let Some(record) = records.peek(pair.address, pair.shape) else { break };
        *place = record;
        count += 1;
    }
    count
}

/// Brings records into the processor's cache: by loads, as some of many prefetches would be dropped.
#[inline(never)]
fn touch_records(group: &[PeekedRecord<'_>], pairs: &[Selected]) {
    let longest = pairs.iter().take(group.len()).map(|pair| pair.shape.record_bytes()).max();
    // A step further, which takes the last line of each.
    for at in (0..longest.unwrap_or_default() as usize + LINE_BYTES).step_by(LINE_BYTES) {
        black_box(group.iter().fold(0, |sum, record| sum ^ record.byte(at)));
    }
}
