//! Memory that commands send from and receive into, owned by one party at a time.
//!
//! A program owns a buffer until it submits it; a queue owns it until the completion gives it back. In between no code
//! else can name its bytes, which is what makes a device's writes into it harmless. Memory that a device may still
//! write is never freed: a command that was given up keeps its buffer until the device has answered.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use byway_dma::DmaMemory;

use crate::error::{Error, Result};
use crate::pool::{BufferPool, Pages};
use crate::prepared::Prepared;

/// Alignment and granularity of buffers that are allocated here, in bytes: a memory page.
pub const PAGE_BYTES: usize = 4096;

/// Uniquely owned memory with a length up to its capacity.
///
/// Buffers of [`Buffer::zeroed`] and of a backend's `buffer` are page-aligned whole pages, which any device can use. Memory of
/// a program ([`Buffer::from_bytes`], [`Buffer::lent`]) has any alignment: a backend that needs more bounces it, unless it
/// has prepared it ([`crate::Backend::prepare`]).
///
/// It is one pointer wide, as commands and completions carry buffers by value.
pub struct Buffer(ManuallyDrop<Box<Inner>>);

/// Where a buffer stands. On a cache line of its own: all that a command needs to know of it comes at once.
#[repr(align(64))]
pub(crate) struct Inner {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    memory: Memory,
}

/// Whose memory it is.
enum Memory {
    /// Pages of this buffer alone; those of a pool go back to it.
    Pages(Pages),
    /// A part of other memory, kept by all its parts.
    Part(Arc<Backing>),
    /// A program's, which keeps it in place for as long as the buffer is in use.
    Lent,
}

/// What the parts of a buffer keep.
enum Backing {
    /// Memory that a program brought.
    Boxed(#[expect(dead_code, reason = "kept for what dropping it does")] Boxed),
    /// The buffer that was cut.
    Whole(Buffer),
    /// Memory that a program brought and a backend has prepared.
    Prepared(Prepared),
}

/// A buffer's range of memory that a backend has prepared.
#[derive(Debug, Clone, Copy)]
pub struct PreparedRange<'a> {
    /// The memory.
    pub memory: &'a Arc<DmaMemory>,
    /// The backend's word for it.
    pub token: u64,
    /// Where in it the buffer begins, in bytes: a multiple of 4, as devices want addresses.
    pub offset_bytes: u64,
}

#[expect(unsafe_code, reason = "a raw pointer is sent with the one owner of what it points to")]
// SAFETY: the buffer is the one owner of its bytes, and its memory is bound to no thread.
unsafe impl Send for Inner {}
#[expect(unsafe_code, reason = "a raw pointer is shared with the one owner of what it points to")]
// SAFETY: `&Buffer` gives shared references to the bytes alone.
unsafe impl Sync for Inner {}

impl Buffer {
    /// A buffer of `len` zeroes. Its memory is known to no device yet: a backend that must prepare memory does so for
    /// each command. Buffers that are used again and again come from [`crate::Backend::buffer`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn zeroed(len: usize) -> Result<Self> {
        Ok(Self::new(Inner::of_pages(Pages::new(allocate(len)?)), len))
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

    /// A buffer over memory that a program has already, without a copy. [`Buffer::split_off`] makes several of it.
    #[must_use]
    pub fn from_bytes(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        let bytes = Box::leak(bytes);
        let start = NonNull::from(&mut *bytes).cast();
        let backing = Backing::Boxed(Boxed { start, len });
        Self::new(Inner { start, len, capacity: len, memory: Memory::Part(Arc::new(backing)) }.into(), len)
    }

    /// A buffer over memory that stays a program's: for the borders to other languages.
    ///
    /// # Safety
    /// `start` points to `len` bytes that stay valid and that no other code touches until this buffer is dropped; and a
    /// buffer in a command is dropped only when its completion was taken and dropped.
    #[must_use]
    #[expect(unsafe_code, reason = "the caller vouches for the memory")]
    pub unsafe fn lent(start: NonNull<u8>, len: usize) -> Self {
        Self::new(Inner { start, len, capacity: len, memory: Memory::Lent }.into(), len)
    }

    /// A buffer of `len` bytes of what it stands in.
    pub(crate) fn new(mut inner: Box<Inner>, len: usize) -> Self {
        inner.len = len;
        Self(ManuallyDrop::new(inner))
    }

    /// Cuts the buffer in two at byte `at` of its capacity, without a copy; returns the second part. Both lengths
    /// become their capacities.
    ///
    /// # Panics
    /// If `at` is beyond the capacity, as a slice's `split_at`.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let whole = &mut **self.0;
        assert!(at <= whole.capacity, "split at {at} of {} bytes", whole.capacity);
        whole.memory = match std::mem::replace(&mut whole.memory, Memory::Lent) {
            Memory::Pages(pages) => {
                Memory::Part(Arc::new(Backing::Whole(Self::new(Inner::of_pages(pages), 0))))
            }
            // What is left of a lent buffer is lent for as long.
            part => part,
        };
        let second = Inner {
            // Within the allocation, or one byte behind it.
            start: NonNull::new(whole.start.as_ptr().wrapping_add(at)).unwrap_or(NonNull::dangling()),
            len: 0,
            capacity: whole.capacity - at,
            memory: match &whole.memory {
                Memory::Part(backing) => Memory::Part(Arc::clone(backing)),
                Memory::Pages(_) | Memory::Lent => Memory::Lent,
            },
        };
        (whole.len, whole.capacity) = (at, at);
        let len = second.capacity;
        Self::new(second.into(), len)
    }

    /// Length in bytes: what a command sends, or at most receives.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the length is zero.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The most the length can be set to, in bytes.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Sets the length; at most the capacity. Bytes keep their values.
    pub fn set_len(&mut self, len: usize) {
        self.0.len = len.min(self.0.capacity);
    }

    /// The bytes.
    #[must_use]
    #[inline]
    #[expect(
        unsafe_code,
        reason = "memory of a device's hands out no references; its one owner may have them"
    )]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` points to `capacity` bytes, at least `len`, which live as long as `self.0.memory` or, lent, as
        // long as `self` by `lent`'s contract. References to them are only made here and in `as_mut_slice`, and last no
        // longer than the borrow of `self`. A device touches the memory only for a command that holds the buffer by
        // value; then there is no `self`.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.len) }
    }

    /// The bytes, to be changed.
    #[must_use]
    #[inline]
    #[expect(
        unsafe_code,
        reason = "memory of a device's hands out no references; its one owner may have them"
    )]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }

    /// First byte, for a system call that reads or writes the memory while a command holds the buffer.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.0.start
    }

    /// The pages, for a backend that hands them to a device; `None` for memory that a program brought.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Option<&Arc<DmaMemory>> {
        self.0.pages().map(|pages| &pages.memory)
    }

    /// The buffer's range of memory that `pool`'s backend has prepared; `None` if there is none, or it is not aligned to 4 bytes.
    #[must_use]
    #[inline]
    pub fn prepared(&self, pool: &BufferPool) -> Option<PreparedRange<'_>> {
        match &self.0.memory {
            Memory::Pages(pages) => {
                Some(PreparedRange { memory: &pages.memory, token: pages.token_of(pool)?, offset_bytes: 0 })
            }
            Memory::Part(backing) => self.0.prepared_in(backing.pages()?, pool),
            Memory::Lent => None,
        }
    }

    /// The older name of [`Self::prepared`].
    #[deprecated(note = "renamed to prepared")]
    #[must_use]
    pub fn standing(&self, pool: &BufferPool) -> Option<PreparedRange<'_>> {
        self.prepared(pool)
    }
}

impl Backing {
    /// The pages that a backend may have prepared.
    fn pages(&self) -> Option<&Pages> {
        match self {
            Self::Boxed(_) => None,
            Self::Whole(whole) => whole.0.pages(),
            Self::Prepared(prepared) => Some(prepared.pages()),
        }
    }
}

impl Drop for Buffer {
    #[expect(unsafe_code, reason = "gives what it stands in to the pool that it came from")]
    fn drop(&mut self) {
        // SAFETY: this is the end of the buffer; nothing looks into it afterwards.
        end(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// The memory is not used any more.
fn end(mut inner: Box<Inner>) {
    if let Some(pool) = inner.pages_mut().and_then(Pages::leave_pool) {
        pool.give_back(inner);
    }
}

impl Inner {
    /// The whole of `pages`.
    pub(crate) fn of_pages(pages: Pages) -> Box<Self> {
        // A mapping never begins at zero.
        let start = NonNull::new(pages.memory.mapping().as_mut_ptr()).unwrap_or(NonNull::dangling());
        let capacity = pages.memory.len();
        Box::new(Self { start, len: capacity, capacity, memory: Memory::Pages(pages) })
    }

    /// All of memory that a program brought, which is prepared.
    pub(crate) fn of_prepared(prepared: Prepared) -> Box<Self> {
        let memory = &prepared.pages().memory;
        let start = NonNull::new(memory.mapping().as_mut_ptr()).unwrap_or(NonNull::dangling());
        let capacity = memory.len();
        let memory = Memory::Part(Arc::new(Backing::Prepared(prepared)));
        Box::new(Self { start, len: capacity, capacity, memory })
    }

    /// Where in `pages` a part of them begins.
    #[inline]
    fn prepared_in<'a>(&self, pages: &'a Pages, pool: &BufferPool) -> Option<PreparedRange<'a>> {
        let token = pages.token_of(pool)?;
        let offset = self.start.addr().get() - pages.memory.mapping().as_mut_ptr().addr();
        let offset_bytes = offset as u64;
        offset_bytes.is_multiple_of(4).then_some(PreparedRange { memory: &pages.memory, token, offset_bytes })
    }

    /// The pages that it is a part of, if any.
    #[inline]
    pub(crate) fn pages(&self) -> Option<&Pages> {
        match &self.memory {
            Memory::Pages(pages) => Some(pages),
            Memory::Part(_) | Memory::Lent => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn pages_mut(&mut self) -> Option<&mut Pages> {
        match &mut self.memory {
            Memory::Pages(pages) => Some(pages),
            Memory::Part(_) | Memory::Lent => None,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer({} of {} bytes)", self.len(), self.capacity())
    }
}

/// A leaked box, to be freed when the last part of it is dropped.
struct Boxed {
    start: NonNull<u8>,
    len: usize,
}

#[expect(unsafe_code, reason = "owns the box that it points to")]
// SAFETY: it owns the bytes, and gives no access to them.
unsafe impl Send for Boxed {}
#[expect(unsafe_code, reason = "owns the box that it points to")]
// SAFETY: as for `Send`.
unsafe impl Sync for Boxed {}

impl Drop for Boxed {
    #[expect(unsafe_code, reason = "gives the box back that was leaked for its parts")]
    fn drop(&mut self) {
        // SAFETY: made from a leaked `Box<[u8]>` of this length, and every buffer over it is gone: each held this.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len)) });
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

    #[test]
    fn a_programs_own_bytes_become_buffers_that_can_be_cut() {
        let mut first = Buffer::from_bytes((0..100).collect());
        let second = first.split_off(40);
        drop(first);
        assert_eq!(second.as_slice(), (40..100).collect::<Vec<u8>>());
        assert!(second.memory().is_none());
    }

    #[test]
    fn a_cut_buffer_of_pages_keeps_them_until_both_parts_are_gone() {
        let mut first = Buffer::zeroed(8192).unwrap();
        let mut second = first.split_off(4096);
        second.as_mut_slice().fill(7);
        assert!(first.as_slice().iter().all(|byte| *byte == 0));
        drop(first);
        assert!(second.as_slice().iter().all(|byte| *byte == 7));
    }
}
