//! Mapped memory: anonymous, or a range of a file.
//!
//! Two types say who may touch the bytes. [`Mapping`] may be touched by others at the same time (a device, another
//! thread, another process), so it hands out no references: bytes are copied in and out by relaxed atomic words, and a
//! race yields old or new words, never undefined behaviour. [`ExclusiveMapping`](crate::ExclusiveMapping) has one owner and
//! is a plain slice.

use std::ffi::c_void;
use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};

use rustix::mm::MapFlags;
use thiserror::Error;

use crate::guard::Guard;
use crate::inherited::NotInherited;
use crate::sharing::READ_WRITE;
pub use crate::sharing::Sharing;

/// Bytes in a page of memory.
pub const PAGE_BYTES: usize = 4096;

/// An access outside a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{len_bytes} bytes at {at} are outside a mapping of {mapped_bytes} bytes, or not aligned for the access"
)]
pub struct MapError {
    /// Offset of the access in the mapping.
    pub at: usize,
    /// Length of the access.
    pub len_bytes: usize,
    /// Length of the mapping.
    pub mapped_bytes: usize,
}

/// Memory that others may read and write while we do.
///
/// Bytes are copied by relaxed atomic words. `load_*` acquire and `store_*` release, so a word stored last publishes
/// what was copied before it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
    guard: Option<Guard>,
    /// Where children of fork are not to have it.
    not_inherited: Option<NotInherited>,
    /// The owner of the memory, if it was not mapped here.
    owner: Option<Box<dyn fmt::Debug + Send + Sync>>,
}

// SAFETY: the mapping is owned (unmapped once, on drop) and is not tied to the thread that made it.
unsafe impl Send for Mapping {}
// SAFETY: every access through `&Mapping` is an atomic operation.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len_bytes` of zeroed anonymous memory; pages are taken from the system when first touched.
    ///
    /// # Errors
    /// The system's answer, and `InvalidInput` for a length of zero.
    pub fn anonymous(len_bytes: usize) -> io::Result<Self> {
        refuse_empty(len_bytes)?;
        // Miri knows nothing of reservations.
        let reserve = if cfg!(miri) { MapFlags::empty() } else { MapFlags::NORESERVE };
        let flags = MapFlags::PRIVATE | reserve;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len_bytes, READ_WRITE, flags)? };
        Self::from_raw(start, len_bytes)
    }

    /// Maps `len_bytes` of `file` from `offset_bytes` (a multiple of 4096).
    ///
    /// A touch beyond the file's end, or of a hole that the disk has no room for, kills the process: the caller maps
    /// only what it knows to be allocated, or touches only that part.
    ///
    /// # Errors
    /// The system's answer, and `InvalidInput` for a length of zero.
    pub fn file(file: &File, offset_bytes: u64, len_bytes: usize, sharing: Sharing) -> io::Result<Self> {
        refuse_empty(len_bytes)?;
        let (protection, flags) = (sharing.protection(), sharing.flags());
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len_bytes, protection, flags, file, offset_bytes)? };
        Self::from_raw(start, len_bytes)
    }

    /// Maps a file that another process may truncate: an access beyond its end reads zeroes and sets [`Mapping::is_lost`],
    /// where SIGBUS would end the process otherwise (decision 0019).
    ///
    /// # Errors
    /// As [`Mapping::file`]; `StorageFull` where [`MAX_GUARDS`](crate::guard::MAX_GUARDS) mappings of this process are guarded.
    pub fn guarded_file(
        file: &File,
        offset_bytes: u64,
        len_bytes: usize,
        sharing: Sharing,
    ) -> io::Result<Self> {
        Self::file(file, offset_bytes, len_bytes, sharing)?.guarded(None)
    }

    /// Has the same addresses show `file` from `offset_bytes` on (a multiple of 4096) instead of what they showed. Other
    /// mappings of that stay, and share nothing with this mapping any more. An access that runs meanwhile meets one or the other.
    ///
    /// # Errors
    /// The system's answer, and `InvalidInput` for memory that [was brought](Mapping::brought), which is not this mapping's to
    /// replace. A system that has no memory for a mapping may have taken the old one away: the caller touches neither from
    /// there on.
    pub fn show_instead(&self, file: &File, offset_bytes: u64) -> io::Result<()> {
        if self.owner.is_some() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let start = self.start.as_ptr().cast();
        // SAFETY: what is replaced is this mapping's own range, of which every access is atomic and goes by these addresses.
        unsafe { rustix::mm::mmap(start, self.len_bytes, READ_WRITE, flags, file, offset_bytes)? };
        Ok(())
    }

    /// Memory that a program has already, from a page on and whole pages long. `owner` is dropped with the mapping.
    ///
    /// # Errors
    /// `InvalidInput` for memory of other bounds, or of none.
    ///
    /// # Safety
    /// The memory stays valid until `owner` is dropped, and while this mapping lives no reference exists to bytes that
    /// others touch by it.
    pub unsafe fn brought(
        start: NonNull<u8>,
        len_bytes: usize,
        owner: Box<dyn fmt::Debug + Send + Sync>,
    ) -> io::Result<Self> {
        refuse_empty(len_bytes)?;
        if !start.addr().get().is_multiple_of(PAGE_BYTES) || !len_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { start, len_bytes, guard: None, not_inherited: None, owner: Some(owner) })
    }

    /// The same mapping, guarded; `shared` is set when it is lost.
    ///
    /// # Errors
    /// `StorageFull` where [`MAX_GUARDS`](crate::guard::MAX_GUARDS) mappings of this process are guarded.
    pub(crate) fn guarded(mut self, shared: Option<Arc<AtomicBool>>) -> io::Result<Self> {
        let start = self.start.as_ptr().expose_provenance();
        // SAFETY: the range is the mapping's own, and its guard goes before it is unmapped.
        self.guard = Some(unsafe { Guard::new(start, self.len_bytes, shared)? });
        Ok(self)
    }

    /// The same mapping; a forked child sees zeroed private memory in its place.
    #[must_use]
    pub(crate) fn not_inherited(mut self) -> Self {
        let start = self.start.as_ptr().expose_provenance();
        self.not_inherited = Some(NotInherited::mapping(start, self.len_bytes));
        self
    }

    /// Whether it is [guarded](Mapping::guarded_file) and was touched where its file had no bytes: it is zeroed memory of
    /// this process alone since then.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_lost)
    }

    fn from_raw(start: *mut c_void, len_bytes: usize) -> io::Result<Self> {
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, len_bytes, guard: None, not_inherited: None, owner: None })
    }

    /// Length in bytes, never zero.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub const fn len(&self) -> usize {
        self.len_bytes
    }

    /// First byte, for those who map this memory on (a DMA space). Page-aligned.
    #[must_use]
    pub const fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// First byte, for those who map this memory on (a DMA space). Page-aligned.
    #[must_use]
    pub const fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// All of it as words that others may change at any time.
    #[must_use]
    pub fn words(&self) -> &[AtomicU32] {
        let words = self.start.as_ptr().cast();
        // SAFETY: mapped for as long as `self` is borrowed, aligned to a page, and all accesses through `&self` are atomic.
        unsafe { std::slice::from_raw_parts(words, self.len_bytes / size_of::<AtomicU32>()) }
    }

    /// The same as words of 64 bits.
    #[must_use]
    pub fn words_u64(&self) -> &[AtomicU64] {
        let words = self.start.as_ptr().cast();
        // SAFETY: mapped for as long as `self` is borrowed, aligned to a page, and all accesses through `&self` are atomic.
        unsafe { std::slice::from_raw_parts(words, self.len_bytes / size_of::<AtomicU64>()) }
    }

    /// So many words from `at` on (a multiple of 8), which others may change at any time. Little-endian is the caller's business.
    ///
    /// # Errors
    /// [`MapError`] when they are not inside the mapping or not aligned.
    #[inline]
    pub fn words_at<const WORDS: usize>(&self, at: usize) -> Result<&[AtomicU64; WORDS], MapError> {
        let words = self.check(at, WORDS * 8, 8)?;
        // SAFETY: checked to be inside the mapping and aligned; mapped for as long as `self` is borrowed, and all accesses
        // through `&self` are atomic.
        Ok(unsafe { &*words.cast() })
    }

    /// Has the system map every page of the range now, ready for stores, so that none is waited for later.
    ///
    /// # Errors
    /// The system's answer: `StorageFull` or `OutOfMemory` where there is no room for a page. `InvalidInput` for a range outside
    /// the mapping, and from kernels before 5.14, which map pages as they are touched.
    pub fn populate(&self, at: usize, len_bytes: usize) -> io::Result<()> {
        let outside = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        self.check(at, len_bytes, 1).map_err(outside)?;
        let from = at / PAGE_BYTES * PAGE_BYTES;
        let len = (at + len_bytes).next_multiple_of(PAGE_BYTES) - from;
        let start = self.start.as_ptr().wrapping_add(from).cast();
        loop {
            // SAFETY: pages of our own mapping, whose values do not change by this.
            match unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxPopulateWrite) } {
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                answer => return answer.map_err(io::Error::from),
            }
        }
    }

    /// Copies from the mapping.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    #[inline]
    pub fn read_at(&self, at: usize, into: &mut [u8]) -> Result<(), MapError> {
        let mut from = self.check(at, into.len(), 1)?;
        let head = lead_bytes(from, into.len());
        let (first, rest) = into.split_at_mut(head);
        for byte in first {
            *byte = atomic_u8(from).load(Ordering::Relaxed);
            from = from.wrapping_add(1);
        }
        let (words, last) = rest.as_chunks_mut();
        for word in words {
            // Assigned, not copied from a slice: that is a call a word in builds without link-time optimisation.
            *word = atomic_u64(from).load(Ordering::Relaxed).to_ne_bytes();
            from = from.wrapping_add(8);
        }
        for byte in last {
            *byte = atomic_u8(from).load(Ordering::Relaxed);
            from = from.wrapping_add(1);
        }
        Ok(())
    }

    /// Copies into the mapping.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    #[inline]
    pub fn write_at(&self, at: usize, from: &[u8]) -> Result<(), MapError> {
        let mut to = self.check(at, from.len(), 1)?;
        let (first, rest) = from.split_at(lead_bytes(to, from.len()));
        for byte in first {
            atomic_u8(to).store(*byte, Ordering::Relaxed);
            to = to.wrapping_add(1);
        }
        let (words, last) = rest.as_chunks::<8>();
        for word in words {
            atomic_u64(to).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            to = to.wrapping_add(8);
        }
        for byte in last {
            atomic_u8(to).store(*byte, Ordering::Relaxed);
            to = to.wrapping_add(1);
        }
        Ok(())
    }

    /// Fills a range with one byte value.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    pub fn fill_at(&self, at: usize, len_bytes: usize, value: u8) -> Result<(), MapError> {
        self.check(at, len_bytes, 1)?;
        let block = [value; 256];
        let mut done = 0;
        while done < len_bytes {
            let piece = (len_bytes - done).min(block.len());
            self.write_at(at + done, &block[..piece])?;
            done += piece;
        }
        Ok(())
    }

    /// Loads an aligned little-endian word with acquire order.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn load_u32(&self, at: usize) -> Result<u32, MapError> {
        let word = self.check(at, 4, 4)?;
        // SAFETY: checked to be inside the mapping and aligned; all accesses through `&self` are atomic.
        let word = unsafe { AtomicU32::from_ptr(word.cast()) };
        Ok(u32::from_le(word.load(Ordering::Acquire)))
    }

    /// Stores an aligned little-endian word with release order.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn store_u32(&self, at: usize, value: u32) -> Result<(), MapError> {
        let word = self.check(at, 4, 4)?;
        // SAFETY: checked to be inside the mapping and aligned; all accesses through `&self` are atomic.
        let word = unsafe { AtomicU32::from_ptr(word.cast()) };
        word.store(value.to_le(), Ordering::Release);
        Ok(())
    }

    /// Loads an aligned little-endian word with acquire order.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn load_u64(&self, at: usize) -> Result<u64, MapError> {
        let word = self.check(at, 8, 8)?;
        Ok(u64::from_le(atomic_u64(word).load(Ordering::Acquire)))
    }

    /// Stores an aligned little-endian word by one instruction, after everything stored before it and before
    /// everything stored after it: the commit of a record in memory that survives the process.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn store_u64(&self, at: usize, value: u64) -> Result<(), MapError> {
        let word = self.check(at, 8, 8)?;
        atomic_u64(word).store(value.to_le(), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    /// Stores an aligned little-endian word if it is `from` until then, in order with everything before and behind it; whether it was.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn exchange_u64(&self, at: usize, from: u64, to: u64) -> Result<bool, MapError> {
        let word = atomic_u64(self.check(at, 8, 8)?);
        let exchanged = word.compare_exchange(from.to_le(), to.to_le(), Ordering::SeqCst, Ordering::SeqCst);
        Ok(exchanged.is_ok())
    }

    /// Has the system write the pages that hold the range to where the file is kept, and waits for it (`msync`).
    ///
    /// # Errors
    /// The system's answer, and `InvalidInput` for a range outside the mapping.
    #[expect(
        clippy::disallowed_methods,
        reason = "who asks for it names it: a log has a name for each of its fences"
    )]
    pub fn sync(&self, at: usize, len_bytes: usize) -> io::Result<()> {
        let outside = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        self.check(at, len_bytes, 1).map_err(outside)?;
        let from = at / PAGE_BYTES * PAGE_BYTES;
        let start = self.start.as_ptr().wrapping_add(from).cast();
        // SAFETY: the range is inside our own mapping, and syncing changes no value.
        unsafe { rustix::mm::msync(start, at + len_bytes - from, rustix::mm::MsyncFlags::SYNC)? };
        Ok(())
    }

    /// Gives the pages that lie wholly in the range back to the system. The caller is the only one to hold slices of it, and holds
    /// none.
    pub(crate) fn discard(&self, at: usize, len_bytes: usize) -> io::Result<()> {
        self.check(at, len_bytes, 1).map_err(io::Error::other)?;
        let (from, to) = (at.next_multiple_of(PAGE_BYTES), (at + len_bytes) / PAGE_BYTES * PAGE_BYTES);
        if from >= to {
            return Ok(());
        }
        let start = self.as_mut_ptr().wrapping_add(from).cast();
        // SAFETY: the range is inside our own mapping; no slice of it exists, by the callers in this crate.
        unsafe { rustix::mm::madvise(start, to - from, rustix::mm::Advice::LinuxDontNeed)? };
        Ok(())
    }

    #[inline]
    pub(crate) fn check(&self, at: usize, len_bytes: usize, align: usize) -> Result<*mut u8, MapError> {
        let inside = at.checked_add(len_bytes).is_some_and(|end| end <= self.len_bytes);
        if !inside || !at.is_multiple_of(align) {
            return Err(MapError { at, len_bytes, mapped_bytes: self.len_bytes });
        }
        Ok(self.start.as_ptr().wrapping_add(at))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A mapping made there afterwards has another owner.
        self.guard = None;
        self.not_inherited = None;
        if self.owner.is_some() {
            return;
        }
        // SAFETY: the range was mapped by this value and no reference into it outlives it.
        let gone = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len_bytes) };
        debug_assert!(gone.is_ok(), "unmapping our own range: {gone:?}");
    }
}

fn refuse_empty(len_bytes: usize) -> io::Result<()> {
    if len_bytes == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a mapping of no bytes"));
    }
    Ok(())
}

/// Bytes before the first aligned word, at most `len`.
#[inline]
fn lead_bytes(at: *mut u8, len: usize) -> usize {
    (at.addr().wrapping_neg() % 8).min(len)
}

#[inline]
fn atomic_u8<'a>(at: *mut u8) -> &'a AtomicU8 {
    // SAFETY: callers in this file pass an address inside a live mapping that they hold borrowed.
    unsafe { AtomicU8::from_ptr(at) }
}

#[inline]
fn atomic_u64<'a>(at: *mut u8) -> &'a AtomicU64 {
    debug_assert!(at.addr().is_multiple_of(8));
    // SAFETY: callers in this file pass an aligned address inside a live mapping that they hold borrowed.
    unsafe { AtomicU64::from_ptr(at.cast()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn copies_keep_every_byte_at_every_alignment() {
        let map = Mapping::anonymous(PAGE_BYTES).unwrap();
        let bytes: Vec<u8> = (0..61).collect();
        for at in 0..20 {
            for len in 0..bytes.len() {
                map.write_at(at, &bytes[..len]).unwrap();
                let mut back = vec![0; len];
                map.read_at(at, &mut back).unwrap();
                assert_eq!(back, bytes[..len]);
            }
        }
    }

    #[test]
    fn nothing_outside_the_mapping_is_touched() {
        let map = Mapping::anonymous(PAGE_BYTES).unwrap();
        assert!(map.write_at(PAGE_BYTES - 3, &[0; 4]).is_err());
        assert!(map.read_at(usize::MAX, &mut [0; 4]).is_err());
        assert!(map.store_u64(PAGE_BYTES, 1).is_err());
        assert!(map.store_u64(4, 1).is_err(), "an unaligned word could tear");
        assert!(map.fill_at(PAGE_BYTES - 1, 2, 0).is_err());
    }

    #[test]
    fn words_are_the_mapping_s_own() {
        let map = Mapping::anonymous(PAGE_BYTES).unwrap();
        map.store_u32(8, 5).unwrap();
        assert_eq!(u32::from_le(map.words()[2].load(Ordering::Relaxed)), 5);
        assert_eq!(map.words().len(), PAGE_BYTES / 4);
    }

    #[test]
    #[cfg_attr(miri, ignore = "files are not mapped there")]
    fn replaced_mapping_shares_nothing_with_mappings_of_the_old_file() {
        let [old, new] = [(); 2].map(|()| crate::memfd::sealed("test", 2 * PAGE_BYTES as u64).unwrap());
        let map = Mapping::file(&old, 0, PAGE_BYTES, Sharing::Shared).unwrap();
        let kept = Mapping::file(&old, 0, PAGE_BYTES, Sharing::Shared).unwrap();
        let shown = Mapping::file(&new, PAGE_BYTES as u64, PAGE_BYTES, Sharing::Shared).unwrap();
        let words = map.words();
        kept.store_u32(0, 1).unwrap();
        map.show_instead(&new, PAGE_BYTES as u64).unwrap();
        assert_eq!(words[0].load(Ordering::Relaxed), 0);
        kept.store_u32(0, 2).unwrap();
        shown.store_u32(4, 3).unwrap();
        assert_eq!((map.load_u32(0).unwrap(), map.load_u32(4).unwrap()), (0, 3));
    }

    #[test]
    fn words_are_little_endian() {
        let map = Mapping::anonymous(PAGE_BYTES).unwrap();
        map.store_u64(8, 0x0102_0304_0506_0708).unwrap();
        let mut first = [0];
        map.read_at(8, &mut first).unwrap();
        assert_eq!(first, [8]);
        assert_eq!(map.load_u32(8).unwrap(), 0x0506_0708);
    }
}
