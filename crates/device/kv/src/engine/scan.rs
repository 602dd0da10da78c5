//! Scanning: pairs of a range in key order.
//!
//! A scan first selects its pairs from the index alone, by their lengths, and then reads their records. While one is read,
//! those behind it are prefetched.

use std::mem;

use byway_flash::Cause;
use byway_spec::Key;
use byway_spec::vendor::KeyRange;

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::key_order::KeyOrder;
use crate::list::Visit;
use crate::store::PageStore;
use crate::value_log::read::Wanted;

/// Records that are prefetched ahead of the one that is read.
const AHEAD: usize = 8;

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
        let mut done = Ok(pairs.len());
        pairs.iter().take(AHEAD).for_each(|pair| self.prefetch_selected(store, pair));
        for (at, pair) in pairs.iter().enumerate() {
            if let Some(ahead) = pairs.get(at + AHEAD) {
                self.prefetch_selected(store, ahead);
            }
            if let Err(error) = self.read_pair(store, pair, &mut into, at_ps) {
                (selection.is_end, selection.resume) = (false, None);
                done = if at == 0 { Err(error) } else { Ok(at) };
                break;
            }
        }
        selection.pairs = pairs;
        done
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
