//! Keys of a Retrieve Many request: for each a length byte and as many bytes of key, without padding.

use crate::{Key, KeyError};

/// Bytes of one key in a request, at most.
pub const MANY_KEY_MAX_BYTES: usize = 1 + Key::MAX_BYTES;

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManyKeysError {
    /// A key of no bytes, or of more than 16.
    Key(KeyError),
    /// The request ends before its last key, or goes on behind it.
    Length,
}

/// Reads the `count` keys of a request and hands each to `each`, in order.
///
/// # Errors
/// [`ManyKeysError`]; keys before the wrong one were handed over.
#[inline]
pub fn read_many_keys(request: &[u8], count: usize, mut each: impl FnMut(Key)) -> Result<(), ManyKeysError> {
    let mut rest = request;
    for _ in 0..count {
        let (len, behind) = rest.split_first().ok_or(ManyKeysError::Length)?;
        let (key, behind) = behind.split_at_checked(usize::from(*len)).ok_or(ManyKeysError::Length)?;
        each(Key::new(key).map_err(ManyKeysError::Key)?);
        rest = behind;
    }
    if rest.is_empty() { Ok(()) } else { Err(ManyKeysError::Length) }
}

/// Writes keys as a request; its bytes. `None` where `into` has no room for all.
#[inline]
pub fn write_many_keys<'k>(keys: impl IntoIterator<Item = &'k Key>, into: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    for key in keys {
        let place = into.get_mut(at..at + 1 + key.len())?;
        place[0] = key.len() as u8;
        place[1..].copy_from_slice(key.as_bytes());
        at += place.len();
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn read(request: &[u8], count: usize) -> Result<Vec<Key>, ManyKeysError> {
        let mut keys = Vec::new();
        read_many_keys(request, count, |key| keys.push(key)).map(|()| keys)
    }

    #[test]
    fn keys_survive_the_trip_through_a_request() {
        let keys = [&b"a"[..], b"0123456789abcdef", b"\0\0"].map(|bytes| Key::new(bytes).unwrap());
        let mut request = [0xee; 32];
        let bytes = write_many_keys(&keys, &mut request).unwrap();
        assert_eq!(bytes, 3 + 1 + 16 + 2);
        assert_eq!(read(&request[..bytes], 3).unwrap(), keys);
        assert_eq!(write_many_keys(&keys, &mut request[..bytes - 1]), None);
    }

    #[test]
    fn requests_whose_lengths_and_count_differ_are_refused() {
        let good = b"\x01a\x02bc";
        assert_eq!(read(good, 2).unwrap().len(), 2);
        for (request, count) in [(&good[..], 1), (good, 3), (&good[..4], 2), (b"\xffab", 1), (b"", 1)] {
            assert_eq!(read(request, count), Err(ManyKeysError::Length), "{request:?}, {count} keys");
        }
        assert_eq!(read(b"\0", 1), Err(ManyKeysError::Key(KeyError::Empty)));
        assert!(matches!(read(&[17; 18], 1), Err(ManyKeysError::Key(KeyError::TooLong(_)))));
        assert_eq!(read(b"", 0).unwrap(), []);
    }
}
