//! Keys of the Key Value Command Set: 1 to 16 bytes, ordered bytewise.

use core::cmp::Ordering;
use core::fmt;

use crate::kv::KEY_MAX_BYTES;

/// A key of 1 to [`Key::MAX_BYTES`] bytes, stored inline. Ordered bytewise; a prefix sorts before the keys that start
/// with it.
///
/// The bytes past [`Key::len`] are zero, as the command's key fields want them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    padded: [u8; KEY_MAX_BYTES],
    len: u8,
}

/// Why bytes are no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There are none.
    Empty,
    /// It has this many bytes, more than [`Key::MAX_BYTES`].
    TooLong(usize),
}

impl Key {
    /// The longest key of the command set, in bytes (Key Value Command Set, KVKML).
    pub const MAX_BYTES: usize = KEY_MAX_BYTES;

    /// A key of these bytes.
    ///
    /// # Errors
    /// [`KeyError`] if `bytes` is empty or longer than [`Key::MAX_BYTES`].
    #[inline]
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.is_empty() {
            return Err(KeyError::Empty);
        }
        let mut padded = [0; KEY_MAX_BYTES];
        padded.get_mut(..bytes.len()).ok_or(KeyError::TooLong(bytes.len()))?.copy_from_slice(bytes);
        Ok(Self { padded, len: bytes.len() as u8 })
    }

    /// A key of `len` bytes from a command's key fields; bytes past `len` are ignored.
    ///
    /// # Errors
    /// As [`Key::new`].
    #[inline]
    pub fn from_field(field: [u8; KEY_MAX_BYTES], len: usize) -> Result<Self, KeyError> {
        match len {
            0 => Err(KeyError::Empty),
            KEY_MAX_BYTES => Ok(Self { padded: field, len: len as u8 }),
            1..KEY_MAX_BYTES => {
                let behind = 8 * (KEY_MAX_BYTES - len);
                let padded = (u128::from_be_bytes(field) >> behind << behind).to_be_bytes();
                Ok(Self { padded, len: len as u8 })
            }
            _ => Err(KeyError::TooLong(len)),
        }
    }

    /// The key with this [`Key::number`] and length (1 to 16), both taken from an existing key.
    #[inline]
    pub const fn from_number(number: u128, len: usize) -> Self {
        debug_assert!(1 <= len && len <= KEY_MAX_BYTES);
        Self { padded: number.to_be_bytes(), len: len as u8 }
    }

    /// Length in bytes, 1 to 16.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a key is never empty")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// The key's bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.padded.get(..self.len()).unwrap_or(&self.padded)
    }

    /// All 16 bytes, zero past the key's length: the value of the command's key fields.
    #[inline]
    pub const fn padded(&self) -> &[u8; KEY_MAX_BYTES] {
        &self.padded
    }

    /// The padded bytes as a big-endian number: comparing two keys is comparing these, then their lengths.
    #[inline]
    pub const fn number(&self) -> u128 {
        u128::from_be_bytes(self.padded)
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(&other.number()).then(self.len.cmp(&other.len))
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TryFrom<&[u8]> for Key {
    type Error = KeyError;

    fn try_from(bytes: &[u8]) -> Result<Self, KeyError> {
        Self::new(bytes)
    }
}

impl TryFrom<&str> for Key {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        Self::new(text.as_bytes())
    }
}

/// Printable keys as they are, others in hexadecimal.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_bytes();
        match core::str::from_utf8(bytes) {
            Ok(text) if bytes.iter().all(u8::is_ascii_graphic) => out.write_str(text),
            _ => {
                out.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Key({self})")
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => out.write_str("a key has at least 1 byte, this one is empty"),
            Self::TooLong(len) => {
                write!(out, "a key of {len} bytes is over the limit of {KEY_MAX_BYTES} bytes")
            }
        }
    }
}

impl core::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_key_is_one_to_sixteen_bytes_and_says_so_when_it_is_not() {
        assert_eq!(Key::new(b"0041").unwrap().as_bytes(), b"0041");
        assert_eq!(Key::new(&[7; 16]).unwrap().len(), 16);
        assert!(Key::new(b"").unwrap_err().to_string().contains("at least 1 byte"));
        assert!(Key::new(&[0; 17]).unwrap_err().to_string().contains("17 bytes is over the limit of 16"));
    }

    #[test]
    fn a_key_from_a_field_is_the_key_of_its_bytes() {
        let field: [u8; 16] = core::array::from_fn(|n| n as u8 + 1);
        for len in 1..=16 {
            assert_eq!(Key::from_field(field, len), Key::new(&field[..len]));
        }
        assert_eq!(Key::from_field(field, 0), Err(KeyError::Empty));
        assert_eq!(Key::from_field(field, 17), Err(KeyError::TooLong(17)));
    }

    #[test]
    fn keys_are_ordered_by_their_bytes_and_then_by_their_length() {
        let bytes: [&[u8]; 9] = [b"b", b"a\0", b"a", b"aa", b"\0", b"\0\0", &[255; 16], &[0; 16], b"a\0b"];
        for (one, other) in bytes.iter().flat_map(|one| bytes.iter().map(move |other| (one, other))) {
            let keys = [one, other].map(|bytes| Key::new(bytes).unwrap());
            assert_eq!(keys[0].cmp(&keys[1]), one.cmp(other));
            assert_eq!(keys[0] == keys[1], one == other);
        }
    }

    #[test]
    fn a_key_of_text_is_shown_as_text_and_any_other_in_hexadecimal() {
        let shown: Vec<_> = [b"0041".as_slice(), &[0, 255]].map(|b| Key::new(b).unwrap().to_string()).into();
        assert_eq!(shown, ["0041", "0x00ff"]);
    }
}
