//! The index page: entries in key order, or filter blocks, under one checksum.
//!
//! ```text
//! byte 0       4     8     16      17         18      20                 36           64
//!      | magic | crc | run | level | reserved | count | crc of each part | reserved … | entries of 32 bytes, or filter blocks |
//! ```
//!
//! A page has four parts of like length, each with a checksum in the header, of the first part behind the header; the
//! header has its own. So a look at one key of a page that is not kept checks a quarter of it. Level 0 holds keys; level n
//! holds the first key of each page of level n − 1; [`FILTER`] marks a page of filter blocks.

use std::ops::Range;

use byway_sys::checksum;

use crate::index::entry::{ENTRY_BYTES, Entry};
use crate::index::filter;
use byway_spec::Key;

/// Bytes before the first entry.
pub(crate) const PAGE_HEADER_BYTES: usize = 64;
/// Parts of a page that have a checksum each.
pub(crate) const PARTS: usize = 4;
/// The level that marks a page of filter blocks.
pub(crate) const FILTER: u8 = 0xff;
const MAGIC: [u8; 4] = *b"BYIX";

/// How a run fills pages of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageShape {
    pub(crate) page_bytes: usize,
    pub(crate) entries: usize,
    pub(crate) filter_block_bytes: usize,
    pub(crate) filter_blocks: usize,
}

impl PageShape {
    pub(crate) fn new(page_bytes: usize) -> Self {
        let body = page_bytes - PAGE_HEADER_BYTES;
        let entries = body / ENTRY_BYTES;
        let filter_block_bytes = filter::block_bytes(entries);
        Self { page_bytes, entries, filter_block_bytes, filter_blocks: body / filter_block_bytes }
    }
}

/// A page being filled.
#[derive(Clone)]
pub(crate) struct PageDraft {
    bytes: Vec<u8>,
    count: usize,
    first: Option<Key>,
}

impl PageDraft {
    pub(crate) fn new(shape: &PageShape) -> Self {
        Self { bytes: vec![0; shape.page_bytes], count: 0, first: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The first key of the page.
    pub(crate) fn first(&self) -> Option<Key> {
        self.first
    }

    /// Appends an entry; the caller keeps the order and counts.
    pub(crate) fn push(&mut self, entry: &Entry) {
        self.extend(std::slice::from_ref(entry));
    }

    /// Appends entries; the caller keeps the order and counts.
    pub(crate) fn extend(&mut self, entries: &[Entry]) {
        let at = PAGE_HEADER_BYTES + self.count * ENTRY_BYTES;
        let places = self.bytes[at..at + entries.len() * ENTRY_BYTES].as_chunks_mut().0;
        places.iter_mut().zip(entries).for_each(|(place, entry)| *place = entry.encode());
        self.first = self.first.or(entries.first().map(Entry::key));
        self.count += entries.len();
    }

    /// The filter block of index `slot`.
    pub(crate) fn block_mut(&mut self, slot: usize, shape: &PageShape) -> &mut [u8] {
        self.count = self.count.max(slot + 1);
        let at = PAGE_HEADER_BYTES + slot * shape.filter_block_bytes;
        &mut self.bytes[at..at + shape.filter_block_bytes]
    }

    /// Completes the header and gives the bytes to write.
    pub(crate) fn seal(&mut self, run: u64, level: u8) -> &[u8] {
        self.bytes[0..4].copy_from_slice(&MAGIC);
        self.bytes[8..16].copy_from_slice(&run.to_le_bytes());
        self.bytes[16] = level;
        self.bytes[18..20].copy_from_slice(&(self.count as u16).to_le_bytes());
        seal_checksums(&mut self.bytes);
        &self.bytes
    }

    /// Empties the page for the next use.
    pub(crate) fn clear(&mut self) {
        self.bytes.fill(0);
        self.count = 0;
        self.first = None;
    }
}

/// Makes the checksums of a page fit, for fuzzers.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if bytes.len() > PARTS * PAGE_HEADER_BYTES && bytes[0..4] == MAGIC {
        seal_checksums(bytes);
    }
}

fn seal_checksums(bytes: &mut [u8]) {
    for part in 0..PARTS {
        let crc = checksum::crc32c(part_of(bytes, part)).to_le_bytes();
        bytes[part_crc_at(part)..part_crc_at(part) + 4].copy_from_slice(&crc);
    }
    let crc = checksum::crc32c(&bytes[8..PAGE_HEADER_BYTES]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

const fn part_crc_at(part: usize) -> usize {
    20 + 4 * part
}

/// What a part's checksum covers.
#[inline]
fn part_of(bytes: &[u8], part: usize) -> &[u8] {
    let len = bytes.len() / PARTS;
    let from = if part == 0 { PAGE_HEADER_BYTES } else { part * len };
    bytes.get(from..(part + 1) * len).unwrap_or_default()
}

/// Whether a part of a page with a checked header is as it was written.
#[inline]
pub(crate) fn part_is_whole(bytes: &[u8], part: usize) -> bool {
    let crc = bytes.get(part_crc_at(part)..part_crc_at(part) + 4);
    crc == Some(&checksum::crc32c(part_of(bytes, part)).to_le_bytes())
}

/// Checks the header of a page that came from flash: magic, checksum, run, level, count.
pub(crate) fn check_header(bytes: &[u8], run: u64, level: u8) -> Result<(), &'static str> {
    check_name(bytes, run, level)?;
    let count = count_of(bytes);
    let most = bytes.len().saturating_sub(PAGE_HEADER_BYTES) / ENTRY_BYTES;
    if level != FILTER && (count == 0 || count > most) {
        return Err("has an impossible count");
    }
    Ok(())
}

/// Checks that bytes begin with a header, and whose.
pub(crate) fn check_name(bytes: &[u8], run: u64, level: u8) -> Result<(), &'static str> {
    let Some((header, _)) = bytes.split_at_checked(PAGE_HEADER_BYTES) else {
        return Err("is too short");
    };
    if header[0..4] != MAGIC {
        return Err("is not an index page");
    }
    if header[4..8] != checksum::crc32c(&header[8..]).to_le_bytes() {
        return Err("fails its checksum");
    }
    if header[8..16] != run.to_le_bytes() || header[16] != level {
        return Err("belongs elsewhere");
    }
    Ok(())
}

/// Checks a page that came from flash as a whole, and that what it holds can be read.
pub(crate) fn check(bytes: &[u8], run: u64, level: u8) -> Result<(), &'static str> {
    check_header(bytes, run, level)?;
    if !(0..PARTS).all(|part| part_is_whole(bytes, part)) {
        return Err("fails its checksum");
    }
    // Every entry is looked at, whatever the ones before: that needs no branches.
    let sound = |sum, entry: &[u8; ENTRY_BYTES]| sum & Entry::is_sound(entry);
    let entries = bytes.get(PAGE_HEADER_BYTES..).unwrap_or_default().as_chunks().0.iter();
    let is_sound = level == FILTER || entries.take(count_of(bytes)).fold(true, sound);
    if is_sound { Ok(()) } else { Err("holds an unknown entry") }
}

/// Entries or blocks in a checked page.
#[inline]
pub(crate) fn count_of(bytes: &[u8]) -> usize {
    bytes.get(18..20).map_or(0, |b| usize::from(u16::from_le_bytes([b[0], b[1]])))
}

/// Entry `i` of a checked page.
#[inline]
pub(crate) fn entry_at(bytes: &[u8], i: usize) -> Option<Entry> {
    let at = PAGE_HEADER_BYTES + i * ENTRY_BYTES;
    bytes.get(at..at + ENTRY_BYTES)?.try_into().ok().map(Entry::decode)
}

/// Entries of a checked page.
#[inline]
pub(crate) fn entries(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = Entry> {
    let (from, to) =
        (PAGE_HEADER_BYTES + range.start * ENTRY_BYTES, PAGE_HEADER_BYTES + range.end * ENTRY_BYTES);
    bytes.get(from..to).unwrap_or_default().as_chunks().0.iter().map(Entry::decode_sound)
}

/// Entries of one part of a page, whose bytes are what was written.
pub(crate) fn entries_of_part(part: &[u8], nth: usize) -> Vec<Entry> {
    let from = if nth == 0 { PAGE_HEADER_BYTES } else { 0 };
    let slots = part.get(from..).unwrap_or_default().as_chunks().0.iter();
    // Behind the last entry there are zeroes, which are none.
    slots.take_while(|slot| Entry::is_sound(slot)).map(Entry::decode_sound).collect()
}

/// Whether every key below entry `i` of an inner page is before the run's first key: a merge has consumed it, and
/// its pages may be gone.
pub(crate) fn is_taken_over(bytes: &[u8], i: usize, first: &Key) -> bool {
    let next = entry_at(bytes, i + 1).filter(|_| i + 1 < count_of(bytes));
    next.is_some_and(|next| next.key() <= *first)
}

/// Where filter block `slot` begins.
#[inline]
pub(crate) fn block_place(slot: usize, shape: &PageShape) -> usize {
    PAGE_HEADER_BYTES + slot * shape.filter_block_bytes
}

/// How many entries of a checked page have keys below `key`.
#[inline]
pub(crate) fn lower_bound(bytes: &[u8], key: &Key) -> usize {
    partition(bytes, 0..count_of(bytes), |entry| entry.key() < *key)
}

/// How many entries of a checked page have keys at or below `key`.
pub(crate) fn upper_bound(bytes: &[u8], key: &Key) -> usize {
    partition(bytes, 0..count_of(bytes), |entry| entry.is_at_or_below(key))
}

#[inline]
fn partition(bytes: &[u8], among: Range<usize>, before: impl Fn(&Entry) -> bool) -> usize {
    let (mut low, mut high) = (among.start, among.end);
    while low < high {
        let middle = (low + high) / 2;
        match entry_at(bytes, middle) {
            Some(entry) if before(&entry) => low = middle + 1,
            _ => high = middle,
        }
    }
    low
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::value_log::record::{Kind, Shape};
    use proptest::prelude::*;

    pub(crate) fn page_of(keys: &[u16]) -> Vec<u8> {
        let mut draft = PageDraft::new(&PageShape::new(16384));
        for key in keys {
            let key = Key::new(&key.to_be_bytes()).unwrap();
            draft.push(&Entry::new(&key, Shape::new(Kind::Value, 2, 5), 9, 1));
        }
        draft.seal(3, 0).to_vec()
    }

    #[test]
    fn a_page_of_16_kib_holds_510_entries() {
        let shape = PageShape::new(16384);
        assert_eq!((shape.entries, shape.filter_block_bytes, shape.filter_blocks), (510, 640, 25));
    }

    #[test]
    fn a_page_is_refused_when_damaged_or_of_another_run_or_level() {
        let mut bytes = page_of(&[1, 2, 3]);
        assert_eq!(check(&bytes, 3, 0), Ok(()));
        assert!(check(&bytes, 4, 0).is_err() && check(&bytes, 3, 1).is_err());
        for at in [9, 25, 100, 5000, 16383] {
            bytes[at] ^= 1;
            assert_eq!(check(&bytes, 3, 0), Err("fails its checksum"), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    proptest! {
        #[test]
        fn bounds_agree_with_a_sorted_slice(keys in proptest::collection::btree_set(any::<u16>(), 1..500), probe: u16) {
            let keys: Vec<u16> = keys.into_iter().collect();
            let bytes = page_of(&keys);
            let key = Key::new(&probe.to_be_bytes()).unwrap();
            prop_assert_eq!(lower_bound(&bytes, &key), keys.partition_point(|k| *k < probe));
            prop_assert_eq!(upper_bound(&bytes, &key), keys.partition_point(|k| *k <= probe));
        }

        #[test]
        fn any_bytes_are_a_page_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(check(&bytes, 0, 0).is_err());
        }
    }
}
