//! Memory that commands send from and receive into: page-aligned, and owned by one party at a time.
//!
//! A program owns a buffer until it submits it; a queue owns it until the completion gives it back. In between nobody
//! else can name its bytes, which is what makes a device's writes into it harmless. Memory that a device may still
//! write is never freed: a command that was given up keeps its buffer until the device has answered.

use std::fmt;
use std::sync::Arc;

use byway_dma::DmaMemory;

use crate::error::{Error, Result};
use crate::pool::{BufferPool, Lease};

/// Alignment and granularity of buffers, in bytes: a memory page.
pub const PAGE_BYTES: usize = 4096;

/// Page-aligned memory of a length of its own, up to a capacity in whole pages.
pub struct Buffer {
    memory: Arc<DmaMemory>,
    len: usize,
    lease: Option<Lease>,
}

impl Buffer {
    /// A buffer of `len` zeroes. Its memory is known to no device yet: a backend that must prepare memory does so for
    /// each command. Buffers that are used again and again come from [`crate::Backend::buffer`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn zeroed(len: usize) -> Result<Self> {
        Ok(Self { memory: allocate(len)?, len, lease: None })
    }

    /// A buffer that holds a copy of `bytes`.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.as_mut_slice().copy_from_slice(bytes);
        Ok(buffer)
    }

    pub(crate) fn leased(memory: Arc<DmaMemory>, len: usize, lease: Lease) -> Self {
        Self { memory, len, lease: Some(lease) }
    }

    /// Length in bytes: what a command sends, or at most receives.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most the length can be set to, in bytes.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Sets the length; at most the capacity. Bytes keep their values.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity());
    }

    /// The bytes.
    #[must_use]
    #[inline]
    #[expect(unsafe_code, reason = "DMA memory hands out no references; its one owner may have them")]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is at least `len` bytes long (`set_len`, `allocate`) and lives as long as `self.memory`.
        // References to it are only made here and in `as_mut_slice`, and last no longer than the borrow of `self`.
        // A device touches the memory only for a command that holds the buffer by value; then there is no `self`.
        unsafe { std::slice::from_raw_parts(self.memory.mapping().as_ptr(), self.len) }
    }

    /// The bytes, to be changed.
    #[must_use]
    #[inline]
    #[expect(unsafe_code, reason = "DMA memory hands out no references; its one owner may have them")]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.memory.mapping().as_mut_ptr(), self.len) }
    }

    /// The memory, for a backend that hands it to a device.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> &Arc<DmaMemory> {
        &self.memory
    }

    /// What `pool`'s backend called the memory when it prepared it, if the buffer is of that pool.
    #[must_use]
    #[inline]
    pub fn token(&self, pool: &BufferPool) -> Option<u64> {
        self.lease.as_ref()?.token_of(pool)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.end(Arc::clone(&self.memory));
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer({} of {} bytes)", self.len, self.capacity())
    }
}

/// Page-aligned memory of at least `len` bytes, zeroed.
pub(crate) fn allocate(len: usize) -> Result<Arc<DmaMemory>> {
    let bytes = len.max(1).next_multiple_of(PAGE_BYTES);
    let memory = DmaMemory::new(bytes);
    Ok(Arc::new(
        memory.map_err(|cause| Error::kernel(format!("no memory for a buffer of {len} bytes"), cause))?,
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_buffer_begins_as_zeroes_and_keeps_what_is_written() {
        let mut buffer = Buffer::zeroed(5000).unwrap();
        assert!(buffer.as_slice().iter().all(|byte| *byte == 0));
        buffer.as_mut_slice()[4999] = 7;
        assert_eq!((buffer.len(), buffer.capacity(), buffer.as_slice()[4999]), (5000, 8192, 7));
    }

    #[test]
    fn a_buffer_can_be_shortened_and_lengthened_within_its_memory() {
        let mut buffer = Buffer::copy_of(b"value").unwrap();
        buffer.set_len(3);
        assert_eq!(buffer.as_slice(), b"val");
        buffer.set_len(1 << 30);
        assert_eq!(buffer.len(), 4096);
        assert_eq!(Buffer::zeroed(0).unwrap().as_slice(), b"");
    }
}
