//! Bloom filters, one block for each data page of a run.
//!
//! A block is small and stands in a filter page beside the data pages it covers, so a filter is read, cached and
//! dropped like any page: memory follows the cache budget, not the number of keys.

use byway_spec::Key;

/// Bits a key sets.
const PROBES: u32 = 6;
/// Bits of filter for each key: with six probes, about one absent key in a hundred passes.
pub(crate) const BITS_PER_KEY: usize = 10;

/// Adds a key to a block.
pub(crate) fn insert(block: &mut [u8], key: &Key) {
    for bit in probes(block.len(), key) {
        if let Some(byte) = block.get_mut(bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
}

/// Whether a key may have been added. Never wrong when it says no.
pub(crate) fn may_hold(block: &[u8], key: &Key) -> bool {
    probes(block.len(), key).all(|bit| block.get(bit / 8).is_none_or(|byte| byte >> (bit % 8) & 1 == 1))
}

fn probes(block_bytes: usize, key: &Key) -> impl Iterator<Item = usize> {
    let hash = stable_hash(key);
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    let bits = block_bytes as u64 * 8;
    (0..PROBES).map(move |i| ((u64::from(first.wrapping_add(step.wrapping_mul(i))) * bits) >> 32) as usize)
}

/// Part of the format: the finalizer of MurmurHash3 over both halves of the padded key and its length.
fn stable_hash(key: &Key) -> u64 {
    let number = key.number();
    mix((number >> 64) as u64 ^ mix(number as u64 ^ (key.len() as u64) << 56))
}

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
        let mut block = vec![0; 510 * BITS_PER_KEY / 8];
        (0..510).for_each(|n| insert(&mut block, &key(n)));
        assert!((0..510).all(|n| may_hold(&block, &key(n))));
        let wrong = (1000..11_000).filter(|&n| may_hold(&block, &key(n))).count();
        assert!(wrong < 300, "{wrong} of 10,000 absent keys pass");
    }
}
