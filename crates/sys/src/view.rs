//! A file range mapped for reading: bytes where they lie, without a copy.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::cacheline::prefetch_all;
use crate::checksum::PAGE_BYTES;
use crate::guard::Guard;
use crate::inherited::NotInherited;
use crate::{checked_page, racing};

/// A file range that can be read and not written.
///
/// It relies on the file being locked, and on its owner not writing a part of the file that it holds a slice of. A
/// touch beyond the end of the file, or of a page the disk cannot give, finds zeroes in place of the whole mapping, which is
/// [lost](Self::is_lost) from then on.
#[derive(Debug)]
pub struct ReadMapping {
    start: NonNull<u8>,
    len_bytes: usize,
    guard: Option<Guard>,
    not_inherited: Option<NotInherited>,
}

// SAFETY: the mapping is owned (unmapped once, on drop) and is not tied to the thread that made it.
unsafe impl Send for ReadMapping {}
// SAFETY: it is only read.
unsafe impl Sync for ReadMapping {}

impl ReadMapping {
    /// Maps `len_bytes` of `file` from `offset_bytes`, a multiple of 4096. The range may have holes and be far larger
    /// than memory.
    ///
    /// # Errors
    /// The system's answer, and `InvalidInput` for a length of zero or beyond the address space.
    pub fn file(file: &File, offset_bytes: u64, len_bytes: u64) -> io::Result<Self> {
        Self::file_or_lost(file, offset_bytes, len_bytes, None)
    }

    /// The same; `lost` is set when the mapping is lost.
    pub(crate) fn file_or_lost(
        file: &File,
        offset_bytes: u64,
        len_bytes: u64,
        lost: Option<Arc<AtomicBool>>,
    ) -> io::Result<Self> {
        let len_bytes = usize::try_from(len_bytes).ok().filter(|len| (1..=isize::MAX as usize).contains(len));
        let len_bytes = len_bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len_bytes, ProtFlags::READ, flags, file, offset_bytes)?
        };
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut mapping = Self { start, len_bytes, guard: None, not_inherited: None };
        let address = start.as_ptr().expose_provenance();
        mapping.not_inherited = Some(NotInherited::mapping(address, len_bytes));
        // SAFETY: the range is the mapping's own, and its guard goes before it is unmapped.
        mapping.guard = Some(unsafe { Guard::new(address, len_bytes, lost)? });
        mapping.expect_random();
        Ok(mapping)
    }

    /// Whether it was touched where its file had no bytes: it shows zeroes since then.
    #[inline]
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_lost)
    }

    /// Bytes of the range; `None` where it is not inside the mapping.
    #[inline]
    #[must_use]
    pub fn bytes(&self, at: u64, len_bytes: usize) -> Option<&[u8]> {
        let start = self.place(at, len_bytes)?;
        // SAFETY: inside the mapping, which is readable for as long as `self` lives and read-only.
        Some(unsafe { std::slice::from_raw_parts(start, len_bytes) })
    }

    /// All of its bytes.
    #[must_use]
    pub fn all(&self) -> Option<&[u8]> {
        self.bytes(0, self.len_bytes)
    }

    /// Copies bytes that the file's owner may write meanwhile; whether they are inside the mapping.
    #[inline]
    #[must_use]
    pub fn copy_at(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.place(at, into.len()) else { return false };
        // SAFETY: inside the mapping, which is readable for as long as `self` lives; `into` is exclusive, so no part of it.
        unsafe { racing::from_shared(from, into) };
        true
    }

    /// Copies 4096 bytes that the file's owner may write meanwhile. Their CRC-32C, of what was copied; `None` where they are not inside
    /// the mapping or not aligned to 8 bytes. The page at byte `next` is prefetched meanwhile.
    #[inline]
    #[must_use]
    pub fn copy_page(&self, at: u64, into: &mut [u8; PAGE_BYTES], next: Option<u64>) -> Option<u32> {
        let from = self.place(at, PAGE_BYTES).filter(|_| at.is_multiple_of(8))?;
        let next = next.and_then(|next| self.place(next, PAGE_BYTES)).map(|page| page.addr());
        // SAFETY: inside the mapping, which is readable for as long as `self` lives, and aligned; `into` is exclusive, so no part of it.
        Some(unsafe { checked_page::copy(from, into, next) })
    }

    /// Prefetches 4096 bytes that are soon copied, into the processor's second cache. Outside of the mapping it does nothing.
    #[inline]
    pub fn prefetch_page(&self, at: u64) {
        if let Some(page) = self.place(at, PAGE_BYTES) {
            checked_page::prefetch(page.addr());
        }
    }

    #[inline]
    fn place(&self, at: u64, len_bytes: usize) -> Option<*const u8> {
        let at = usize::try_from(at).ok()?;
        let inside = at.checked_add(len_bytes).is_some_and(|end| end <= self.len_bytes);
        inside.then(|| self.start.as_ptr().cast_const().wrapping_add(at))
    }

    /// The aligned word at byte `at`, which another process may change at any time; `None` where it is not inside the mapping or not
    /// aligned.
    #[inline]
    #[must_use]
    pub fn load_u64(&self, at: usize) -> Option<u64> {
        let inside = at.is_multiple_of(8) && at.checked_add(8).is_some_and(|end| end <= self.len_bytes);
        // SAFETY: inside the mapping, which starts at a page and is readable for as long as `self` lives; volatile, as its
        // contents change without this program.
        inside.then(|| u64::from_le(unsafe { self.start.as_ptr().add(at).cast::<u64>().read_volatile() }))
    }

    /// Prefetches the cache lines of bytes that are soon read. Outside of the mapping it does nothing.
    #[inline]
    pub fn prefetch(&self, at: u64, len_bytes: usize) {
        if let Some(bytes) = self.bytes(at, len_bytes) {
            prefetch_all(bytes);
        }
    }

    /// Values of random keys lie anywhere: readahead would read pages that no get asked for.
    fn expect_random(&self) {
        let start: *mut c_void = self.start.as_ptr().cast();
        // SAFETY: advice on our own mapping, which changes nothing of what it holds.
        let advised = unsafe { rustix::mm::madvise(start, self.len_bytes, Advice::Random) };
        debug_assert!(advised.is_ok(), "advice on our own range: {advised:?}");
    }
}

impl Drop for ReadMapping {
    fn drop(&mut self) {
        // What is mapped there afterwards is not this value's.
        self.guard = None;
        self.not_inherited = None;
        // SAFETY: the range was mapped by this value and no reference into it outlives it.
        let gone = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len_bytes) };
        debug_assert!(gone.is_ok(), "unmapping our own range: {gone:?}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn write_to_the_file_is_seen_in_the_mapping() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let mapping = ReadMapping::file(&file, 4096, (1 << 40) - 4096).unwrap();
        file.write_all_at(b"here", 4096 + 10_000).unwrap();
        assert_eq!(mapping.bytes(10_000, 4).unwrap(), b"here");
        file.write_all_at(b"gone", 4096 + 10_000).unwrap();
        assert_eq!(mapping.bytes(10_000, 4).unwrap(), b"gone");
    }

    #[test]
    fn copied_page_has_its_checksum() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PAGE_BYTES as u64).unwrap();
        let mapping = ReadMapping::file(&file, 0, 2 * PAGE_BYTES as u64).unwrap();
        file.write_all_at(&[0xa5; 100], PAGE_BYTES as u64 + 1000).unwrap();
        let (mut page, mut part) = ([1; PAGE_BYTES], [0; 3]);
        let crc = mapping.copy_page(PAGE_BYTES as u64, &mut page, Some(1 << 50));
        assert_eq!(crc, Some(crate::checksum::crc32c(&page)));
        assert!(mapping.copy_at(PAGE_BYTES as u64 + 1098, &mut part));
        assert_eq!((&page[998..1002], part), (&[0, 0, 0xa5, 0xa5][..], [0xa5, 0xa5, 0]));
        assert!(!mapping.copy_at(2 * PAGE_BYTES as u64 - 1, &mut part));
    }

    #[test]
    fn nothing_outside_the_mapping_is_handed_out() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mapping = ReadMapping::file(&file, 0, 8192).unwrap();
        assert!(mapping.bytes(8192, 0).is_some());
        assert!(mapping.bytes(8190, 3).is_none());
        assert!(mapping.bytes(u64::MAX, 1).is_none());
        assert!(ReadMapping::file(&file, 0, 0).is_err());
        mapping.prefetch(1 << 50, 1);
        mapping.prefetch(0, 8192);
    }
}
