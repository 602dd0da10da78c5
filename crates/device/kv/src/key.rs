//! Keys: 1 to 16 bytes, ordered bytewise.

use std::cmp::Ordering;
use std::fmt;

/// Longest key, in bytes (NVMe Key Value Command Set: KVKML is at most 16).
pub const KEY_MAX_BYTES: usize = 16;

/// Why bytes are not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A key of no bytes.
    #[error("the key is empty; a key has 1 to 16 bytes")]
    Empty,
    /// A key of more than [`KEY_MAX_BYTES`].
    #[error("the key has {0} bytes; a key has 1 to 16 bytes")]
    TooLong(usize),
}

/// A key of 1 to 16 bytes. The order is that of the bytes, a prefix before what it begins.
///
/// Kept as the big-endian number of its zero-padded bytes, and its length: comparing two keys is comparing two
/// numbers, and the length decides between keys that differ in trailing zero bytes alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    number: u128,
    len: u8,
}

impl Key {
    /// Takes a key from its bytes.
    ///
    /// # Errors
    /// [`KeyError`] when there are none or more than 16.
    #[inline]
    pub fn from_slice(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.is_empty() {
            return Err(KeyError::Empty);
        }
        let mut padded = [0; KEY_MAX_BYTES];
        padded.get_mut(..bytes.len()).ok_or(KeyError::TooLong(bytes.len()))?.copy_from_slice(bytes);
        Ok(Self { number: u128::from_be_bytes(padded), len: bytes.len() as u8 })
    }

    /// Takes a key of `len` bytes from a field of 16; what stands behind it there is not looked at.
    ///
    /// # Errors
    /// As [`Key::from_slice`].
    #[inline]
    pub fn from_field(field: [u8; KEY_MAX_BYTES], len: usize) -> Result<Self, KeyError> {
        match len {
            0 => Err(KeyError::Empty),
            1..=KEY_MAX_BYTES => {
                let behind = 8 * (KEY_MAX_BYTES - len);
                Ok(Self { number: u128::from_be_bytes(field) >> behind << behind, len: len as u8 })
            }
            _ => Err(KeyError::TooLong(len)),
        }
    }

    /// The key of a padded number and a length that was checked before.
    #[inline]
    pub(crate) fn from_number(number: u128, len: u8) -> Self {
        debug_assert!((1..=16).contains(&len));
        Self { number, len }
    }

    /// The bytes as a big-endian number, zero-padded to 16.
    #[inline]
    pub(crate) fn number(&self) -> u128 {
        self.number
    }

    /// The bytes, zero-padded to 16. The first [`len`](Self::len) are the key.
    #[inline]
    #[must_use]
    pub fn padded(&self) -> [u8; KEY_MAX_BYTES] {
        self.number.to_be_bytes()
    }

    /// Length in bytes, 1 to 16.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a key is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The bytes, as a short array that derefs to them.
    #[must_use]
    pub fn bytes(&self) -> KeyBytes {
        KeyBytes { padded: self.padded(), len: self.len }
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number).then(self.len.cmp(&other.len))
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Printable bytes as they are, others as `\xNN`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().escape_ascii().fmt(f)
    }
}

/// The bytes of a [`Key`], held by value.
#[derive(Clone, Copy, Debug)]
pub struct KeyBytes {
    padded: [u8; KEY_MAX_BYTES],
    len: u8,
}

impl std::ops::Deref for KeyBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.padded[..usize::from(self.len).min(KEY_MAX_BYTES)]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_has_one_to_sixteen_bytes() {
        assert_eq!(Key::from_slice(b""), Err(KeyError::Empty));
        assert_eq!(Key::from_slice(&[1; 17]), Err(KeyError::TooLong(17)));
        assert_eq!(&*Key::from_slice(&[7; 16]).unwrap().bytes(), &[7; 16]);
    }

    proptest! {
        #[test]
        fn keys_are_ordered_as_their_bytes(a in proptest::collection::vec(0u8..3, 1..17), b in proptest::collection::vec(0u8..3, 1..17)) {
            let (x, y) = (Key::from_slice(&a).unwrap(), Key::from_slice(&b).unwrap());
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x == y, a == b);
            prop_assert_eq!(&*x.bytes(), &a[..]);
        }
    }
}
