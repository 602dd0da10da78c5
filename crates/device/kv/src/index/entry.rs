//! The index entry: a key and where its newest record is, in 32 bytes, the same in RAM and on flash but for one bit.
//!
//! ```text
//! byte 0            16                 22            24      28             32
//!      | key, padded | address (48 bits) | sequence (low 16) | shape | sequence (high 32) |
//! ```
//!
//! The key is big-endian as its bytes are; the rest is little-endian.

use crate::value_log::record::{Kind, SEQ_END, Shape};
use byway_spec::Key;
use byway_spec::kv::KEY_MAX_BYTES;

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 32;
const LOW_48: u64 = (1 << 48) - 1;
/// The highest bit of the sequence number, which no number has: whether the memtable has a copy of the value. Not on flash.
const HAS_COPY: u64 = 1 << 63;
const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES);

/// What the index knows of one key. No entry lies in two cache lines, so that a look at one is one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub(crate) struct Entry {
    number: u128,
    address_seq: u64,
    shape_seq: u64,
}

impl Entry {
    /// An entry for `key`, whose record has `shape`, the sequence number `seq` and stands at `address`.
    #[inline]
    pub(crate) fn new(key: &Key, shape: Shape, address: u64, seq: u64) -> Self {
        debug_assert!(address <= LOW_48 && seq < SEQ_END && shape.key_len() == key.len());
        Self {
            number: key.number(),
            address_seq: address | seq << 48,
            shape_seq: u64::from(shape.bits()) | seq >> 16 << 32,
        }
    }

    /// An entry of an inner page: the first key below it, its page, and what the level keeps beside it.
    pub(crate) fn fence(first: &Key, page: u64, beside: u64) -> Self {
        Self::new(first, Shape::new(Kind::Value, first.len(), 0), page, beside)
    }

    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key::from_number(self.number, self.shape().key_len())
    }

    /// The key's number: what orders entries, but for keys that differ in their length alone.
    #[inline]
    pub(crate) fn number(&self) -> u128 {
        self.number
    }

    /// Whether the entry's key is not behind `key`.
    #[inline]
    pub(crate) fn is_at_or_below(&self, key: &Key) -> bool {
        let number = key.number();
        self.number < number || self.number == number && self.shape().key_len() <= key.len()
    }

    /// Whether two entries are of one key.
    #[inline]
    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.number == other.number && self.shape().key_len() == other.shape().key_len()
    }

    /// Whether two entries name one record.
    pub(crate) fn has_record_of(&self, other: &Self) -> bool {
        self.address() == other.address() && self.seq() == other.seq() && self.has_key_of(other)
    }

    #[inline]
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        self.number == key.number() && self.shape().key_len() == key.len()
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.address_seq & LOW_48
    }

    #[inline]
    pub(crate) fn seq(&self) -> u64 {
        self.address_seq >> 48 | (self.shape_seq & !HAS_COPY) >> 32 << 16
    }

    /// Whether the memtable of this entry has a copy of its value.
    #[inline]
    pub(crate) fn has_copy(&self) -> bool {
        self.shape_seq & HAS_COPY != 0
    }

    /// The same entry, as one with or without a copy.
    #[inline]
    pub(crate) fn with_copy(self, has_copy: bool) -> Self {
        let flag = if has_copy { HAS_COPY } else { 0 };
        Self { shape_seq: self.shape_seq & !HAS_COPY | flag, ..self }
    }

    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        // Entries come from `new` or `decode`.
        Shape::from_known_bits(self.shape_seq as u32)
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.address_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&(self.shape_seq & !HAS_COPY).to_le_bytes());
        bytes
    }

    /// The entry in these bytes; a shape that this version does not know is that of room left behind.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let entry = Self::decode_sound(bytes);
        if Self::is_sound(bytes) {
            return entry;
        }
        let void = u64::from(Shape::new(Kind::Void, 1, 0).bits());
        Self { shape_seq: entry.shape_seq >> 32 << 32 | void, ..entry }
    }

    /// The entry in bytes that [are sound](Self::is_sound).
    #[inline]
    pub(crate) fn decode_sound(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let (number, words) = bytes.split_at(KEY_MAX_BYTES);
        let word = |at: usize| {
            words.get(at..).and_then(|word| word.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
        };
        Self {
            number: number.first_chunk().map_or(0, |number| u128::from_be_bytes(*number)),
            address_seq: word(0),
            shape_seq: word(8),
        }
    }

    /// Whether the bytes hold a shape that this version knows.
    #[inline]
    pub(crate) fn is_sound(bytes: &[u8; ENTRY_BYTES]) -> bool {
        Shape::from_bits(u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]])).is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_survives_its_encoding(key in proptest::collection::vec(any::<u8>(), 1..17), address in 0..=LOW_48, seq in 0..SEQ_END, len in 0u32..=(16 << 20)) {
            let key = Key::new(&key).unwrap();
            let entry = Entry::new(&key, Shape::new(Kind::Value, key.len(), len), address, seq);
            let back = Entry::decode(&entry.with_copy(true).encode());
            prop_assert_eq!(back, entry);
            prop_assert_eq!((back.key(), back.address(), back.seq(), back.shape().value_len()), (key, address, seq, len));
        }
    }
}
