//! The hash table's words: the entry of a slot, and the approximate address of its record.

use byway_spec::Key;
use byway_sys::cacheline::LINE_BYTES;

use crate::index::entry::Entry;

/// A folded multiplication of both halves of the key, each masked by the seed.
#[inline]
pub(crate) fn hash_of(key: &Key, seed: u64) -> u64 {
    let number = key.number();
    let high = (number >> 64) as u64 ^ seed;
    let low = number as u64 ^ seed.rotate_left(32) ^ (key.len() as u64) << 48 ^ 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(high) * u128::from(low);
    let folded = (product >> 64) as u64 ^ product as u64;
    folded.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ folded >> 32
}

/// The word of an entry: see [`Memtable`](super::memtable::Memtable).
#[inline]
pub(super) fn slot_of(entry: &Entry, tag: u8, number: usize) -> u64 {
    (entry.address() / LINE_BYTES as u64) << 32 | u64::from(tag) << 24 | (number as u64 + 1)
}

/// The entry of a slot, if it has one.
#[inline]
pub(super) fn number_of(slot: u64) -> Option<usize> {
    ((slot & 0xff_ffff) as usize).checked_sub(1)
}

/// About where the record is: in the 64 bytes at this address, or behind them.
#[inline]
pub(super) fn record_line(slot: u64) -> u64 {
    (slot >> 32) * LINE_BYTES as u64
}

/// The low bits of the hash of its key.
#[inline]
pub(super) fn tag_of(slot: u64) -> u8 {
    (slot >> 24) as u8
}
