//! Flipped bits found by a checksum, and where the findings of a repair go.

use crate::finding::Finding;

/// Where the findings of an opening go. Without one, damage refuses the opening.
pub(crate) type RepairLog<'a> = Option<&'a mut Vec<Finding>>;

/// Sets right the one bit that makes `bytes` good; false, with the bytes as they were, when there is none. It is looked for in a
/// copy: whatever ends the search, and whenever, the bytes are not worse than they were.
pub(crate) fn repair_bit(bytes: &mut [u8], good: impl Fn(&[u8]) -> bool) -> bool {
    let Some(bit) = flipped_bit(bytes, good) else { return false };
    bytes[bit / 8] ^= 1 << (bit % 8);
    true
}

/// The one bit without which `bytes` are good.
pub(crate) fn flipped_bit(bytes: &[u8], good: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let mut trial = bytes.to_vec();
    (0..bytes.len() * 8).find(|bit| {
        trial[bit / 8] ^= 1 << (bit % 8);
        let is_good = good(&trial);
        trial[bit / 8] ^= 1 << (bit % 8);
        is_good
    })
}
