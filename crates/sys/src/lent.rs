//! Memory that the kernel accesses asynchronously, and its holder meanwhile.

use std::ptr::NonNull;

/// What an operation holds while the kernel works on its memory.
///
/// # Safety
/// From when the value was put where it stays for the operation until it is moved from there, the segments name valid
/// bytes that only the kernel touches, and their number, addresses and lengths do not change.
pub unsafe trait KernelMemory: Send {
    /// Pieces that the memory consists of.
    fn segments(&self) -> usize;

    /// First byte and length of piece `index`; nothing for an index that is not below [`segments`](Self::segments).
    fn segment(&self, index: usize) -> Option<(NonNull<u8>, usize)>;

    /// Bytes of all pieces.
    #[inline]
    fn len_bytes(&self) -> usize {
        (0..self.segments()).filter_map(|index| self.segment(index)).map(|(_, len)| len).sum()
    }
}
