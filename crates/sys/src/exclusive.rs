//! Mapped memory with one owner.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::map::{MapError, Mapping, Sharing};

/// Memory with one owner: a slice that stays where it is.
///
/// For a shared file range this relies on the file being locked: another process that writes to it or truncates it
/// breaks the lock's contract.
#[derive(Debug)]
pub struct ExclusiveMapping(Mapping);

impl ExclusiveMapping {
    /// As [`Mapping::anonymous`].
    ///
    /// # Errors
    /// As there.
    pub fn anonymous(len_bytes: usize) -> io::Result<Self> {
        Mapping::anonymous(len_bytes).map(Self)
    }

    /// As [`Mapping::file`].
    ///
    /// # Errors
    /// As there.
    pub fn file(file: &File, offset_bytes: u64, len_bytes: usize, sharing: Sharing) -> io::Result<Self> {
        Mapping::file(file, offset_bytes, len_bytes, sharing).map(Self)
    }

    /// The same of an image. A forked child sees zeroed private memory in its place. So does this process once it touches a part
    /// that was truncated: `lost` is then set, and the caller checks it before it relies on the bytes.
    ///
    /// # Errors
    /// As [`Mapping::file`].
    pub(crate) fn image(
        file: &File,
        offset_bytes: u64,
        len_bytes: usize,
        sharing: Sharing,
        lost: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let mapping = Mapping::file(file, offset_bytes, len_bytes, sharing)?;
        Ok(Self(mapping.guarded(Some(Arc::clone(lost)))?.not_inherited()))
    }

    /// Gives up being the only one: the memory may now be shared with a device.
    #[must_use]
    pub fn into_shared(self) -> Mapping {
        self.0
    }

    /// The aligned little-endian word at `at`.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn load_u64(&self, at: usize) -> Result<u64, MapError> {
        self.0.load_u64(at)
    }

    /// As [`Mapping::store_u64`]: one instruction, in program order with all stores around it.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn store_u64(&mut self, at: usize, value: u64) -> Result<(), MapError> {
        self.0.store_u64(at, value)
    }

    /// Takes all pages from the system now, not when they are first written.
    ///
    /// # Errors
    /// The system's answer: there may not be that much memory.
    pub fn populate(&mut self) -> io::Result<()> {
        self.0.populate(0, self.0.len())
    }

    /// Gives the pages that lie wholly in the range back to the system; they read as zeroes (anonymous memory) or as
    /// the file's bytes (a file range) afterwards.
    ///
    /// # Errors
    /// The system's answer, and `InvalidInput` for a range outside the mapping.
    pub fn discard(&mut self, at: usize, len_bytes: usize) -> io::Result<()> {
        self.0.discard(at, len_bytes)
    }
}

impl Deref for ExclusiveMapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped readable for as long as `self` lives, and the shared borrow keeps writers out.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.len()) }
    }
}

impl DerefMut for ExclusiveMapping {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the range is mapped writable for as long as `self` lives, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr(), self.0.len()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::map::PAGE_BYTES;

    #[test]
    fn stores_to_a_shared_file_range_reach_the_file_and_private_ones_do_not() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[0; PAGE_BYTES]).unwrap();
        let mut own = ExclusiveMapping::file(&file, 0, PAGE_BYTES, Sharing::CopyOnWrite).unwrap();
        own[0] = 1;
        let mut shared = ExclusiveMapping::file(&file, 0, PAGE_BYTES, Sharing::Shared).unwrap();
        assert_eq!(shared[0], 0);
        shared[1] = 2;
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 1).unwrap();
        assert_eq!(byte, [2]);
    }

    #[test]
    fn populated_pages_hold_what_they_held() {
        let mut map = ExclusiveMapping::anonymous(5 * PAGE_BYTES + 1).unwrap();
        map[PAGE_BYTES] = 7;
        map.populate().unwrap();
        assert!(map.iter().enumerate().all(|(at, byte)| *byte == if at == PAGE_BYTES { 7 } else { 0 }));
    }

    #[test]
    fn discarded_anonymous_pages_read_as_zeroes() {
        let mut map = ExclusiveMapping::anonymous(3 * PAGE_BYTES).unwrap();
        map.fill(7);
        map.discard(1, 2 * PAGE_BYTES).unwrap();
        assert_eq!((map[PAGE_BYTES - 1], map[PAGE_BYTES], map[2 * PAGE_BYTES]), (7, 0, 7));
    }
}
