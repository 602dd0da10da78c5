//! Ranges of keys, and what a scan of one brings.

use std::ops::{Bound, RangeBounds};

use byway_core::{Key, Result};
use byway_spec::vendor::{KeyRange as Span, WHOLE_VALUE};

/// A range of keys in bytewise order, whichever way it is read.
///
/// ```
/// use byway::{Key, KeyRange};
///
/// let range = KeyRange::new(&b"a"[..]..=&b"c"[..])?;
/// assert!(range.contains(&Key::new(b"c")?) && !range.contains(&Key::new(b"ca")?));
/// assert!(KeyRange::prefix(b"c")?.contains(&Key::new(b"ca")?));
/// # Ok::<(), byway::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    start: Bound<Key>,
    end: Bound<Key>,
}

impl KeyRange {
    /// All keys.
    pub const ALL: Self = Self { start: Bound::Unbounded, end: Bound::Unbounded };

    /// The keys of a range of byte strings.
    ///
    /// # Errors
    /// A bound of no bytes, or of more than a key can have.
    pub fn new<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Result<Self> {
        let key = |bound: Bound<&K>| -> Result<Bound<Key>> {
            Ok(match bound {
                Bound::Included(key) => Bound::Included(Key::new(key.as_ref())?),
                Bound::Excluded(key) => Bound::Excluded(Key::new(key.as_ref())?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok(Self { start: key(range.start_bound())?, end: key(range.end_bound())? })
    }

    /// The keys that begin with `prefix`: all, if it is empty.
    ///
    /// # Errors
    /// A prefix that is longer than a key can be.
    pub fn prefix(prefix: &[u8]) -> Result<Self> {
        let span = Span::prefix(prefix, false)?;
        Ok(Self {
            start: span.start.map_or(Bound::Unbounded, Bound::Included),
            end: span.bound.map_or(Bound::Unbounded, Bound::Excluded),
        })
    }

    /// The same from `start` on, where that is behind its own start.
    #[must_use]
    pub fn from(self, start: Option<Key>) -> Self {
        match start {
            Some(start) if self.contains(&start) || self.is_before(&start) => {
                Self { start: Bound::Included(start), ..self }
            }
            _ => self,
        }
    }

    /// What is left behind a key of the range.
    pub(crate) fn behind(self, key: Key) -> Self {
        Self { start: Bound::Excluded(key), ..self }
    }

    /// Whether a key is in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        (self.start, self.end).contains(key)
    }

    /// Whether all of the range is before a key.
    fn is_before(&self, key: &Key) -> bool {
        match self.end {
            Bound::Unbounded => false,
            Bound::Included(end) => end < *key,
            Bound::Excluded(end) => end <= *key,
        }
    }

    /// Whether the bounds leave room for no key.
    pub(crate) fn is_empty(&self) -> bool {
        match (self.start, self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
            _ => false,
        }
    }

    /// The range as commands name it.
    pub(crate) fn span(&self, backward: bool) -> Span {
        let (first, last) = if backward { (self.end, self.start) } else { (self.start, self.end) };
        let (start, exclusive) = match first {
            Bound::Included(key) => (Some(key), false),
            Bound::Excluded(key) => (Some(key), true),
            Bound::Unbounded => (None, false),
        };
        // Forward, the bound is the first key outside; backward, the last inside.
        let bound = match last {
            Bound::Unbounded => None,
            Bound::Included(key) if backward => Some(key),
            Bound::Excluded(key) if !backward => Some(key),
            Bound::Included(key) | Bound::Excluded(key) => next_key(&key),
        };
        Span { start, exclusive, bound, backward }
    }
}

/// The lowest key above `key`; `None` behind the last of all.
fn next_key(key: &Key) -> Option<Key> {
    match key.len() {
        // No longer key begins with it.
        Key::MAX_BYTES => Span::prefix(key.as_bytes(), false).ok()?.bound,
        len => Some(Key::from_number(key.number(), len + 1)),
    }
}

/// What a scan brings, and in which order.
///
/// ```
/// let options = byway::ScanOptions::default().backward(true).limit(10).value_bytes(64);
/// assert!(options.backward && !options.keys_only);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// From the last key to the first.
    pub backward: bool,
    /// Keys alone: every value is empty.
    pub keys_only: bool,
    /// Most bytes of each value, up to 65,534; `None` for whole values.
    pub value_bytes: Option<u16>,
    /// Most pairs; `None` for all.
    pub limit: Option<u64>,
}

impl ScanOptions {
    byway_sys::setters! {
        /// From the last key to the first.
        backward: bool;
        /// Keys alone: every value is empty.
        keys_only: bool;
        /// Most bytes of each value, up to 65,534.
        value_bytes: impl Into<Option<u16>>;
        /// Most pairs.
        limit: impl Into<Option<u64>>;
    }

    /// Bytes of each value, as commands say it.
    pub(crate) fn value_prefix(&self) -> u16 {
        match (self.keys_only, self.value_bytes) {
            (true, _) => 0,
            (false, Some(bytes)) => bytes.min(WHOLE_VALUE - 1),
            (false, None) => WHOLE_VALUE,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn next_key_is_the_lowest_above() {
        assert_eq!(next_key(&key(b"a")), Some(key(b"a\0")));
        assert_eq!(next_key(&key(&[0xff; 16])), None);
        let mut long = [7; 16];
        long[15] = 0xff;
        let mut above = [7; 15];
        above[14] = 8;
        assert_eq!(next_key(&key(&long)), Some(key(&above)));
    }

    #[test]
    fn spans_hold_what_the_range_holds_whichever_way() {
        let keys = [&b"a"[..], b"a\0", b"ab", b"b", b"b\0", b"c"].map(key);
        let bounds = |n: usize| [Bound::Unbounded, Bound::Included(keys[n]), Bound::Excluded(keys[n])];
        for (start, end) in (0..6).flat_map(|from| (from..6).map(move |to| (from, to))) {
            for (start, end) in
                bounds(start).into_iter().flat_map(|start| bounds(end).map(|end| (start, end)))
            {
                let range = KeyRange { start, end };
                for (key, backward) in keys.iter().flat_map(|key| [(key, false), (key, true)]) {
                    let span = range.span(backward);
                    let is_behind_start = span.start.is_none_or(|start| match (key == &start, backward) {
                        (true, _) => !span.exclusive,
                        (false, false) => start < *key,
                        (false, true) => *key < start,
                    });
                    let holds = is_behind_start && span.is_within_bound(key);
                    assert_eq!(holds, range.contains(key), "{range:?} {key:?} {backward}");
                }
            }
        }
    }
}
