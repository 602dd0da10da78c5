//! Scans: the pairs of a range in order, page by page.

use std::cmp::Ordering;

use byway_core::{Key, Result};
use byway_spec::vendor::{KeyRange as Span, ScanPair, WHOLE_VALUE};

use crate::calls::kv::Kv;
use crate::calls::page::{Ask, PAGE_BYTES, PAGE_MAX_BYTES, Page, wrong};
use crate::calls::range::{KeyRange, ScanOptions};

/// Most pairs that one command can be asked for.
const PAIRS_MAX: u64 = 4095;

/// The pairs of a range in order, as [`Kv::scan`] and [`Kv::scan_with`] give them.
///
/// As an iterator it copies each value; [`Scan::next_pair`] lends key and value without.
pub struct Scan<'a> {
    kv: &'a mut Kv,
    state: ScanState,
}

impl Kv {
    /// The pairs of a range in ascending order. On a device with Scan a page of pairs costs one command; elsewhere keys are
    /// listed, and values read at the queue's depth.
    ///
    /// Each pair was current at some time during the scan; keys that are stored or deleted meanwhile may be there or not.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use byway::{KeyRange, ScanOptions};
    ///
    /// let device = byway::open("embedded-ram:64M")?;
    /// let mut kv = device.kv(None)?;
    /// kv.put(b"apple", b"red")?;
    /// kv.put(b"pear", b"green")?;
    /// let mut scan = kv.scan(KeyRange::new(&b"b"[..]..)?);
    /// while let Some((key, value)) = scan.next_pair()? {
    ///     assert_eq!((key, value), (&b"pear"[..], &b"green"[..]));
    /// }
    /// let last = kv.scan_with(KeyRange::ALL, ScanOptions::default().backward(true).limit(1)).next();
    /// assert_eq!(last.unwrap()?.1, b"green");
    /// # }
    /// # Ok::<(), byway::Error>(())
    /// ```
    pub fn scan(&mut self, range: KeyRange) -> Scan<'_> {
        self.scan_with(range, ScanOptions::default())
    }

    /// The same with options: backward, keys alone, the first bytes of each value, a limit.
    pub fn scan_with(&mut self, range: KeyRange, options: ScanOptions) -> Scan<'_> {
        Scan { state: ScanState::new(&range, options), kv: self }
    }
}

impl Scan<'_> {
    /// The next key and value, lent until the next call; `None` behind the last.
    ///
    /// # Errors
    /// What the device says; a device that answers with keys outside the range or out of order. The scan is over then.
    #[inline]
    pub fn next_pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.state.next_pair(self.kv)
    }

    /// Length in bytes of the whole value of the pair that came last, of which [`ScanOptions::value_bytes`] may have left out
    /// some.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.state.value_len()
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Key, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.state.advance(self.kv) {
            Ok(true) => self.state.key().map(|key| Ok((key, self.state.value().to_vec()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// A scan between its calls, which are passed the namespace: for programs that cannot hold a [`Scan`], which borrows it.
#[derive(Default)]
pub struct ScanState {
    /// What is left; `None` once the scan has ended.
    left: Option<Left>,
    page: Page,
    /// Where in the page the key of the pair that came last is, and where its value is.
    key_at: usize,
    value: Place,
    /// Length in bytes of all of it.
    value_len: usize,
    /// A value that had no room in its page.
    whole: Vec<u8>,
}

/// What is left of a scan.
#[derive(Clone, Copy)]
struct Left {
    /// The range, from where the page at hand began.
    span: Span,
    /// Where what is left begins: at the start of the range, then behind the pair that came last.
    last: Last,
    /// Most pairs.
    pairs: Option<u64>,
    value_prefix: u16,
    /// Whole values in ascending order without a bound, as most scans want them.
    is_plain: bool,
    /// Bytes of the next page, 0 before the first.
    page_bytes: usize,
}

/// A key that what is left begins at or behind, as words: a pair waits for a [`Key`], which is moved in pieces.
#[derive(Clone, Copy)]
struct Last {
    number: u128,
    /// Length in bytes; 0 where there is no such key.
    len: usize,
    exclusive: bool,
}

impl Last {
    fn of(span: &Span) -> Self {
        let (number, len) = span.start.map_or((0, 0), |key| (key.number(), key.len()));
        Self { number, len, exclusive: span.exclusive }
    }

    fn key(self) -> Option<Key> {
        (self.len > 0).then(|| Key::from_number(self.number, self.len))
    }
}

/// Where a value is.
#[derive(Clone, Copy, Default)]
enum Place {
    /// No pair came so far.
    #[default]
    Nowhere,
    Page {
        at: usize,
        len: usize,
    },
    Whole,
}

impl ScanState {
    /// A scan at its beginning.
    #[must_use]
    pub fn new(range: &KeyRange, options: ScanOptions) -> Self {
        let span = range.span(options.backward);
        Self::of(span, options).filter(|_| !range.is_empty() && options.limit != Some(0))
    }

    /// The pairs from `key` on, or behind it, in one direction.
    pub(crate) fn onward(start: Option<Key>, exclusive: bool, backward: bool) -> Self {
        Self::of(Span { start, exclusive, bound: None, backward }, ScanOptions::default())
    }

    fn of(span: Span, options: ScanOptions) -> Self {
        let (last, value_prefix) = (Last::of(&span), options.value_prefix());
        let is_plain = value_prefix == WHOLE_VALUE && span.bound.is_none() && !span.backward;
        let left = Left { span, last, pairs: options.limit, value_prefix, is_plain, page_bytes: 0 };
        Self { left: Some(left), ..Self::default() }
    }

    fn filter(mut self, is_wanted: impl FnOnce(&Self) -> bool) -> Self {
        self.left = self.left.filter(|_| is_wanted(&self));
        self
    }

    /// As [`Scan::next_pair`].
    ///
    /// # Errors
    /// As [`Scan::next_pair`].
    #[inline]
    pub fn next_pair(&mut self, kv: &mut Kv) -> Result<Option<(&[u8], &[u8])>> {
        if self.take_plain() {
            return Ok(Some(self.page.plain(self.key_at, self.value_len)));
        }
        if !self.advance_slowly(kv)? {
            return Ok(None);
        }
        let key = self.key_at..self.key_at + self.left.as_ref().map_or(0, |left| left.last.len);
        Ok(Some(match self.value {
            Place::Page { at, len } => self.page.both(key, at..at + len),
            Place::Whole => (self.page.both(key, 0..0).0, &self.whole),
            Place::Nowhere => return Ok(None),
        }))
    }

    /// Goes to the next pair; whether there is one.
    ///
    /// # Errors
    /// As [`Scan::next_pair`].
    #[inline]
    pub fn advance(&mut self, kv: &mut Kv) -> Result<bool> {
        if self.take_plain() { Ok(true) } else { self.advance_slowly(kv) }
    }

    #[inline(never)]
    fn advance_slowly(&mut self, kv: &mut Kv) -> Result<bool> {
        let went = self.go_on(kv);
        if !matches!(went, Ok(true)) {
            *self = Self::default();
        }
        went
    }

    /// The key of the pair that came last.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        match self.value {
            Place::Nowhere => None,
            Place::Page { .. } | Place::Whole => self.left.and_then(|left| left.last.key()),
        }
    }

    /// The value of the pair that came last, or its first bytes.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.value {
            Place::Page { at, len } => self.page.bytes(at, len),
            Place::Whole => &self.whole,
            Place::Nowhere => &[],
        }
    }

    /// Length in bytes of the whole value of the pair that came last.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Goes to the next pair of the page, if it and the scan are plain; whether it did.
    #[inline]
    fn take_plain(&mut self) -> bool {
        let Some(left) = self.left.as_mut().filter(|left| left.is_plain && left.pairs != Some(0)) else {
            return false;
        };
        let Some((key_at, number, len)) = self.page.next_plain(left.last.number) else { return false };
        left.last = Last { number, len: Key::MAX_BYTES, exclusive: true };
        if let Some(pairs) = &mut left.pairs {
            *pairs -= 1;
        }
        (self.key_at, self.value_len) = (key_at, len);
        self.value = Place::Page { at: key_at + Key::MAX_BYTES, len };
        true
    }

    fn go_on(&mut self, kv: &mut Kv) -> Result<bool> {
        loop {
            let Some(left) = &mut self.left else { return Ok(false) };
            if left.pairs == Some(0) {
                return Ok(false);
            }
            let Some(pair) = self.page.next()? else {
                if !self.turn_page(kv)? {
                    return Ok(false);
                }
                continue;
            };
            let last = Last { number: pair.key_number, len: pair.key_len, exclusive: true };
            left.check_order(last)?;
            if left.span.bound.is_some() && !left.span.is_within_bound(&pair.key()) {
                return left.check_bound(&pair.key(), kv).map(|()| false);
            }
            left.last = last;
            let is_short = pair.value_bytes < left.wanted(pair.value_len);
            (self.key_at, self.value_len) = (pair.key_at, pair.value_len);
            self.value = Place::Page { at: pair.value_at, len: pair.value_bytes };
            if is_short && !self.read_whole(kv)? {
                continue;
            }
            self.count_down();
            return Ok(true);
        }
    }

    #[inline]
    fn count_down(&mut self) {
        if let Some(Left { pairs: Some(pairs), .. }) = &mut self.left {
            *pairs -= 1;
        }
    }

    /// Asks for the next page; whether there is one.
    #[inline(never)]
    fn turn_page(&mut self, kv: &mut Kv) -> Result<bool> {
        // Dropped first, so that the pool has its memory.
        let page = std::mem::take(&mut self.page);
        let Some(left) = self.left.as_mut().filter(|_| !page.is_end()) else { return Ok(false) };
        if let Some(resume) = page.resume() {
            left.check_order(Last { number: resume.number(), len: resume.len(), exclusive: true })?;
        }
        if let Some(last) = page.resume().or(page.last()) {
            left.last = Last { number: last.number(), len: last.len(), exclusive: true };
        }
        (left.span.start, left.span.exclusive) = (left.last.key(), left.last.exclusive);
        drop(page);
        left.page_bytes = left.bytes(kv);
        self.page = kv.page(&left.ask(kv))?;
        if left.value_prefix == WHOLE_VALUE {
            kv.note_pair_bytes(self.page.pair_bytes());
        }
        Ok(true)
    }

    /// Reads the value of the last pair, which had no room in its page, by itself; whether its key is still there.
    #[cold]
    fn read_whole(&mut self, kv: &mut Kv) -> Result<bool> {
        let Some(key) = self.left.and_then(|left| left.last.key()) else { return Ok(false) };
        let Some(value) = kv.get(key.as_bytes())? else { return Ok(false) };
        let prefix = self.left.map_or(0, |left| left.wanted(value.len()));
        (self.value_len, self.value, self.whole) = (value.len(), Place::Whole, value);
        self.whole.truncate(prefix);
        Ok(true)
    }
}

impl Left {
    /// Bytes of the next page: for a first one, what the pairs of the limit are expected to take.
    fn bytes(&self, kv: &Kv) -> usize {
        let most = PAGE_MAX_BYTES.min(kv.result_max_bytes());
        let key_alone = ScanPair::bytes(Key::MAX_BYTES, 0);
        let pair_bytes = match self.value_prefix {
            WHOLE_VALUE => kv.pair_bytes(),
            prefix => key_alone + usize::from(prefix),
        };
        let limit_bytes = self.pairs.map_or(0, |pairs| {
            let bytes = (pairs.min(PAIRS_MAX) as usize + 1).saturating_mul(pair_bytes);
            bytes.next_power_of_two()
        });
        (2 * self.page_bytes).max(limit_bytes).clamp(PAGE_BYTES, PAGE_MAX_BYTES).min(most)
    }

    fn ask(&self, kv: &Kv) -> Ask {
        let pairs = self.pairs.map_or(0, |pairs| pairs.min(PAIRS_MAX) as u16);
        Ask { span: self.carried(kv), pairs, value_prefix: self.value_prefix, bytes: self.page_bytes }
    }

    /// The span with a bound that the backend carries: a longer one is cut to as many bytes, which only widens the range.
    fn carried(&self, kv: &Kv) -> Span {
        let most = kv.bound_max_bytes();
        let bound = match &self.span.bound {
            Some(bound) if bound.len() > most => {
                let cut = &bound.as_bytes()[..most];
                // Forward the bound is the first key outside: the keys that begin alike may be inside.
                match self.span.backward {
                    true => Key::new(cut).ok(),
                    false => Span::prefix(cut, false).ok().and_then(|all| all.bound),
                }
            }
            bound => *bound,
        };
        Span { bound, ..self.span }
    }

    /// Refuses a key that is not behind the one before it.
    #[inline]
    fn check_order(&self, key: Last) -> Result<()> {
        let last = &self.last;
        let is_behind = last.len == 0
            || match (key.number, key.len).cmp(&(last.number, last.len)) {
                Ordering::Greater => !self.span.backward,
                Ordering::Less => self.span.backward,
                Ordering::Equal => !last.exclusive,
            };
        if is_behind { Ok(()) } else { Err(wrong("a scan whose keys are out of order")) }
    }

    /// Refuses a key beyond what the device was asked for.
    #[cold]
    fn check_bound(&self, key: &Key, kv: &Kv) -> Result<()> {
        match self.carried(kv).is_within_bound(key) {
            true => Ok(()),
            false => Err(wrong("a scan with a key outside its range")),
        }
    }

    /// Bytes that a value of this length is to have.
    #[inline]
    fn wanted(&self, value_len: usize) -> usize {
        match self.value_prefix {
            WHOLE_VALUE => value_len,
            prefix => value_len.min(prefix.into()),
        }
    }
}
