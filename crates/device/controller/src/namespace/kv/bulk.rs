//! The payload of Store Many (Bulk Store): many pairs in one command (vendor; layout in `byway_spec::vendor::BulkPair`).

use byway_kv::Change;
use byway_spec::Key;
use byway_spec::Status;
use byway_spec::vendor::{BULK_COUNT_BYTES, BulkPair};
use zerocopy::FromBytes;

use crate::error::CommandError;

/// Bytes that keys and values are padded to.
const ALIGN_BYTES: usize = 4;

/// The pairs of a payload, read one by one. A payload that does not hold what it says ends in an error.
#[derive(Debug, Clone)]
pub struct BulkPairs<'a> {
    left: u32,
    rest: &'a [u8],
    /// Pairs may be deletions.
    may_delete: bool,
}

impl<'a> BulkPairs<'a> {
    /// The pairs in `payload`.
    pub fn new(payload: &'a [u8]) -> Result<Self, CommandError> {
        let (count, rest) = payload.split_first_chunk::<BULK_COUNT_BYTES>().ok_or(CUT_SHORT)?;
        Ok(Self { left: u32::from_le_bytes(*count), rest, may_delete: false })
    }

    /// The same, where pairs may be deletions: of an atomic Store Many.
    pub fn with_deletions(self) -> Self {
        Self { may_delete: true, ..self }
    }

    /// Reads all pairs and keeps none: whether the payload can be taken, and how many pairs it has.
    pub fn check(mut self) -> Result<u32, CommandError> {
        let count = self.left;
        self.try_for_each(|pair| pair.map(|_| ()))?;
        Ok(count)
    }

    fn read(&mut self) -> Result<Change<'a>, CommandError> {
        let (head, _) = BulkPair::read_from_prefix(self.rest).map_err(|_| CUT_SHORT)?;
        let deletes = self.deletes(&head)?;
        self.rest = &self.rest[size_of::<BulkPair>()..];
        let key = self.take(usize::from(head.key_len))?;
        let key = Key::new(key).map_err(|_| BAD_KEY)?;
        let value = self.take(head.value_len as usize)?;
        Ok(Change { key, value: (!deletes).then_some(value) })
    }

    /// Whether a pair is a deletion.
    fn deletes(&self, head: &BulkPair) -> Result<bool, CommandError> {
        match head.flags {
            0 => Ok(false),
            BulkPair::DELETE if !self.may_delete => Err(NO_DELETIONS),
            BulkPair::DELETE if head.value_len > 0 => Err(DELETED_VALUE),
            BulkPair::DELETE => Ok(true),
            _ => Err(FLAGS),
        }
    }

    /// The next `len` bytes; the padding behind them is skipped, and may be missing behind the last value.
    fn take(&mut self, len: usize) -> Result<&'a [u8], CommandError> {
        let (bytes, _) = self.rest.split_at_checked(len).ok_or(CUT_SHORT)?;
        self.rest = &self.rest[len.next_multiple_of(ALIGN_BYTES).min(self.rest.len())..];
        Ok(bytes)
    }
}

impl<'a> Iterator for BulkPairs<'a> {
    type Item = Result<Change<'a>, CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let pair = self.read();
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair)
    }
}

const CUT_SHORT: CommandError = CommandError::invalid_field("the payload of Store Many ends inside a pair");
const FLAGS: CommandError = CommandError::invalid_field("flags of a pair are 0 or 1 (delete)");
const NO_DELETIONS: CommandError =
    CommandError::invalid_field("a pair deletes its key, which only an atomic Store Many does");
const DELETED_VALUE: CommandError = CommandError::invalid_field("a pair that deletes its key has a value");
const BAD_KEY: CommandError =
    CommandError::new(Status::INVALID_KEY_SIZE, "a key in the payload of Store Many is not 1 to 16 bytes");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    fn payload(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = (pairs.len() as u32).to_le_bytes().to_vec();
        for (key, value) in pairs {
            let head =
                BulkPair { key_len: key.len() as u8, value_len: value.len() as u32, ..BulkPair::default() };
            bytes.extend_from_slice(head.as_bytes());
            for part in [key, value] {
                bytes.extend_from_slice(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn pairs_come_back_as_they_were_laid_out(
            pairs in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..17), prop::collection::vec(any::<u8>(), 0..50)), 0..20)
        ) {
            let bytes = payload(&pairs);
            let read: Vec<_> = BulkPairs::new(&bytes).unwrap().map(|pair| pair.unwrap()).collect();
            prop_assert_eq!(read.len(), pairs.len());
            for (change, (k, v)) in read.iter().zip(&pairs) {
                prop_assert_eq!(change.key.as_bytes(), &k[..]);
                prop_assert_eq!(change.value, Some(&v[..]));
            }
        }

        #[test]
        fn any_bytes_end_in_pairs_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(pairs) = BulkPairs::new(&bytes) {
                prop_assert!(pairs.count() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_count_larger_than_the_payload_is_noticed_at_its_end() {
        let mut bytes = payload(&[(b"k".to_vec(), b"v".to_vec())]);
        bytes[0] = 2;
        assert_eq!(BulkPairs::new(&bytes).unwrap().check().unwrap_err().status, Status::INVALID_FIELD);
    }

    #[test]
    fn a_pair_is_a_deletion_only_where_those_are_taken_and_without_a_value() {
        let with_flags = |value: &[u8], flags| {
            let mut bytes = payload(&[(b"k".to_vec(), value.to_vec())]);
            bytes[BULK_COUNT_BYTES + 1] = flags;
            bytes
        };
        let read = |bytes: &[u8]| {
            let mut pairs = BulkPairs::new(bytes).unwrap();
            let alone = pairs.clone().check().is_ok();
            pairs = pairs.with_deletions();
            (alone, pairs.next().unwrap().ok().map(|change| change.value.map(<[u8]>::to_vec)))
        };
        assert_eq!(read(&with_flags(b"v", 0)), (true, Some(Some(b"v".to_vec()))));
        assert_eq!(read(&with_flags(b"", BulkPair::DELETE)), (false, Some(None)));
        assert_eq!(read(&with_flags(b"v", BulkPair::DELETE)), (false, None));
        assert_eq!(read(&with_flags(b"", BulkPair::DELETE | 2)), (false, None));
    }

    #[test]
    fn an_empty_key_is_refused() {
        let bytes = payload(&[(Vec::new(), b"v".to_vec())]);
        assert_eq!(BulkPairs::new(&bytes).unwrap().check().unwrap_err().status, Status::INVALID_KEY_SIZE);
    }
}
