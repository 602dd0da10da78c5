//! What a step stores: bytes that name the step that wrote them.

use byway_kit::mix;

/// Something that can hold the content of one step: a pair, or a logical block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The pair of key number so much.
    Pair(u16),
    /// The logical block of that address.
    Block(u32),
}

/// Bytes of a logical block.
pub const BLOCK_BYTES: usize = 512;

/// Bytes of a long value: more than goes with its command over any fabric.
pub const LONG_BYTES: usize = 300 << 10;

/// Keys that have long values.
pub const LONG_KEYS: u16 = 8;

/// The key of a number: one to sixteen bytes, no two alike.
#[must_use]
pub fn key_of(number: u16) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.extend((0..usize::from(number) % 15).map(|at| at as u8 ^ 0x5a));
    key
}

/// The value of `len` bytes that step `step` stores to key number `key`.
#[must_use]
pub fn value_of(step: u64, key: u16, len: usize) -> Vec<u8> {
    bytes_of(step, u64::from(key), len)
}

/// What step `step` writes to a logical block.
#[must_use]
pub fn block_of(step: u64, lba: u32) -> Vec<u8> {
    bytes_of(step, 1 << 32 | u64::from(lba), BLOCK_BYTES)
}

/// The step's number, as far as it fits, and then bytes that follow from step, slot and place.
fn bytes_of(step: u64, slot: u64, len: usize) -> Vec<u8> {
    let words = (1..).flat_map(|at| mix(step << 20 ^ slot, at).to_le_bytes());
    step.to_le_bytes().into_iter().chain(words).take(len).collect()
}
