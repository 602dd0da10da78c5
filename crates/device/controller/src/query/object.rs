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

/// Longest value in bytes that is copied as its query comes.
pub const COPIED_MAX_BYTES: u32 = 16 << 10;

/// Which value a key had, and where it was: the same as long as it was neither overwritten nor moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueVersion {
    /// The address alone is not enough: the log uses one again.
    pub(crate) seq: u64,
    pub(crate) address: u64,
    pub(crate) len_bytes: u32,
}

impl ValueVersion {
    /// Length of the value in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.len_bytes
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
