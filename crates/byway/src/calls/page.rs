//! One page of a scan: asked for by one Scan, or put together from a List and Retrieves on a device without it.

use std::ops::Range;

use byway_core::results::{Pair, ResultReader};
use byway_core::{Buffer, Error, ErrorKind, Key, KvCommand, Result};
use byway_spec::vendor::{KeyRange as Span, ScanHeader, ScanPair, WHOLE_VALUE};
use zerocopy::IntoBytes;

use crate::calls::kv::{Kv, LIST_MAX_BYTES};

/// Bytes of the first page of a scan without a limit; each further one has twice as many, up to [`PAGE_MAX_BYTES`].
pub(crate) const PAGE_BYTES: usize = 4 * 1024;

/// Bytes of the longest page.
pub(crate) const PAGE_MAX_BYTES: usize = 256 * 1024;

/// Bytes of a key's entry in a List, at most.
const LISTED_BYTES: usize = 20;

/// Fewest and most keys of a page made of Retrieves.
const LISTED_MIN: usize = 32;
const LISTED_MAX: usize = 2048;

/// Bytes of a page made of Retrieves from which on no more pairs are added to it.
const COMPOSED_BYTES: usize = 1024 * 1024;

/// Room for each value that is read in a page made of Retrieves; a longer value is read by itself.
const VALUE_ROOM_BYTES: usize = 4096;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// What is left of the range.
    pub span: Span,
    /// Most pairs, 0 for as many as fit.
    pub pairs: u16,
    /// Bytes of each value, or [`WHOLE_VALUE`].
    pub value_prefix: u16,
    /// Bytes of the page, as a measure where pages are made of Retrieves.
    pub bytes: usize,
}

/// A page, and how far it was read.
#[derive(Default)]
pub(crate) struct Page {
    result: Bytes,
    reader: ResultReader,
    is_end: bool,
    /// The last key that was listed for it, whose pair may be gone.
    last: Option<Key>,
}

/// The result of a Scan, or one that was put together.
#[derive(Default)]
struct Bytes {
    device: Option<Buffer>,
    composed: Vec<u8>,
}

impl Bytes {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match &self.device {
            Some(buffer) => buffer.as_slice(),
            None => &self.composed,
        }
    }
}

impl Page {
    /// The next pair; `None` behind the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Pair>> {
        self.reader.next_pair(self.result.as_slice())
    }

    /// The next pair, if it is a [plain one](ResultReader::next_plain).
    #[inline]
    pub(crate) fn next_plain(&mut self, after: u128) -> Option<(usize, u128, usize)> {
        self.reader.next_plain(self.result.as_slice(), after)
    }

    /// Key and value of a plain pair.
    #[inline]
    pub(crate) fn plain(&self, key_at: usize, value_len: usize) -> (&[u8], &[u8]) {
        let pair = self.result.as_slice().get(key_at..key_at + Key::MAX_BYTES + value_len);
        pair.and_then(|pair| pair.split_at_checked(Key::MAX_BYTES)).unwrap_or_default()
    }

    /// Bytes of this page, of a value.
    #[inline]
    pub(crate) fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.both(at..at + len, 0..0).0
    }

    /// Bytes of this page, of a key and of its value.
    #[inline]
    pub(crate) fn both(&self, key: Range<usize>, value: Range<usize>) -> (&[u8], &[u8]) {
        let bytes = self.result.as_slice();
        (bytes.get(key).unwrap_or_default(), bytes.get(value).unwrap_or_default())
    }

    /// Whether the range ends with this page.
    pub(crate) const fn is_end(&self) -> bool {
        self.is_end
    }

    /// The last key that the page speaks for, where its pair may not be in it.
    pub(crate) const fn last(&self) -> Option<Key> {
        self.last
    }

    /// The key behind which the device goes on, if it is none of a pair.
    pub(crate) const fn resume(&self) -> Option<Key> {
        self.reader.resume()
    }

    /// Bytes of a pair on average, 0 of an empty page.
    pub(crate) fn pair_bytes(&self) -> usize {
        self.reader.bytes().checked_div(self.reader.left() as usize).unwrap_or(0)
    }
}

impl Kv {
    /// Asks for a page.
    pub(crate) fn page(&mut self, ask: &Ask) -> Result<Page> {
        if self.can().scan { self.scanned(ask) } else { self.listed(ask) }
    }

    fn scanned(&mut self, ask: &Ask) -> Result<Page> {
        let into = self.buffer(ask.bytes)?;
        let (nsid, range) = (self.nsid(), ask.span);
        let (pairs, value_prefix) = (ask.pairs, ask.value_prefix);
        let scan = KvCommand::Scan { nsid, range, pairs, value_prefix, into };
        let outcome = self.execute(scan.into()).map_err(|error| error.doing("scan"))?;
        let buffer = outcome.buffer.ok_or_else(|| wrong("a scan whose buffer did not come back"))?;
        let reader = ResultReader::new(buffer.as_slice())?;
        if reader.left() == 0 && !reader.is_end() && reader.resume().is_none() {
            return Err(wrong("a scan that has no pairs, no end and no key to resume behind"));
        }
        let result = Bytes { device: Some(buffer), composed: Vec::new() };
        Ok(Page { result, reader, is_end: reader.is_end(), last: None })
    }

    fn listed(&mut self, ask: &Ask) -> Result<Page> {
        let most = match ask.pairs {
            0 => (ask.bytes / self.pair_bytes()).clamp(LISTED_MIN, LISTED_MAX),
            pairs => usize::from(pairs).min(LISTED_MAX),
        };
        let (keys, is_end) = match ask.span.backward {
            false => self.keys_forward(&ask.span, most)?,
            true => self.keys_backward(&ask.span, most)?,
        };
        let (mut pairs, mut last) = (Composed::default(), None);
        for some in keys.chunks(LISTED_MIN) {
            if !pairs.has_room() {
                break;
            }
            self.add_pairs(&mut pairs, some, ask.value_prefix)?;
            last = some.last().copied();
        }
        pairs.into_page(is_end && last == keys.last().copied(), last)
    }

    /// Up to `most` keys of a range from its start on, and whether it ends with them.
    fn keys_forward(&mut self, span: &Span, most: usize) -> Result<(Vec<Key>, bool)> {
        let mut page = self.list(span.start, ((most + 2) * LISTED_BYTES).min(LIST_MAX_BYTES))?;
        let mut keys = Vec::with_capacity(most.min(page.left() as usize));
        while page.left() > 0 && keys.len() < most {
            let key = page.next()?;
            if span.exclusive && span.start == Some(key) {
                continue;
            }
            if keys.last().or(span.start.as_ref()).is_some_and(|before| key < *before) {
                return Err(wrong("a list whose keys are out of order"));
            }
            if !span.is_within_bound(&key) {
                return Ok((keys, true));
            }
            keys.push(key);
        }
        let is_end = keys.is_empty();
        Ok((keys, is_end))
    }

    /// Adds the pairs of these keys. A key that is gone meanwhile is left out.
    fn add_pairs(&mut self, pairs: &mut Composed, keys: &[Key], value_prefix: u16) -> Result<()> {
        if value_prefix == 0 {
            keys.iter().for_each(|key| pairs.add(key, 0, &[]));
            return Ok(());
        }
        let mut values = Values::new(keys.len());
        let room = if value_prefix == WHOLE_VALUE { VALUE_ROOM_BYTES } else { value_prefix.into() };
        self.get_heads(keys, room, |at, head| values.keep(at, head.map(|head| (head.len, head.bytes))))?;
        if value_prefix == WHOLE_VALUE {
            self.complete(keys, &mut values)?;
        }
        values.move_to(pairs, keys);
        Ok(())
    }

    /// Reads whole the values that had no room.
    fn complete(&mut self, keys: &[Key], values: &mut Values) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            if values.is_short(at) {
                let value = self.get(key.as_bytes())?;
                values.keep(at, value.as_deref().map(|value| (value.len(), value)));
            }
        }
        Ok(())
    }
}

/// Values of many keys, one behind the other as they came.
struct Values {
    bytes: Vec<u8>,
    /// Of each key: length of the whole value, where what came of it begins, and how much that is.
    places: Vec<Option<(usize, usize, usize)>>,
}

impl Values {
    fn new(keys: usize) -> Self {
        Self { bytes: Vec::new(), places: vec![None; keys] }
    }

    fn keep(&mut self, at: usize, value: Option<(usize, &[u8])>) {
        let Some(place) = self.places.get_mut(at) else { return };
        *place = value.map(|(len, bytes)| (len, self.bytes.len(), bytes.len()));
        self.bytes.extend_from_slice(value.map_or(&[], |(_, bytes)| bytes));
    }

    fn is_short(&self, at: usize) -> bool {
        self.places.get(at).is_some_and(|place| place.is_some_and(|(len, _, moved)| moved < len))
    }

    fn move_to(&self, pairs: &mut Composed, keys: &[Key]) {
        for (key, place) in keys.iter().zip(&self.places) {
            let Some((len, from, moved)) = *place else { continue };
            pairs.add(key, len, self.bytes.get(from..from + moved).unwrap_or_default());
        }
    }
}

/// A page in the making, in the form in which a Scan returns it.
struct Composed {
    result: Vec<u8>,
    count: u32,
}

impl Default for Composed {
    fn default() -> Self {
        Self { result: vec![0; size_of::<ScanHeader>()], count: 0 }
    }
}

impl Composed {
    fn has_room(&self) -> bool {
        self.result.len() < COMPOSED_BYTES
    }

    fn add(&mut self, key: &Key, value_len: usize, value: &[u8]) {
        let head = ScanPair {
            key_len: key.len() as u8,
            reserved: [0; 3],
            value_len: value_len as u32,
            value_moved: value.len() as u32,
        };
        for part in [head.as_bytes(), key.as_bytes(), value] {
            self.result.extend_from_slice(part);
            self.result.resize(self.result.len().next_multiple_of(4), 0);
        }
        self.count += 1;
    }

    fn into_page(mut self, is_end: bool, last: Option<Key>) -> Result<Page> {
        let bytes = self.result.len() as u32;
        let head = ScanHeader { count: self.count, bytes, is_end: is_end.into(), resume_len: 0 };
        let (place, _) = self.result.split_at_mut(size_of::<ScanHeader>());
        place.copy_from_slice(head.as_bytes());
        let reader = ResultReader::new(&self.result)?;
        Ok(Page { result: Bytes { device: None, composed: self.result }, reader, is_end, last })
    }
}

#[cold]
pub(crate) fn wrong(said: &'static str) -> Error {
    Error::device(ErrorKind::Protocol, said)
}
