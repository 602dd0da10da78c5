//! Scanning: pairs of a range in key order.
//!
//! A scan first selects its pairs from the index alone, by their lengths, and then reads their records. While one is read,
//! those behind it are prefetched.

use std::mem;

use byway_flash::{Cause, FlashReads};
use byway_spec::Key;
use byway_spec::vendor::KeyRange;

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::key_order::KeyOrder;
use crate::list::Visit;
use crate::store::PageStore;
use crate::value_log::read::{Sought, Wanted};
use crate::value_log::shared::PeekedRecord;

/// Small records that are prefetched ahead of the one that is read.
const AHEAD: usize = 16;
/// Longer records that are prefetched ahead of the one that is read.
const LONG_AHEAD: usize = 8;
/// Bytes of a small record, at most.
const SMALL_BYTES: u64 = 2048;

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

/// A selected pair, and how many bytes of its value are wanted.
#[derive(Clone, Copy, Debug)]
struct Selected {
    entry: Entry,
    value_bytes: u32,
}

impl Selected {
    /// Whether bytes of its value are wanted, and its record is small.
    #[inline]
    fn is_small(&self) -> bool {
        self.value_bytes > 0 && self.entry.shape().record_bytes() <= SMALL_BYTES
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

/// What a scan hands over: for each pair its head, then the bytes of its value in pieces.
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
        let left_out = range.start.filter(|_| range.exclusive);
        selection.pairs.clear();
        let (mut is_end, mut resume, mut passed) = (true, None, 0);
        let each = |entry: &Entry| {
            let key = entry.key();
            if !range.is_within_bound(&key) {
                return false;
            }
            if left_out.is_some_and(|left_out| left_out == key) {
                return true;
            }
            if entry.shape().is_tombstone() {
                passed += 1;
                if passed < PASSED_MAX {
                    return true;
                }
                (is_end, resume) = (false, Some(key));
                return false;
            }
            let Some(value_bytes) = wants(&key, entry.shape().value_len()) else {
                is_end = false;
                return false;
            };
            selection.pairs.push(Selected { entry: *entry, value_bytes });
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
        let mut done = 0;
        let failed = loop {
            done += self.read_small(store, &pairs[done..], &mut into);
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

    /// Reads the first of these pairs whose records are small and can be read where they lie; how many.
    fn read_small<S: PageStore>(
        &mut self,
        store: &mut S,
        pairs: &[Selected],
        into: &mut impl FnMut(ScanPart<'_>),
    ) -> usize {
        if !store.reads_in_any_order() {
            return 0;
        }
        let (read, reads) = self.peek_small(store, pairs, into);
        self.log.count_pages_read(reads.pages);
        store.count_reads(reads);
        read
    }

    fn peek_small<S: PageStore>(
        &self,
        store: &S,
        pairs: &[Selected],
        into: &mut impl FnMut(ScanPart<'_>),
    ) -> (usize, FlashReads) {
        let mut reads = FlashReads::default();
        let mut ahead = [None; AHEAD];
        for (slot, pair) in ahead.iter_mut().zip(pairs) {
            *slot = self.look_ahead(store, pair);
        }
        for (at, pair) in pairs.iter().enumerate() {
            let next = pairs.get(at + AHEAD).and_then(|pair| self.look_ahead(store, pair));
            let record = mem::replace(&mut ahead[at % AHEAD], next);
            let Selected { entry, value_bytes } = pair;
            let (key, shape) = (entry.key(), entry.shape());
            let sought = Sought { key: &key, address: entry.address(), shape };
            let value = record.and_then(|record| record.value(&sought)?.get(..*value_bytes as usize));
            let (Some(record), Some(value)) = (record, value) else { return (at, reads) };
            reads.pages += u64::from(record.flash_bytes > 0);
            reads.bytes += record.flash_bytes;
            into(ScanPart::Pair { key, value_len: shape.value_len(), value_bytes: *value_bytes });
            into(ScanPart::Value(value));
        }
        (pairs.len(), reads)
    }

    /// A small record that is soon read, where it lies; it is prefetched.
    #[inline]
    fn look_ahead<'a, S: PageStore>(&self, store: &'a S, pair: &Selected) -> Option<PeekedRecord<'a>> {
        if !pair.is_small() {
            return None;
        }
        let (key, shape) = (pair.entry.key(), pair.entry.shape());
        let sought = Sought { key: &key, address: pair.entry.address(), shape };
        let record = self.log.peek_record(store, &sought)?;
        record.prefetch();
        Some(record)
    }

    /// Reads pair `done` and those behind it, one by one, up to a small one that lies in one page.
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
            let is_other = !may_peek || !pair.is_small() || self.spans_pages(pair);
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
    fn spans_pages(&self, pair: &Selected) -> bool {
        self.log.spans_pages(pair.entry.address(), pair.entry.shape())
    }

    #[inline]
    fn prefetch_selected<S: PageStore>(&self, store: &S, pair: &Selected) {
        if pair.value_bytes > 0 {
            self.log.prefetch(store, pair.entry.address(), pair.entry.shape().record_bytes());
        }
    }

    #[inline]
    fn read_pair<S: PageStore>(
        &mut self,
        store: &mut S,
        Selected { entry, value_bytes }: &Selected,
        into: &mut impl FnMut(ScanPart<'_>),
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let (key, value_len) = (entry.key(), entry.shape().value_len());
        into(ScanPart::Pair { key, value_len, value_bytes: *value_bytes });
        if *value_bytes == 0 {
            return Ok(());
        }
        let wanted = Wanted { from: 0, to: u64::from(*value_bytes) };
        let mut piece = |bytes: &[u8], _: &mut u64| {
            into(ScanPart::Value(bytes));
            Ok::<(), KvError>(())
        };
        self.log.read_value(store, entry, wanted, Cause::Host, &mut piece, at_ps)
    }
}
