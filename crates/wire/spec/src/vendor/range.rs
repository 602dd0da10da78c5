//! Commands on ranges of keys and on many keys: Scan, Delete Range, Retrieve Many; flags of Store Many.
//!
//! | command | CDW10 | CDW11 | CDW12–13, MPTR | data |
//! |---|---|---|---|---|
//! | Scan | [`ScanCdw10`] | [`ScanCdw11`] | bound, bytes 0–7 and 8–15 | [`ScanHeader`], pairs |
//! | Delete Range | most keys, 0 for the controller's choice | [`ScanCdw11`] | as Scan | none |
//! | Retrieve Many | [`ManyCdw10`] | prefix of each value, as [`ScanCdw11::value_prefix`] | request bytes, keys | request, then result |
//! | Store Many (Bulk Store) | payload bytes | 0 | [`StoreManyCdw12`] | pairs |
//!
//! The start key of a range stands where the key of a command of the Key Value Command Set stands (CDW2–3, CDW14–15). Linux
//! pass-through carries no MPTR: there a bound has at most eight bytes.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Command, Key, KeyError};

/// Prefix of a value in a result: all of it.
pub const WHOLE_VALUE: u16 = u16::MAX;

/// Longest result of Scan and Retrieve Many in bytes: what [`ScanCdw10::buffer_bytes`] can say.
pub const RESULT_MAX_BYTES: usize = (1 << 24) - 1;

/// CDW10 of Scan.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ScanCdw10 {
    /// Length of the host's buffer in bytes.
    #[bits(24)]
    pub buffer_bytes: u32,
    /// Most pairs, low eight bits; the high bits are [`ScanCdw11::pairs_high`]. 0 for as many as fit.
    pub pairs_low: u8,
}

/// CDW11 of Scan and Delete Range.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ScanCdw11 {
    /// Length of the start key in bytes, 0 to 16. 0: from the first key; backwards: from the last.
    #[bits(5)]
    pub start_len: u8,
    /// Length of the bound in bytes, 0 to 16. 0: none.
    #[bits(5)]
    pub bound_len: u8,
    /// Backwards: from the start key down, in descending order.
    pub backward: bool,
    /// The start key itself is left out.
    pub exclusive: bool,
    /// Scan: most pairs, bits 11:8.
    #[bits(4)]
    pub pairs_high: u8,
    /// Scan: most bytes of each value in the result: 0 for keys alone, [`WHOLE_VALUE`] for all.
    pub value_prefix: u16,
}

/// A range of keys, as Scan and Delete Range name it.
///
/// Forward: keys from `start` on that are below `bound`. Backward: keys from `start` down that are at or above `bound`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyRange {
    /// Where the range begins; `None` for the first key, backwards the last.
    pub start: Option<Key>,
    /// Leave out `start` itself.
    pub exclusive: bool,
    /// Where it ends: keys at or above it are outside; backwards, keys below it. `None` for no bound.
    pub bound: Option<Key>,
    /// In descending order.
    pub backward: bool,
}

impl KeyRange {
    /// Writes the range into a command: keys, their lengths and flags. Other bits of CDW11 stay.
    pub fn write_to(&self, command: &mut Command) {
        let bound = self.bound.as_ref().map_or([0; 16], |key| *key.padded());
        let [low, high]: [u64; 2] = zerocopy::transmute!(bound);
        command.set_key(self.start.as_ref().map_or(&[][..], Key::as_bytes));
        (command.cdw12, command.cdw13, command.mptr) = (low as u32, (low >> 32) as u32, high);
        command.cdw11 = ScanCdw11::from_bits(command.cdw11)
            .with_start_len(self.start.map_or(0, |key| key.len() as u8))
            .with_bound_len(self.bound.map_or(0, |key| key.len() as u8))
            .with_backward(self.backward)
            .with_exclusive(self.exclusive)
            .into_bits();
    }

    /// Reads the range of a command.
    ///
    /// # Errors
    /// A key of more than 16 bytes.
    pub fn read_from(command: &Command) -> Result<Self, KeyError> {
        let options = ScanCdw11::from_bits(command.cdw11);
        let low = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
        let bound: [u8; 16] = zerocopy::transmute!([low, command.mptr]);
        Ok(Self {
            start: optional(command.key(), options.start_len())?,
            exclusive: options.exclusive(),
            bound: optional(bound, options.bound_len())?,
            backward: options.backward(),
        })
    }

    /// The keys that begin with `prefix`, in ascending or descending order.
    ///
    /// # Errors
    /// A prefix of more than 16 bytes.
    pub fn prefix(prefix: &[u8], backward: bool) -> Result<Self, KeyError> {
        let first = if prefix.is_empty() { None } else { Some(Key::new(prefix)?) };
        let behind = behind_prefix(prefix);
        Ok(match backward {
            false => Self { start: first, bound: behind, ..Self::default() },
            true => Self { start: behind, exclusive: true, bound: first, backward },
        })
    }

    /// What is left of the range behind `last`.
    #[inline]
    #[must_use]
    pub fn behind(&self, last: Key) -> Self {
        Self { start: Some(last), exclusive: true, ..*self }
    }

    /// Whether `key` is on this side of the bound.
    #[inline]
    #[must_use]
    pub fn is_within_bound(&self, key: &Key) -> bool {
        match (&self.bound, self.backward) {
            (None, _) => true,
            (Some(bound), false) => key < bound,
            (Some(bound), true) => key >= bound,
        }
    }
}

/// The lowest key above all keys that begin with `prefix`; `None` if there is none.
fn behind_prefix(prefix: &[u8]) -> Option<Key> {
    let len = prefix.iter().rposition(|byte| *byte != u8::MAX)? + 1;
    let mut bytes = [0; Key::MAX_BYTES];
    let place = bytes.get_mut(..len)?;
    place.copy_from_slice(&prefix[..len]);
    place[len - 1] += 1;
    Key::new(place).ok()
}

fn optional(field: [u8; 16], len: u8) -> Result<Option<Key>, KeyError> {
    match Key::from_field(field, usize::from(len)) {
        Ok(key) => Ok(Some(key)),
        Err(KeyError::Empty) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Head of a Scan's result; `count` pairs follow, each a [`ScanPair`], the key padded to 4 bytes, and the bytes of the
/// value that were asked for, padded to 4.
///
/// A pair that does not fit whole ends the result, but the first: of its value come as many bytes as fit. A controller may also end
/// the result where it has passed many deleted keys: the result, which may have no pair, then ends with the key to resume behind.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ScanHeader {
    /// Pairs that follow.
    pub count: u32,
    /// Bytes of the result, this head included.
    pub bytes: u32,
    /// 1 if the range ends with this result, 0 if more pairs may follow.
    pub is_end: u32,
    /// Length in bytes of the resume key, which follows the pairs and is padded to 4: the next Scan goes on behind it. 0 for none:
    /// the next one goes on behind the last pair.
    pub resume_len: u32,
}

/// Head of one pair in a Scan's result.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ScanPair {
    /// Key length in bytes.
    pub key_len: u8,
    /// Reserved.
    pub reserved: [u8; 3],
    /// Length of the whole value in bytes.
    pub value_len: u32,
    /// Bytes of the value that follow.
    pub value_moved: u32,
}

impl ScanPair {
    /// Bytes that a pair takes in the result, its head included.
    #[inline]
    #[must_use]
    pub const fn bytes(key_bytes: usize, value_moved: usize) -> usize {
        size_of::<Self>() + key_bytes.next_multiple_of(4) + value_moved.next_multiple_of(4)
    }
}

/// DW0 of the completion of Delete Range. The keys that one command deletes are deleted together, in the order of the range.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DeleteRangeResult {
    /// Keys that this command deleted.
    #[bits(31)]
    pub deleted: u32,
    /// More keys of the range may be there: the same command goes on.
    pub has_more: bool,
}

/// CDW10 of Retrieve Many. The host's buffer begins with the request, which CDW12 says the bytes of: CDW13 keys, each a
/// length byte and as many bytes of key, without padding. The controller reads it whole, then overwrites the buffer with the
/// result: a [`ScanHeader`] without resume key, then a [`FoundValue`] for each key in order.
///
/// CDW11 bits 31:16 are the most bytes of each value. The buffer has room for the heads of the result at least. DW0 of the
/// completion is the number of values that follow their heads.
///
/// Over a fabric the result is sent to the host, at most as many bytes as CDW10 says, and the request goes in the capsule
/// (SGL1: data block with offset subtype, of its length) or is requested from the host (SGL1: transport data block, of the
/// buffer's length).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ManyCdw10 {
    /// Length of the host's buffer in bytes.
    #[bits(24)]
    pub buffer_bytes: u32,
    #[bits(8)]
    __: u8,
}

open_enum! {
    /// What became of one key of Retrieve Many.
    pub struct Found(u32) {
        /// The value follows, or the prefix that was asked for.
        VALUE = 0 "value",
        /// There is no such key.
        ABSENT = 1 "absent",
        /// The value did not fit in what was left of the buffer, and does not follow: Retrieve it alone.
        NO_ROOM = 2 "no room",
        /// The value could not be read: Retrieve says why.
        UNREADABLE = 3 "unreadable",
    }
}

/// Head of one value in the result of Retrieve Many; the bytes that were moved follow, padded to 4.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FoundValue {
    /// A [`Found`].
    pub found: u32,
    /// Length of the whole value in bytes; 0 for a key that is not there.
    pub value_len: u32,
    /// Bytes of the value that follow.
    pub value_moved: u32,
}

/// CDW12 of Store Many ([`VendorOpcode::KV_BULK_STORE`](super::VendorOpcode::KV_BULK_STORE)).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct StoreManyCdw12 {
    /// All pairs or none, through any crash. Pairs whose `flags` say so are deletions, and have no value. Of several pairs of a key
    /// the last counts. A payload of up to [`VendorArea::store_many_max_bytes`](super::VendorArea::store_many_max_bytes)
    /// fits every namespace.
    pub atomic: bool,
    #[bits(31)]
    __: u32,
}

assert_size! {
    ScanHeader = 16;
    ScanPair = 12;
    FoundValue = 12;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn key_range_survives_the_trip_through_a_command() {
        for (start, bound) in [
            (None, None),
            (Some(key(b"a")), None),
            (None, Some(key(b"0123456789abcdef"))),
            (Some(key(b"0123456789abcdef")), Some(key(b"b"))),
        ] {
            for (exclusive, backward) in [(false, false), (true, false), (false, true), (true, true)] {
                let range = KeyRange { start, exclusive, bound, backward };
                let mut command = Command::new(0xb2, 1, 1);
                command.cdw11 =
                    ScanCdw11::new().with_pairs_high(5).with_value_prefix(WHOLE_VALUE).into_bits();
                range.write_to(&mut command);
                assert_eq!(KeyRange::read_from(&command), Ok(range));
                let options = ScanCdw11::from_bits(command.cdw11);
                assert_eq!((options.pairs_high(), options.value_prefix()), (5, WHOLE_VALUE));
            }
        }
    }

    #[test]
    fn key_range_with_a_long_key_is_refused() {
        for options in [ScanCdw11::new().with_start_len(17), ScanCdw11::new().with_bound_len(31)] {
            let mut command = Command::new(0xb2, 1, 1);
            command.cdw11 = options.into_bits();
            assert!(matches!(KeyRange::read_from(&command), Err(KeyError::TooLong(_))));
        }
    }

    #[test]
    fn prefix_range_holds_exactly_the_keys_with_the_prefix() {
        for (prefix, inside, outside) in [
            (&b"ab"[..], &[&b"ab"[..], b"ab\0", b"ab\xff\xff"][..], &[&b"aa\xff"[..], b"ac", b"a"][..]),
            (b"a\xff", &[b"a\xff", b"a\xff\xff"], &[b"a\xfe", b"b"]),
            (b"\xff\xff", &[b"\xff\xff", b"\xff\xff\xff"], &[b"\xff", b"\xfe"]),
            (b"", &[b"\0", b"\xff"], &[]),
        ] {
            let range = KeyRange::prefix(prefix, false).unwrap();
            let holds = |bytes: &[u8]| {
                range.start.is_none_or(|s| s <= key(bytes)) && range.is_within_bound(&key(bytes))
            };
            assert!(inside.iter().all(|bytes| holds(bytes)), "{prefix:?}");
            assert!(!outside.iter().any(|bytes| holds(bytes)), "{prefix:?}");
            let backward = KeyRange::prefix(prefix, true).unwrap();
            assert_eq!((backward.start, backward.bound), (range.bound, range.start));
        }
    }
}
