//! The record: what one put or delete leaves in the value log.
//!
//! ```text
//! byte 0        4            8           12        20              20+k            20+k+n
//!      | shape  | header crc | value crc | sequence | key (k bytes) | value (n bytes) |
//! ```
//!
//! All numbers are little-endian. The first byte of a record is never zero and padding is always zero bytes, so a
//! reader walks a log without a table of gaps. The header checksum covers the record's own position, so a copy of
//! a record inside a value is no record, and neither is what an earlier life of the segment left behind.

use byway_sys::checksum;

use byway_spec::Key;
use byway_spec::kv::KEY_MAX_BYTES;

/// Bytes of a record before its key.
pub const RECORD_HEADER_BYTES: usize = 20;
/// Longest value, in bytes.
pub const VALUE_MAX_BYTES: u32 = 16 << 20;
/// Sequence numbers stay below this: a reader refuses others, so that there is always a next one.
pub(crate) const SEQ_END: u64 = 1 << 47;
/// Longest header with its key.
pub(crate) const PREAMBLE_MAX_BYTES: usize = RECORD_HEADER_BYTES + KEY_MAX_BYTES;

/// Bytes a record needs before its value: header and key. A host that stores a value in place leaves this room.
#[inline]
#[must_use]
pub const fn record_header_bytes(key_len: usize) -> usize {
    RECORD_HEADER_BYTES + key_len
}

/// What a record or an index entry says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key has the value that follows.
    Value,
    /// The key is deleted.
    Tombstone,
    /// Nothing: room that a refused in-place store left behind.
    Void,
}

/// Kind, key length and value length in 32 bits: bits 0–2 kind (never 0), 3–6 key length less one, 7–31 value length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape(u32);

impl Shape {
    #[inline]
    pub(crate) fn new(kind: Kind, key_len: usize, value_len: u32) -> Self {
        debug_assert!((1..=KEY_MAX_BYTES).contains(&key_len) && value_len <= VALUE_MAX_BYTES);
        let kind = match kind {
            Kind::Value => 1,
            Kind::Tombstone => 2,
            Kind::Void => 3,
        };
        Self(kind | (key_len as u32 - 1) << 3 | value_len << 7)
    }

    /// The shape in these bits, if they are one.
    #[inline]
    pub(crate) fn from_bits(bits: u32) -> Option<Self> {
        let known = matches!(bits & 7, 1..=3) && bits >> 7 <= VALUE_MAX_BYTES;
        known.then_some(Self(bits))
    }

    /// The shape in bits that were taken from one, or looked at before.
    #[inline]
    pub(crate) fn from_known_bits(bits: u32) -> Self {
        debug_assert!(Self::from_bits(bits).is_some());
        Self(bits)
    }

    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0 & 7 {
            1 => Kind::Value,
            2 => Kind::Tombstone,
            _ => Kind::Void,
        }
    }

    #[inline]
    pub(crate) fn is_tombstone(self) -> bool {
        self.0 & 7 == 2
    }

    #[inline]
    pub(crate) fn key_len(self) -> usize {
        (self.0 >> 3 & 15) as usize + 1
    }

    #[inline]
    pub(crate) fn value_len(self) -> u32 {
        self.0 >> 7
    }

    /// Bytes of the record before its value.
    #[inline]
    pub(crate) fn preamble_bytes(self) -> usize {
        record_header_bytes(self.key_len())
    }

    /// Bytes of the whole record.
    #[inline]
    pub(crate) fn record_bytes(self) -> u64 {
        self.preamble_bytes() as u64 + u64::from(self.value_len())
    }
}

/// A record's position as its header checksum covers it: the stream in the top byte, the position below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stand(pub(crate) u64);

impl Stand {
    #[inline]
    pub(crate) fn new(stream: u8, position: u64) -> Self {
        Self(u64::from(stream) << 56 | position)
    }
}

/// A record without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub(crate) shape: Shape,
    pub(crate) value_crc: u32,
    pub(crate) seq: u64,
    pub(crate) key: Key,
}

impl Preamble {
    /// Encodes the preamble for the position `stand`; the first `shape.preamble_bytes()` bytes are valid.
    #[inline]
    pub(crate) fn encode(&self, stand: Stand) -> [u8; PREAMBLE_MAX_BYTES] {
        let mut bytes = [0; PREAMBLE_MAX_BYTES];
        bytes[0..4].copy_from_slice(&self.shape.bits().to_le_bytes());
        bytes[4..8].copy_from_slice(&self.crc(stand).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.value_crc.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.seq.to_le_bytes());
        bytes[20..36].copy_from_slice(self.key.padded());
        bytes
    }

    /// Decodes the preamble at the position `stand`. `None` if the bytes are no preamble, or damaged.
    #[inline]
    pub(crate) fn decode(bytes: &[u8], stand: Stand) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let shape = Shape::from_bits(word(0)?)?;
        let key = bytes.get(RECORD_HEADER_BYTES..shape.preamble_bytes())?;
        let seq = u64::from_le_bytes(bytes.get(12..20)?.try_into().ok()?);
        let found = Self { shape, value_crc: word(8)?, seq, key: Key::new(key).ok()? };
        (found.crc(stand) == word(4)? && seq < SEQ_END).then_some(found)
    }

    /// The value of a record in one piece, if that is a record of this key and shape, and header and value match their checksums.
    #[inline]
    pub(crate) fn value_in<'a>(bytes: &'a [u8], stand: Stand, key: &Key, shape: Shape) -> Option<&'a [u8]> {
        let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
        let value = bytes.get(shape.preamble_bytes()..)?;
        // Not `array::from_fn`, which makes a call of each byte.
        let [bits, header_crc, value_crc, seq_low, seq_high] = header.as_chunks().0 else { return None };
        let value_crc = u32::from_le_bytes(*value_crc);
        let seq = u64::from(u32::from_le_bytes(*seq_high)) << 32 | u64::from(u32::from_le_bytes(*seq_low));
        let stands_there = u32::from_le_bytes(*bits) == shape.bits()
            && match bytes.get(RECORD_HEADER_BYTES..)?.first_chunk() {
                Some(field) if key.len() == KEY_MAX_BYTES => *field == *key.padded(),
                _ => bytes.get(RECORD_HEADER_BYTES..shape.preamble_bytes())? == key.as_bytes(),
            };
        let header_crc = u32::from_le_bytes(*header_crc);
        let words = header_words(stand, shape, value_crc, seq, key);
        let is_whole = seq < SEQ_END && checksum::crc32c_words_and(&words, value) == (header_crc, value_crc);
        (stands_there && is_whole).then_some(value)
    }

    #[inline]
    fn crc(&self, stand: Stand) -> u32 {
        header_crc(stand, self.shape, self.value_crc, self.seq, &self.key)
    }
}

/// One checksum over five words: cheaper than a chain of small ones.
#[inline(always)]
fn header_crc(stand: Stand, shape: Shape, value_crc: u32, seq: u64, key: &Key) -> u32 {
    checksum::crc32c_words(&header_words(stand, shape, value_crc, seq, key))
}

/// What the checksum of a header covers.
#[inline(always)]
fn header_words(stand: Stand, shape: Shape, value_crc: u32, seq: u64, key: &Key) -> [u64; 5] {
    let number = key.number();
    let (first, second) = ((number >> 64) as u64, number as u64);
    let shape = u64::from(shape.bits()) | u64::from(value_crc) << 32;
    [stand.0, shape, seq, first.swap_bytes(), second.swap_bytes()]
}

/// Fills the pieces that an append asks for with `value`, from its beginning on.
#[inline]
pub(crate) fn pieces_of<E>(mut value: &[u8]) -> impl FnMut(&mut [u8], &mut u64) -> Result<(), E> {
    move |piece, _| {
        let (head, tail) = value.split_at(piece.len());
        piece.copy_from_slice(head);
        value = tail;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Preamble {
        let key = Key::new(b"key").unwrap();
        Preamble { shape: Shape::new(Kind::Value, 3, 32), value_crc: 9, seq: 77, key }
    }

    #[test]
    fn a_record_is_read_back_only_where_it_was_written() {
        let bytes = sample().encode(Stand::new(1, 4096));
        assert_eq!(Preamble::decode(&bytes, Stand::new(1, 4096)), Some(sample()));
        assert_eq!(Preamble::decode(&bytes, Stand::new(1, 4097)), None);
        assert_eq!(Preamble::decode(&bytes, Stand::new(0, 4096)), None);
    }

    #[test]
    fn every_flipped_bit_of_a_preamble_is_noticed() {
        let good = sample().encode(Stand::new(0, 5));
        for bit in 0..23 * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Preamble::decode(&bytes, Stand::new(0, 5)), None, "bit {bit}");
        }
    }

    #[test]
    fn the_first_byte_of_a_record_is_never_zero() {
        for kind in [Kind::Value, Kind::Tombstone, Kind::Void] {
            assert_ne!(Shape::new(kind, 1, 0).bits() & 0xff, 0);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_value_or_to_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Preamble::decode(&bytes, Stand::new(0, 0));
        }
    }
}
