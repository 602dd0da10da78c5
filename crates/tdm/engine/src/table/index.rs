//! Which entry of a board.

/// Which entry of a board, and of which use: one that was given back and is another file's since has another index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryIndex(pub u32);

/// Below the use in an index: every call looks its file's entry up, and parts the two by a mask.
pub(super) const NUMBER_BITS: u32 = 14;

impl EntryIndex {
    /// Which of all entries.
    #[inline]
    pub(super) const fn number(self) -> u32 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}
