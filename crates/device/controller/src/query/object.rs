//! What a query reads: the value of a key, or a range of blocks.

use byway_kv::Key;

use super::watch::RangeWatch;
use crate::subsystem::BlockPermit;

/// An object of a query.
#[derive(Debug)]
#[non_exhaustive]
pub enum QueryObject {
    /// The value of a key. It is copied, and checked to be the same value from the first byte to the last.
    Value {
        /// Its namespace.
        nsid: u32,
        /// Its key.
        key: Key,
        /// Its length in bytes.
        len_bytes: u32,
    },
    /// A short value, as it was when the query came.
    Copied(Vec<u8>),
    /// A range of blocks. It is read where it lies, and a command that changes it ends the query.
    Blocks(Box<BlockObjectReader>),
}

impl QueryObject {
    /// Whether it was copied as the query came.
    #[must_use]
    pub const fn is_copied(&self) -> bool {
        matches!(self, Self::Copied(_))
    }
}

/// Longest value in bytes that is copied as its query comes.
pub(crate) const COPIED_MAX_BYTES: u32 = 16 << 10;

/// Which value a key had, and where it was: the same as long as it was neither overwritten nor moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueVersion {
    /// The address alone is not enough: the log uses one again.
    pub(crate) seq: u64,
    pub(crate) address: u64,
    pub(crate) len_bytes: u32,
    /// Bytes in the first page of flash that it lies in, and bytes of a page.
    pub(crate) pages: (u32, u32),
}

impl ValueVersion {
    /// Length of the value in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    /// Where a part of at most `max_bytes` from byte `at` on ends: with a page of flash, so that no page is read for two parts, or with the
    /// value.
    #[must_use]
    pub fn part_end(&self, at: usize, max_bytes: usize) -> usize {
        let (len, end) = (self.len_bytes as usize, at.saturating_add(max_bytes));
        if end >= len {
            return len;
        }
        let (first_bytes, page_bytes) = (self.pages.0 as usize, self.pages.1 as usize);
        let page_at = match end.checked_sub(first_bytes) {
            Some(behind) => end - behind % page_bytes,
            None => 0,
        };
        if page_at > at { page_at } else { end }
    }
}

/// Reads a range of blocks.
#[derive(Debug)]
pub struct BlockObjectReader {
    pub(crate) nsid: u32,
    /// First byte in the namespace.
    pub(crate) at: u64,
    pub(crate) len_bytes: u64,
    pub(crate) permit: Option<BlockPermit>,
    pub(crate) watch: RangeWatch,
}

impl BlockObjectReader {
    /// Length of the object in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether a command has changed the object since the query was begun.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.watch.has_changed()
    }

    /// Fills `into` from byte `at` of the object, on any thread. False where that takes the subsystem
    /// ([`Subsystem::read_blocks_of`](crate::Subsystem::read_blocks_of)): `into` may then hold anything.
    #[must_use]
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.read(self.at + at, into).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of the parts of a value.
    fn part_ends(len_bytes: u32, pages: (u32, u32), max_bytes: usize) -> Vec<usize> {
        let version = ValueVersion { seq: 1, address: 0, len_bytes, pages };
        let next = |at: &usize| Some(version.part_end(*at, max_bytes)).filter(|end| end > at);
        std::iter::successors(Some(0), next).skip(1).collect()
    }

    #[test]
    fn parts_of_a_value_end_with_pages_of_flash() {
        assert_eq!(part_ends(100, (6, 16), 40), [38, 70, 100]);
        assert_eq!(part_ends(100, (16, 16), 32), [32, 64, 96, 100]);
        assert_eq!(part_ends(100, (90, 128), 40), [40, 80, 100], "not before a part has a page's end");
        assert_eq!(part_ends(0, (6, 16), 40), [0; 0]);
    }
}
