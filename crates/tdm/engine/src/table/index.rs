//! Index of an entry.

/// Index of an entry in one use: after the entry is reclaimed, its next file has another index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryIndex(pub u32);

/// Bits of the entry's number; its use lies above. Every call splits the two by a mask.
pub(super) const NUMBER_BITS: u32 = 14;

impl EntryIndex {
    /// Number of the entry.
    #[inline]
    pub(super) const fn number(self) -> u32 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}
