//! Keys of the Key Value command set: 1 to 16 bytes.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// A key, held in place: 1 to [`Key::MAX_BYTES`] bytes, ordered bytewise.
///
/// The bytes past [`Key::len`] are zero, as the command's key fields want them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl Key {
    /// The longest key of the command set, in bytes (Key Value Command Set, KVKML).
    pub const MAX_BYTES: usize = 16;

    /// A key of these bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if `bytes` is empty or longer than [`Key::MAX_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let len = bytes.len();
        if len == 0 {
            return Err(Error::host(
                ErrorKind::InvalidArgument,
                "a key has at least 1 byte, this one is empty",
            ));
        }
        let mut held = [0; Self::MAX_BYTES];
        let Some(into) = held.get_mut(..len) else {
            let said = format!("a key of {len} bytes is over the limit of {} bytes", Self::MAX_BYTES);
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        };
        into.copy_from_slice(bytes);
        Ok(Self { bytes: held, len: len as u8 })
    }

    /// Length in bytes, 1 to 16.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a key is never empty")]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// The key's bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }

    /// All sixteen bytes, zero past the key's length: what the command's key fields hold.
    #[must_use]
    #[inline]
    pub fn padded(&self) -> &[u8; Self::MAX_BYTES] {
        &self.bytes
    }
}

impl TryFrom<&[u8]> for Key {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        Self::new(bytes)
    }
}

impl TryFrom<&str> for Key {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::new(text.as_bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// Printable keys as they are, others in hexadecimal.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_bytes();
        match std::str::from_utf8(bytes) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_key_is_one_to_sixteen_bytes_and_says_so_when_it_is_not() {
        assert_eq!(Key::new(b"0041").unwrap().as_bytes(), b"0041");
        assert_eq!(Key::new(&[7; 16]).unwrap().len(), 16);
        assert!(Key::new(b"").unwrap_err().to_string().contains("at least 1 byte"));
        assert!(Key::new(&[0; 17]).unwrap_err().to_string().contains("17 bytes is over the limit of 16"));
    }

    #[test]
    fn keys_are_ordered_by_their_bytes_and_then_by_their_length() {
        let mut keys = [b"b".as_slice(), b"a\0", b"a", b"aa"].map(|bytes| Key::new(bytes).unwrap());
        keys.sort();
        let sorted: Vec<_> = keys.iter().map(Key::as_bytes).collect();
        assert_eq!(sorted, [b"a".as_slice(), b"a\0", b"aa", b"b"]);
    }

    #[test]
    fn a_key_of_text_is_shown_as_text_and_any_other_in_hexadecimal() {
        assert_eq!(Key::new(b"0041").unwrap().to_string(), "0041");
        assert_eq!(Key::new(&[0, 255]).unwrap().to_string(), "0x00ff");
    }
}
