//! Results of Scan and Retrieve Many, checked as they are read: a device may say anything of its lengths and counts.

use byway_spec::Key;
use byway_spec::vendor::{Found, FoundValue, ScanHeader, ScanPair};
use zerocopy::FromBytes;

use crate::error::{Error, ErrorKind, Result};

/// Keys and values are padded to this.
const ALIGN_BYTES: usize = 4;

/// Bytes before the value of a pair whose key is the longest.
const PLAIN_FRONT_BYTES: usize = ScanPair::bytes(Key::MAX_BYTES, 0);

/// Position in a result, whose bytes its holder passes with every call.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultReader {
    at: usize,
    end: usize,
    left: u32,
    is_end: bool,
    resume: Option<Key>,
}

/// One pair of a Scan: places in the result. Words alone: a [`Key`] is moved in pieces, and each pair would wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// [`Key::number`] of the key.
    pub key_number: u128,
    /// Length of the key in bytes, 1 to 16.
    pub key_len: usize,
    /// Where in the result the key begins.
    pub key_at: usize,
    /// Length of the whole value in bytes.
    pub value_len: usize,
    /// Where in the result the value begins.
    pub value_at: usize,
    /// Bytes of the value that came.
    pub value_bytes: usize,
}

impl Pair {
    /// The key.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> Key {
        Key::from_number(self.key_number, self.key_len)
    }
}

/// What became of one key of a Retrieve Many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundEntry<'a> {
    /// Whether it was found.
    pub found: Found,
    /// Length of the whole value in bytes.
    pub value_len: usize,
    /// The bytes of the value that came.
    pub value: &'a [u8],
}

impl ResultReader {
    /// Reads the head of a result.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for a head that speaks of more bytes than there are, or for a resume key that is none.
    pub fn new(result: &[u8]) -> Result<Self> {
        let (head, _) = ScanHeader::read_from_prefix(result).map_err(|_| short())?;
        let (at, end) = (size_of::<ScanHeader>(), head.bytes as usize);
        let behind = result.get(at..end).ok_or_else(short)?;
        let (resume, resume_bytes) = match head.resume_len as usize {
            0 => (None, 0),
            len => {
                let bytes = len.next_multiple_of(ALIGN_BYTES);
                let field = behind.len().checked_sub(bytes).and_then(|at| behind.get(at..at + len));
                (Some(Key::new(field.ok_or_else(short)?)?), bytes)
            }
        };
        Ok(Self { at, end: end - resume_bytes, left: head.count, is_end: head.is_end != 0, resume })
    }

    /// Entries that were not read yet.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Whether the range ends with this result.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.is_end
    }

    /// The key behind which the device goes on, if it is none of a pair.
    #[must_use]
    pub const fn resume(&self) -> Option<Key> {
        self.resume
    }

    /// Bytes of the head and its pairs.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.end
    }

    /// The next pair of a Scan; `None` behind the last.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for a pair that is longer than the result, or a key that is none.
    #[inline]
    pub fn next_pair(&mut self, result: &[u8]) -> Result<Option<Pair>> {
        if self.left == 0 {
            return Ok(None);
        }
        // Without a `Result`, whose error would be moved along with each pair.
        match self.take_pair(result) {
            Some(pair) => Ok(Some(pair)),
            None => Err(short()),
        }
    }

    /// The next pair of an ascending scan where it is a plain one: with a key of 16 bytes whose number is above `after`, and a
    /// whole value. Where its key begins, its number, and the length of its value, which follows the key. `None` leaves the
    /// pair, or what else is there, to [`next_pair`](Self::next_pair).
    #[inline]
    pub fn next_plain(&mut self, result: &[u8], after: u128) -> Option<(usize, u128, usize)> {
        let rest = result.get(self.at..self.end).filter(|_| self.left > 0)?;
        let (front, behind) = rest.split_first_chunk::<PLAIN_FRONT_BYTES>()?;
        let (head, key) = front.split_first_chunk::<{ size_of::<ScanPair>() }>()?;
        let head: ScanPair = zerocopy::transmute!(*head);
        let number = u128::from_be_bytes(*key.first_chunk()?);
        let (len, moved) = (head.value_len as usize, head.value_moved as usize);
        let is_plain = usize::from(head.key_len) == Key::MAX_BYTES && len == moved && number > after;
        if !is_plain || len > behind.len() {
            return None;
        }
        let key_at = self.at + size_of::<ScanPair>();
        self.pass(ScanPair::bytes(Key::MAX_BYTES, len));
        Some((key_at, number, len))
    }

    #[inline]
    fn take_pair(&mut self, result: &[u8]) -> Option<Pair> {
        let rest = result.get(self.at..self.end)?;
        let (head, behind) = rest.split_first_chunk::<{ size_of::<ScanPair>() }>()?;
        let head: ScanPair = zerocopy::transmute!(*head);
        let (key_len, value_len) = (usize::from(head.key_len), head.value_len as usize);
        let key_number = match behind.first_chunk::<{ Key::MAX_BYTES }>() {
            Some(field) if key_len == Key::MAX_BYTES => u128::from_be_bytes(*field),
            _ => Key::new(behind.get(..key_len)?).ok()?.number(),
        };
        let (key_bytes, value_bytes) = (key_len.next_multiple_of(ALIGN_BYTES), head.value_moved as usize);
        if value_bytes > value_len || value_bytes > behind.len().checked_sub(key_bytes)? {
            return None;
        }
        let key_at = self.at + size_of::<ScanPair>();
        self.pass(ScanPair::bytes(key_len, value_bytes));
        Some(Pair { key_number, key_len, key_at, value_len, value_at: key_at + key_bytes, value_bytes })
    }

    /// The next entry of a Retrieve Many; `None` behind the last.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for a value that is longer than the result.
    #[inline]
    pub fn next_found<'a>(&mut self, result: &'a [u8]) -> Result<Option<FoundEntry<'a>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let rest = result.get(self.at..self.end).ok_or_else(short)?;
        let (head, behind) = FoundValue::read_from_prefix(rest).map_err(|_| short())?;
        let (len, moved) = (head.value_len as usize, head.value_moved as usize);
        let value = behind.get(..moved).filter(|_| moved <= len).ok_or_else(short)?;
        self.pass(size_of::<FoundValue>() + value.len().next_multiple_of(4));
        Ok(Some(FoundEntry { found: Found(head.found), value_len: len, value }))
    }

    #[inline]
    fn pass(&mut self, bytes: usize) {
        (self.at, self.left) = ((self.at + bytes).min(self.end), self.left - 1);
    }
}

#[cold]
fn short() -> Error {
    Error::device(ErrorKind::Protocol, "a result whose counts or lengths go beyond its bytes")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zerocopy::IntoBytes;

    use super::*;

    fn result(count: u32, bytes: Option<u32>, entries: &[&[u8]]) -> Vec<u8> {
        let entries = entries.concat();
        let bytes = bytes.unwrap_or(16 + entries.len() as u32);
        let head = ScanHeader { count, bytes, is_end: 1, resume_len: 0 };
        [head.as_bytes(), &entries].concat()
    }

    fn pair(key_len: u8, value_len: u32, value_moved: u32, rest: &[u8]) -> Vec<u8> {
        let head = ScanPair { key_len, reserved: [0; 3], value_len, value_moved };
        [head.as_bytes(), rest].concat()
    }

    fn read(result: &[u8]) -> Result<Vec<(Key, usize, Vec<u8>)>> {
        let (mut reader, mut pairs) = (ResultReader::new(result)?, Vec::new());
        while let Some(pair) = reader.next_pair(result)? {
            let value = &result[pair.value_at..][..pair.value_bytes];
            assert_eq!(pair.key().as_bytes(), &result[pair.key_at..][..pair.key_len]);
            pairs.push((pair.key(), pair.value_len, value.to_vec()));
        }
        Ok(pairs)
    }

    #[test]
    fn pairs_of_a_result_are_read_with_their_padding() {
        let bytes = result(2, None, &[&pair(1, 3, 3, b"a\0\0\0xyz\0"), &pair(5, 9, 0, b"abcde\0\0\0")]);
        let pairs = read(&bytes).unwrap();
        let expected = [(b"a".as_slice(), 3, b"xyz".as_slice()), (b"abcde", 9, b"")];
        let read: Vec<_> = pairs.iter().map(|(key, len, value)| (key.as_bytes(), *len, &value[..])).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn plain_pairs_are_those_that_next_pair_gives_and_others_are_left_to_it() {
        let [low, high] = [[1u8; 16], [2; 16]];
        let plain = |key: &[u8; 16]| pair(16, 3, 3, &[&key[..], b"xyz\0"].concat());
        let others = [
            pair(5, 3, 3, b"abcde\0\0\0xyz\0________"),
            pair(16, 4, 3, &[&high[..], b"xyz\0"].concat()),
            pair(16, 3, 4, &[&high[..], b"xyz\0"].concat()),
            pair(16, 9, 9, &[&high[..], b"xyz\0"].concat()),
            pair(16, u32::MAX, u32::MAX, &[&high[..], b"xyz\0"].concat()),
            pair(17, 3, 3, &[&high[..], b"xyz\0"].concat()),
            plain(&low),
            pair(16, 0, 0, &high[..15]),
        ];
        for other in others {
            let bytes = result(2, None, &[&plain(&low), &other]);
            let (mut reader, mut same) =
                (ResultReader::new(&bytes).unwrap(), ResultReader::new(&bytes).unwrap());
            let (key_at, number, len) = reader.next_plain(&bytes, 0).unwrap();
            let pair = same.next_pair(&bytes).unwrap().unwrap();
            assert_eq!((key_at, number, len), (pair.key_at, pair.key_number, pair.value_bytes));
            assert_eq!((pair.value_at, pair.value_len), (key_at + 16, len));
            assert_eq!(reader.next_plain(&bytes, number), None, "{other:?}");
            assert_eq!(reader.left(), 1);
            assert_eq!(reader.next_pair(&bytes).ok(), same.next_pair(&bytes).ok(), "{other:?}");
        }
        let bytes = result(1, None, &[&plain(&low), &plain(&high)]);
        let mut reader = ResultReader::new(&bytes).unwrap();
        assert!(reader.next_plain(&bytes, 0).is_some());
        assert_eq!(reader.next_plain(&bytes, 0), None, "the count says one pair");
    }

    #[test]
    fn resume_key_follows_the_pairs_and_is_none_of_them() {
        let resumed = |resume_len: u32, entries: &[&[u8]]| {
            let mut bytes = result(entries.len() as u32 - 1, None, entries);
            bytes[12..16].copy_from_slice(&resume_len.to_le_bytes());
            bytes
        };
        let pair = pair(1, 3, 3, b"a\0\0\0xyz\0");
        for bytes in [resumed(5, &[&pair, b"abcde\0\0\0"]), resumed(5, &[b"abcde\0\0\0"])] {
            let resume = ResultReader::new(&bytes).unwrap().resume();
            assert_eq!(resume.map(|key| key.as_bytes().to_vec()), Some(b"abcde".to_vec()));
            assert_eq!(read(&bytes).unwrap().len() * pair.len(), bytes.len() - 24);
        }
        for len in [9, 17, 1 << 20, u32::MAX - 2, u32::MAX] {
            assert!(ResultReader::new(&resumed(len, &[b"abcde\0\0\0"])).is_err(), "{len}");
        }
        assert!(read(&resumed(4, &[&pair, b""])).is_err(), "the key would be a part of the pair");
    }

    #[test]
    fn results_that_lie_about_counts_and_lengths_are_refused() {
        let good = pair(1, 3, 3, b"a\0\0\0xyz\0");
        for lie in [
            result(2, None, &[&good]),
            result(u32::MAX, None, &[]),
            result(1, Some(1 << 20), &[&good]),
            result(1, Some(3), &[&good]),
            result(1, None, &[&pair(0, 3, 3, b"a\0\0\0xyz\0")]),
            result(1, None, &[&pair(17, 3, 3, &[1; 40])]),
            result(1, None, &[&pair(1, 3, 4, b"a\0\0\0wxyz")]),
            result(1, None, &[&pair(1, u32::MAX, u32::MAX, b"a\0\0\0wxyz")]),
            vec![0; 15],
        ] {
            let refused = read(&lie);
            assert!(refused.is_err(), "{lie:?} gave {refused:?}");
        }
    }
}
