//! Bloom filters, one block for each data page of a run.
//!
//! A block lies in a filter page next to the data pages that it covers, so filters are read, cached and evicted like any
//! page: memory follows the cache budget, not the number of keys. All bits of a key lie in one line of 64 bytes, so that a
//! lookup touches one cache line, or two if pages are not line-aligned.

use crate::index::entry::Entry;
use byway_spec::Key;

/// Bits a key sets.
const PROBES: u32 = 6;
/// Bits of filter for each key: with six probes, one or two absent keys in a hundred pass.
const BITS_PER_KEY: usize = 10;
/// Bytes that hold all bits of a key.
const LINE_BYTES: usize = 64;

/// Length in bytes of a block for `keys` keys.
pub(crate) const fn block_bytes(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(8 * LINE_BYTES) * LINE_BYTES
}

/// Adds the keys of entries to a block.
pub(crate) fn insert_each(block: &mut [u8], entries: &[Entry]) {
    entries.iter().for_each(|entry| insert(block, &entry.key()));
}

/// Adds a key to a block.
#[inline]
fn insert(block: &mut [u8], key: &Key) {
    let (line, bits) = place(block.len(), key);
    let lines = block.as_chunks_mut::<LINE_BYTES>().0;
    if let Some(line) = lines.get_mut(line / LINE_BYTES) {
        probes(bits).for_each(|bit| line[bit / 8] |= 1 << (bit % 8));
    }
}

/// Whether a key may have been added to a block, of which the line where the key would stand is given by `line`, by its
/// place in the block. Never wrong when it says no; a line that cannot be read may hold anything.
#[inline]
pub(crate) fn may_hold<'a>(
    block_bytes: usize,
    key: &Key,
    line: impl FnOnce(usize) -> Option<&'a [u8]>,
) -> bool {
    let (at, bits) = place(block_bytes, key);
    line(at).is_none_or(|line| {
        probes(bits).all(|bit| line.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
    })
}

/// Where a key's line begins, and a number whose digits to the base 512 are its bits there.
#[inline]
fn place(block_bytes: usize, key: &Key) -> (usize, u64) {
    let hash = stable_hash(key);
    let lines = (block_bytes / LINE_BYTES) as u64;
    ((((hash >> 32) * lines) >> 32) as usize * LINE_BYTES, mix(hash))
}

#[inline]
fn probes(bits: u64) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |i| (bits >> (9 * i) & 511) as usize)
}

/// Part of the format: the finalizer of MurmurHash3 over both halves of the padded key and its length.
#[inline]
fn stable_hash(key: &Key) -> u64 {
    let number = key.number();
    mix((number >> 64) as u64 ^ mix(number as u64 ^ (key.len() as u64) << 56))
}

#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(n: u32) -> Key {
        Key::new(&n.to_be_bytes()).unwrap()
    }

    #[test]
    fn a_filter_knows_all_it_was_given_and_few_others() {
        let mut block = vec![0; block_bytes(510)];
        (0..510).for_each(|n| insert(&mut block, &key(n)));
        let holds = |n: u32| may_hold(block.len(), &key(n), |at| block.get(at..at + LINE_BYTES));
        assert!((0..510).all(holds));
        let wrong = (1000..11_000).filter(|&n| holds(n)).count();
        assert!(wrong < 300, "{wrong} of 10,000 absent keys pass");
    }
}
