//! A record on the medium: 32 bytes of header, then the data, padded to 32 bytes. Little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | position: where in the log it stands, counted from the ring's first use. A record of an earlier lap has another |
//! | 8–15 | offset in the file; of a truncation the size |
//! | 16–19 | length of the data |
//! | 20–23 | kind |
//! | 24–27 | how far before this record the log was synced when it was written, in 32 bytes; all ones if further |
//! | 28–31 | CRC-32C of the ring's identity, the 28 bytes before, and the data |

use byway_sys::checksum::{crc32c, crc32c_append};

/// Bytes of a header, and what every record's length is a multiple of.
pub const HEADER_BYTES: u64 = 32;

/// The longest data of a record.
pub const LEN_MAX_BYTES: u64 = 1 << 20;

const WRITE: u32 = 1;
const TRUNCATE: u32 = 2;

/// Content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Bytes at an offset of the file, possibly beyond its end.
    Write {
        /// Offset in bytes.
        at: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// A new size: truncates, or extends by zeroes.
    Truncate {
        /// Size in bytes.
        size_bytes: u64,
    },
}

/// Kind of a record, before its data is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Truncate,
}

/// A header whose fields are valid. Its checksum also covers the data and is not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) position: u64,
    pub(super) offset: u64,
    pub(super) len_bytes: u32,
    pub(super) kind: Kind,
    pub(super) synced_before: u32,
}

impl Header {
    /// The header's bytes without the checksum, and the checksum of them so far.
    pub(super) fn encode(&self, identity: u64) -> ([u8; HEADER_BYTES as usize], u32) {
        let kind = match self.kind {
            Kind::Write => WRITE,
            Kind::Truncate => TRUNCATE,
        };
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&self.position.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&kind.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.synced_before.to_le_bytes());
        let sum = sum_of(identity, &bytes);
        (bytes, sum)
    }

    /// The header, its checksum so far and the checksum to match. `None` if no header was written at `position`.
    pub(super) fn decode(
        bytes: &[u8; HEADER_BYTES as usize],
        identity: u64,
        position: u64,
    ) -> Option<(Self, u32, u32)> {
        let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        if word(0) != position {
            return None;
        }
        let kind = match half(20) {
            WRITE => Kind::Write,
            TRUNCATE => Kind::Truncate,
            _ => return None,
        };
        let header = Self { position, offset: word(8), len_bytes: half(16), kind, synced_before: half(24) };
        let has_data = header.len_bytes > 0;
        if has_data != (kind == Kind::Write) || u64::from(header.len_bytes) > LEN_MAX_BYTES {
            return None;
        }
        header.offset.checked_add(u64::from(header.len_bytes)).filter(|end| *end <= i64::MAX as u64)?;
        Some((header, sum_of(identity, bytes), half(28)))
    }

    /// Bytes that the record takes, padding included.
    pub(super) const fn record_bytes(&self) -> u64 {
        record_bytes(self.len_bytes as u64)
    }
}

/// Bytes that a record with so much data takes, padding included.
pub(super) const fn record_bytes(len_bytes: u64) -> u64 {
    HEADER_BYTES + len_bytes.next_multiple_of(HEADER_BYTES)
}

fn sum_of(identity: u64, header: &[u8; HEADER_BYTES as usize]) -> u32 {
    crc32c_append(crc32c(&identity.to_le_bytes()), &header[..28])
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HEADER: Header =
        Header { position: 64, offset: 4096, len_bytes: 33, kind: Kind::Write, synced_before: 2 };

    #[test]
    fn header_decodes_at_its_own_position_only() {
        let (bytes, sum) = HEADER.encode(7);
        assert_eq!(Header::decode(&bytes, 7, 64), Some((HEADER, sum, 0)));
        assert_eq!(Header::decode(&bytes, 7, 96), None);
    }

    #[test]
    fn header_checksum_depends_on_the_ring_identity() {
        assert_ne!(HEADER.encode(7).1, HEADER.encode(8).1);
    }

    #[test]
    fn invalid_headers_are_not_decoded() {
        let with = |change: fn(&mut [u8; 32])| {
            let (mut bytes, _) = HEADER.encode(7);
            change(&mut bytes);
            Header::decode(&bytes, 7, 64)
        };
        assert_eq!(with(|bytes| bytes[20] = 9), None, "a kind that there is not");
        assert_eq!(with(|bytes| bytes[20] = TRUNCATE as u8), None, "a truncation with data");
        assert_eq!(with(|bytes| bytes[16] = 0), None, "a write of nothing");
        assert_eq!(with(|bytes| bytes[19] = 1), None, "longer than any");
        assert_eq!(with(|bytes| bytes[8..16].fill(0xff)), None, "beyond every file");
    }

    #[test]
    fn records_are_whole_multiples_of_their_header() {
        assert_eq!([0, 1, 32, 33, 64].map(record_bytes), [32, 64, 64, 96, 96]);
    }
}
