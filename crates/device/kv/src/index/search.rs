//! Looking for a key in a page.

use std::ops::Range;

use byway_sys::cacheline::{LINE_BYTES, prefetch};

use crate::index::entry::{ENTRY_BYTES, Entry};
use crate::index::page;
use crate::index::page::{PAGE_HEADER_BYTES, PARTS};
use byway_spec::Key;

/// A page that is looked into: one that was checked as a whole, or one that is checked part by part as they are looked at.
pub(crate) struct View<'a> {
    bytes: &'a [u8],
    count: usize,
    /// Parts that were checked, one bit each.
    checked: u8,
    is_whole: bool,
}

impl<'a> View<'a> {
    /// A page that was checked when it entered the cache.
    #[inline]
    pub(crate) fn of_checked(bytes: &'a [u8]) -> Self {
        Self { bytes, count: page::count_of(bytes), checked: u8::MAX, is_whole: true }
    }

    /// A page where it lies on flash, of which the header alone is checked; `None` where that is not what it must be.
    #[inline]
    pub(crate) fn of_lent(bytes: &'a [u8], run: u64, level: u8) -> Option<Self> {
        page::check_header(bytes, run, level).ok()?;
        Some(Self { bytes, count: page::count_of(bytes), checked: 0, is_whole: true })
    }

    /// Entries of the page.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether every part that was looked at is as it was written. Else nothing that was found counts.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Entry `i`; `None` beyond the last, and in a damaged part.
    #[inline]
    pub(crate) fn entry(&mut self, i: usize) -> Option<Entry> {
        if i >= self.count || !self.looks_at(PAGE_HEADER_BYTES + i * ENTRY_BYTES) {
            return None;
        }
        page::entry_at(self.bytes, i)
    }

    /// The cache line at a byte of the page; `None` in a damaged part.
    #[inline]
    pub(crate) fn line(&mut self, at: usize) -> Option<&'a [u8]> {
        let line = self.bytes.get(at..at + LINE_BYTES)?;
        let is_whole = self.looks_at(at) && self.looks_at(at + LINE_BYTES - 1);
        is_whole.then_some(line)
    }

    /// Checks the part that has a byte, unless it was; whether it is whole.
    #[inline]
    fn looks_at(&mut self, at: usize) -> bool {
        let part = at / (self.bytes.len() / PARTS).max(1);
        self.checked >> (part & 7) & 1 == 1 || self.check(part)
    }

    fn check(&mut self, part: usize) -> bool {
        let is_whole = page::part_is_whole(self.bytes, part);
        self.checked |= u8::from(is_whole) << part;
        self.is_whole &= is_whole;
        is_whole
    }
}

/// The last entry of a page at or below `key`, looked for near where its key's number lies between `bounds`:
/// the numbers of the page's first key and of the first key behind it, as far as these are known.
///
/// Keys are often spread evenly, and then few cache lines are touched; any others cost a binary search and some steps.
#[inline]
pub(crate) fn find(view: &mut View<'_>, key: &Key, bounds: &Range<u128>) -> Option<(usize, Entry)> {
    let found = search(view, key, bounds).checked_sub(1)?;
    Some((found, view.entry(found)?))
}

/// Finds those of some keys, in order, that a page has; `found` is called for each with its place among them. Where they are
/// close together each is looked for from the one before on.
pub(crate) fn find_each(
    view: &mut View<'_>,
    keys: &[Key],
    bounds: &Range<u128>,
    mut found: impl FnMut(usize, Entry),
) {
    let place = |key: &Key| share(key.number(), bounds, view.count());
    let (Some(first), Some(last)) = (keys.first().map(place), keys.last().map(place)) else { return };
    let is_dense = keys.len() * DENSE > last.saturating_sub(first);
    let mut from = 0;
    if is_dense {
        from = keys.first().map_or(0, |key| search(view, key, bounds));
        from = from.saturating_sub(1);
    } else {
        keys.iter().for_each(|key| prefetch_around(view.bytes, share(key.number(), bounds, view.count())));
    }
    for (i, key) in keys.iter().enumerate() {
        from = if is_dense { pass(view, from, key) } else { search(view, key, bounds) };
        if let Some(entry) = from.checked_sub(1).and_then(|last| view.entry(last))
            && entry.is_of(key)
        {
            found(i, entry);
        }
    }
}

/// How many entries of a page have keys at or below `key`: at least `from`. Looked for in growing steps.
#[inline]
fn pass(view: &mut View<'_>, from: usize, key: &Key) -> usize {
    let (mut low, mut high, mut step) = (from, view.count(), 1);
    while low + step <= high {
        let probe = low + step - 1;
        if !view.entry(probe).is_some_and(|entry| entry.is_at_or_below(key)) {
            high = probe;
            break;
        }
        (low, step) = (probe + 1, step * 2);
    }
    halve(view, low..high, key)
}

/// The same, where it is known to be in a range.
#[inline]
fn halve(view: &mut View<'_>, among: Range<usize>, key: &Key) -> usize {
    let (mut from, mut to) = (among.start, among.end);
    while from < to {
        let middle = (from + to) / 2;
        match view.entry(middle) {
            Some(entry) if entry.is_at_or_below(key) => from = middle + 1,
            _ => to = middle,
        }
    }
    from
}

/// How many entries of a page have keys at or below `key`.
#[inline]
fn search(view: &mut View<'_>, key: &Key, bounds: &Range<u128>) -> usize {
    let (mut from, mut to) = (0, view.count());
    let mut bounds = bounds.clone();
    let mut guess = 0;
    for _ in 0..GUESSES {
        if to - from <= NEAR {
            break;
        }
        guess = from + share(key.number(), &bounds, to - from);
        if to - from >= FAR {
            prefetch_around(view.bytes, guess);
        }
        let Some(entry) = view.entry(guess) else { break };
        if entry.is_at_or_below(key) {
            (from, bounds.start) = (guess + 1, entry.number());
        } else {
            (to, bounds.end) = (guess, entry.number());
        }
    }
    // What was guessed last is near: the other side is looked for from there in growing steps.
    let mut step = NEAR;
    while to - from > 2 * step {
        let upward = from > guess;
        let probe = if upward { from + step } else { to - 1 - step };
        let at_or_below = view.entry(probe).is_some_and(|entry| entry.is_at_or_below(key));
        match at_or_below {
            true => from = probe + 1,
            false => to = probe,
        }
        if at_or_below != upward {
            break;
        }
        step *= 2;
    }
    halve(view, from..to, key)
}

/// Where the distance of keys is at most so many entries, each is looked for from the one before on.
const DENSE: usize = 12;
/// Guesses before steps: the second is close where keys are spread evenly.
const GUESSES: usize = 2;
/// So many entries, on neighbouring cache lines, are not worth a guess.
const NEAR: usize = 4;

/// So many entries are worth asking for the lines around a guess at once.
const FAR: usize = 64;
/// Lines asked for on each side: a first guess among some hundreds of even keys is mostly that close.
const LINES_AROUND: usize = 4;

#[inline]
fn prefetch_around(bytes: &[u8], guess: usize) {
    let at = PAGE_HEADER_BYTES + guess * ENTRY_BYTES;
    for line in 0..LINES_AROUND {
        prefetch(bytes, at + line * LINE_BYTES);
        prefetch(bytes, at.saturating_sub((line + 1) * LINE_BYTES));
    }
}

/// Where `number` lies between `bounds`, as one of `count` places.
#[inline]
fn share(number: u128, bounds: &Range<u128>, count: usize) -> usize {
    let (whole, part) = (bounds.end.wrapping_sub(bounds.start), number.saturating_sub(bounds.start));
    // The 32 high bits of both are enough, and what follows fits a word.
    let shift = 96u32.saturating_sub(whole.leading_zeros());
    let (whole, part) = ((whole >> shift) as u64, (part >> shift) as u64);
    let place = (part.min(whole) * count as u64).checked_div(whole).unwrap_or(0);
    (place as usize).min(count - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::index::page::tests::page_of;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the bounds say: they come from another page.
        #[test]
        fn a_guided_search_finds_what_a_plain_one_does(
            keys in proptest::collection::btree_set(prop_oneof![3 => any::<u16>(), 1 => 0u16..40], 1..500),
            probes in proptest::collection::vec(any::<u16>(), 20),
            wrong: Option<(u128, u128)>,
            damage: u8,
        ) {
            let keys: Vec<u16> = keys.into_iter().collect();
            let bytes = page_of(&keys);
            let mut damaged = bytes.clone();
            let part = damage as usize % 4;
            damaged[part * 4096 + 100] ^= 1;
            let number = |key: u16| Key::new(&key.to_be_bytes()).unwrap().number();
            let right = (number(keys[0]), number(keys[keys.len() - 1]).saturating_add(1));
            let (start, end) = wrong.unwrap_or(right);
            for probe in probes.into_iter().chain(keys.iter().copied()) {
                let key = Key::new(&probe.to_be_bytes()).unwrap();
                let wanted = keys.partition_point(|k| *k <= probe).checked_sub(1);
                let found = |view: &mut View<'_>| find(view, &key, &(start..end)).map(|(i, _)| i);
                prop_assert_eq!(found(&mut View::of_checked(&bytes)), wanted);
                prop_assert_eq!(found(&mut View::of_lent(&bytes, 3, 0).unwrap()), wanted);
                let other = probe.saturating_add(300);
                let both = [key, Key::new(&other.to_be_bytes()).unwrap()];
                let many = [&[key; 100][..], &both[..]].concat();
                for sought in [&both[..], &many[..]] {
                    let wanted: Vec<usize> =
                        (0..sought.len()).filter(|i| keys.iter().any(|k| number(*k) == sought[*i].number())).collect();
                    let mut seen = Vec::new();
                    find_each(&mut View::of_checked(&bytes), sought, &(start..end), |i, entry| {
                        assert!(entry.is_of(&sought[i]));
                        seen.push(i);
                    });
                    prop_assert_eq!(seen, wanted);
                }
                // A damaged part is never looked at, or said to be.
                let mut view = View::of_lent(&damaged, 3, 0).unwrap();
                let found = found(&mut view);
                prop_assert!(!view.is_whole() || found == wanted);
                prop_assert!(view.is_whole() || view.checked >> part & 1 == 0);
            }
        }
    }
}
