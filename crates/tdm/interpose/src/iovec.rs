//! A program's buffers (iovec), read again after the kernel has read them.

use std::ffi::{c_int, c_void};

use byway_tdm_engine::client::Sink;
use byway_tdm_engine::log::Source;
use libc::{iovec, off_t, size_t, ssize_t};

use crate::real;

/// Most parts of a vector, by the kernel.
const IOV_MAX: i32 = 1024;

/// RWF_NOAPPEND (linux/fs.h).
const RWF_NOAPPEND: c_int = 0x20;

/// Buffers of a call, part by part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoVecs {
    next: *const iovec,
    left: usize,
    /// Bytes of the first part already read.
    done: usize,
    /// The part of a call with a single buffer.
    only: iovec,
}

impl IoVecs {
    /// One buffer to be read.
    pub(crate) const fn one(from: *const c_void, len: size_t) -> Self {
        let only = iovec { iov_base: from.cast_mut(), iov_len: len };
        Self { next: std::ptr::null(), left: 0, done: 0, only }
    }

    /// A vector of buffers.
    pub(crate) fn many(iovec: *const iovec, count: i32) -> Self {
        let left = usize::try_from(count).unwrap_or(0);
        Self { next: iovec, left, done: 0, only: iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }
    }

    /// One buffer to be filled.
    pub(crate) fn whole(into: *mut c_void, len: size_t) -> Option<Self> {
        (len <= isize::MAX as usize).then(|| Self::one(into, len))
    }

    /// A vector, if the kernel would accept it.
    pub(crate) fn vector(iovec: *const iovec, count: i32) -> Option<Self> {
        let is_one = (1..=IOV_MAX).contains(&count) && !iovec.is_null();
        let vector = is_one.then(|| Self::many(iovec, count))?;
        (vector.len_bytes() <= isize::MAX as u64).then_some(vector)
    }

    /// Bytes of all parts.
    pub(crate) fn len_bytes(&self) -> u64 {
        if self.next.is_null() {
            return self.only.iov_len as u64;
        }
        // SAFETY: as many parts as the program says there are.
        (0..self.left).map(|i| unsafe { (*self.next.add(i)).iov_len } as u64).fold(0, u64::saturating_add)
    }

    /// Writes everything at an offset by the kernel, in place also if the file was opened to append.
    pub(crate) fn write_in_place(self, fd: c_int, at: u64, appends: bool) -> ssize_t {
        let (iovec, count) = match self.next.is_null() {
            true => (&raw const self.only, 1),
            // No more than IOV_MAX.
            false => (self.next, self.left as c_int),
        };
        let flags = if appends { RWF_NOAPPEND } else { 0 };
        // SAFETY: the parts that the program gave to its own call, which it is in.
        unsafe { real::pwritev2(fd, iovec, count, at as off_t, flags) }
    }

    /// The next contiguous bytes.
    fn piece(&mut self) -> (*const u8, usize) {
        if self.next.is_null() {
            return (self.only.iov_base.cast::<u8>().wrapping_add(self.done), self.only.iov_len - self.done);
        }
        while self.left > 0 {
            // SAFETY: one of the vector's parts, of which the kernel has read at least as many bytes as are asked for here.
            let part = unsafe { *self.next };
            if self.done < part.iov_len {
                return (part.iov_base.cast::<u8>().wrapping_add(self.done), part.iov_len - self.done);
            }
            (self.next, self.left, self.done) = (self.next.wrapping_add(1), self.left - 1, 0);
        }
        (std::ptr::null(), 0)
    }
}

impl Sink for IoVecs {
    /// A buffer that is not writable ends the program here, where the kernel would have returned EFAULT.
    fn take(&mut self, bytes: &[u8]) {
        let mut taken = 0;
        while taken < bytes.len() {
            let (to, there) = self.piece();
            let len = there.min(bytes.len() - taken);
            if len == 0 {
                return;
            }
            // SAFETY: the program's buffer for as many bytes, and the other memory is ours alone.
            unsafe { std::ptr::copy_nonoverlapping(bytes[taken..].as_ptr(), to.cast_mut(), len) };
            self.done += len;
            taken += len;
        }
    }
}

impl Source for IoVecs {
    /// Reads no more than the kernel has read, so every byte was readable. A program that unmaps its buffer during the write ends here; one that
    /// changes it gets old or new bytes.
    fn fill(&mut self, into: &mut [u8]) {
        let mut filled = 0;
        while filled < into.len() {
            let (from, there) = self.piece();
            let len = there.min(into.len() - filled);
            if len == 0 {
                return;
            }
            // SAFETY: `len` readable bytes, as above, and the other memory is ours alone.
            unsafe { std::ptr::copy_nonoverlapping(from, into[filled..].as_mut_ptr(), len) };
            self.done += len;
            filled += len;
        }
    }
}
