//! Mapped memory with one writer and readers on other threads, or with several writers.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use crate::cacheline::prefetch_address;
use crate::checksum::PAGE_BYTES;
use crate::exclusive::ExclusiveMapping;
use crate::map::{MapError, Mapping};
use crate::{checked_page, racing};

/// Memory that one owner writes while other threads read it: the owner reads it as a slice, others by a [`MappingReader`].
///
/// A reader copies whatever is there. A protocol of the owner says whether a copy is whole: a word that changes before the bytes do
/// is loaded before the copy and, behind an acquire fence, again.
#[derive(Debug)]
pub struct PublishedMapping(Arc<Mapping>);

impl PublishedMapping {
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

    /// Copies into the mapping. A reader may see some of the bytes and not yet others.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    #[inline]
    pub fn write_at(&mut self, at: usize, from: &[u8]) -> Result<(), MapError> {
        let to = self.0.check(at, from.len(), 1)?;
        // SAFETY: inside the mapping. Others only load from it, through `MappingReader`; `&mut self` keeps slices of it away, so
        // that `from` is no part of it.
        unsafe { racing::to_shared(to, from) };
        Ok(())
    }

    /// Fills a range with one byte value.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    pub fn fill_at(&mut self, at: usize, len_bytes: usize, value: u8) -> Result<(), MapError> {
        self.0.fill_at(at, len_bytes, value)
    }

    /// As [`ExclusiveMapping::populate`].
    ///
    /// # Errors
    /// As there.
    pub fn populate(&mut self) -> io::Result<()> {
        self.0.populate(0, self.0.len())
    }

    /// As [`ExclusiveMapping::discard`]. A reader sees bytes of before or of afterwards.
    ///
    /// # Errors
    /// As there.
    pub fn discard(&mut self, at: usize, len_bytes: usize) -> io::Result<()> {
        self.0.discard(at, len_bytes)
    }

    /// A reader for other threads.
    #[must_use]
    pub fn reader(&self) -> MappingReader {
        MappingReader(Arc::clone(&self.0))
    }

    /// Gives up slices of it: several threads may write it from now on.
    #[must_use]
    pub fn into_shared(self) -> SharedMapping {
        SharedMapping(self.0)
    }
}

/// Memory that several threads write and read at the same time. It is copied in and out, and never borrowed.
///
/// Who writes what, and whether a copy is whole, is for a protocol of its owners.
#[derive(Debug, Clone)]
pub struct SharedMapping(Arc<Mapping>);

impl SharedMapping {
    /// As [`Mapping::load_u64`].
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
    pub fn store_u64(&self, at: usize, value: u64) -> Result<(), MapError> {
        self.0.store_u64(at, value)
    }

    /// Copies into the mapping.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    #[inline]
    pub fn write_at(&self, at: usize, from: &[u8]) -> Result<(), MapError> {
        let to = self.0.check(at, from.len(), 1)?;
        // SAFETY: inside the mapping, of which no slice exists: others touch it by racing copies and atomic words alone, so that
        // `from` is no part of it.
        unsafe { racing::to_shared(to, from) };
        Ok(())
    }

    /// Copies from the mapping.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    #[inline]
    pub fn copy_at(&self, at: usize, into: &mut [u8]) -> Result<(), MapError> {
        let from = self.0.check(at, into.len(), 1)?;
        // SAFETY: inside the mapping, which lives as long as `self`; `into` is exclusive, so no part of it.
        unsafe { racing::from_shared(from, into) };
        Ok(())
    }

    /// As [`Mapping::fill_at`].
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    pub fn fill_at(&self, at: usize, len_bytes: usize, value: u8) -> Result<(), MapError> {
        self.0.fill_at(at, len_bytes, value)
    }

    /// A reader of it.
    #[must_use]
    pub fn reader(&self) -> MappingReader {
        MappingReader(Arc::clone(&self.0))
    }
}

impl From<ExclusiveMapping> for PublishedMapping {
    fn from(mapping: ExclusiveMapping) -> Self {
        Self(Arc::new(mapping.into_shared()))
    }
}

impl Deref for PublishedMapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped readable for as long as `self` lives. The borrow keeps the only writer out, and readers only load.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.len()) }
    }
}

/// Reads a [`PublishedMapping`] while its owner writes it.
#[derive(Debug, Clone)]
pub struct MappingReader(Arc<Mapping>);

impl MappingReader {
    /// The aligned little-endian word at `at`, before everything that is read after it.
    ///
    /// # Errors
    /// [`MapError`] when the word is not inside the mapping or not aligned.
    #[inline]
    pub fn load_u64(&self, at: usize) -> Result<u64, MapError> {
        self.0.load_u64(at)
    }

    /// Prefetches the cache line of the byte at `at`. Outside of the mapping it does nothing.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Ok(byte) = self.0.check(at, 1, 1) {
            prefetch_address(byte.addr());
        }
    }

    /// Prefetches 4096 bytes that are soon copied, into the processor's second cache. Outside of the mapping it does nothing.
    #[inline]
    pub fn prefetch_page(&self, at: usize) {
        if let Ok(page) = self.0.check(at, PAGE_BYTES, 1) {
            checked_page::prefetch(page.addr());
        }
    }

    /// Copies from the mapping.
    ///
    /// # Errors
    /// [`MapError`] when the range is not inside the mapping.
    #[inline]
    pub fn copy_at(&self, at: usize, into: &mut [u8]) -> Result<(), MapError> {
        let from = self.0.check(at, into.len(), 1)?;
        // SAFETY: inside the mapping, which lives as long as `self`; `into` is exclusive, so no part of it.
        unsafe { racing::from_shared(from, into) };
        Ok(())
    }

    /// Copies 4096 bytes from an aligned place; the CRC-32C of what was copied. The page at byte `next` is prefetched meanwhile.
    ///
    /// # Errors
    /// [`MapError`] when they are not inside the mapping or not aligned to 8 bytes.
    #[inline]
    pub fn copy_page(
        &self,
        at: usize,
        into: &mut [u8; PAGE_BYTES],
        next: Option<usize>,
    ) -> Result<u32, MapError> {
        let from = self.0.check(at, PAGE_BYTES, 8)?;
        let next = next.and_then(|next| self.0.check(next, PAGE_BYTES, 1).ok()).map(|page| page.addr());
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned; `into` is exclusive, so no part of it.
        Ok(unsafe { checked_page::copy(from, into, next) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::checksum::crc32c;

    fn two_pages() -> PublishedMapping {
        ExclusiveMapping::anonymous(2 * PAGE_BYTES).unwrap().into()
    }

    #[test]
    fn reader_sees_what_the_owner_stored() {
        let mut map = two_pages();
        let reader = map.reader();
        map.store_u64(8, 5).unwrap();
        map.write_at(16, b"bytes").unwrap();
        let mut bytes = [0; 5];
        reader.copy_at(16, &mut bytes).unwrap();
        assert_eq!((reader.load_u64(8).unwrap(), &bytes, &map[16..21]), (5, b"bytes", &b"bytes"[..]));
        drop(map);
        assert_eq!(reader.load_u64(8).unwrap(), 5, "a reader keeps the memory");
    }

    #[test]
    fn shared_mapping_is_written_by_several_threads() {
        let map = two_pages().into_shared();
        std::thread::scope(|scope| {
            for (page, byte) in [(0, 1), (PAGE_BYTES, 2)] {
                let map = map.clone();
                scope.spawn(move || map.write_at(page, &[byte; PAGE_BYTES]).unwrap());
            }
        });
        let mut copy = [0; 2 * PAGE_BYTES];
        map.copy_at(0, &mut copy).unwrap();
        assert!(
            copy[..PAGE_BYTES].iter().all(|byte| *byte == 1)
                && copy[PAGE_BYTES..].iter().all(|byte| *byte == 2)
        );
        map.store_u64(8, 7).unwrap();
        assert_eq!((map.load_u64(8).unwrap(), map.reader().load_u64(8).unwrap()), (7, 7));
        assert!(map.write_at(2 * PAGE_BYTES - 1, &[0; 2]).is_err() && map.copy_at(1, &mut copy).is_err());
    }

    #[test]
    fn copied_page_has_the_checksum_of_its_bytes() {
        let mut map = two_pages();
        for seed in 0..20_u32 {
            let bytes: Vec<u8> =
                (0..PAGE_BYTES as u32).map(|i| (i * (seed + 7)).rotate_left(seed) as u8).collect();
            map.write_at(PAGE_BYTES, &bytes).unwrap();
            let mut copy = [0; PAGE_BYTES];
            assert_eq!(map.reader().copy_page(PAGE_BYTES, &mut copy, Some(0)), Ok(crc32c(&bytes)));
            assert_eq!(copy[..], bytes);
        }
    }

    #[test]
    fn nothing_outside_the_mapping_is_copied() {
        let mut map = two_pages();
        let reader = map.reader();
        assert!(reader.copy_at(2 * PAGE_BYTES - 3, &mut [0; 4]).is_err());
        assert!(reader.copy_page(PAGE_BYTES + 8, &mut [0; PAGE_BYTES], None).is_err());
        assert!(reader.copy_page(4, &mut [0; PAGE_BYTES], None).is_err(), "unaligned words could tear");
        assert!(map.write_at(usize::MAX, &[0; 4]).is_err());
    }
}
