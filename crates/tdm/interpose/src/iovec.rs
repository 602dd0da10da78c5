//! A program's buffers, read once more after the kernel has had them.

use std::ffi::{c_int, c_void};

use byway_tdm_engine::client::Sink;
use byway_tdm_engine::log::Source;
use libc::{iovec, off_t, size_t, ssize_t};

use crate::real;

/// Parts of a vector that the kernel takes at most.
const IOV_MAX: i32 = 1024;

/// Not to the end (linux/fs.h).
const RWF_NOAPPEND: c_int = 0x20;

/// What a call was given to write, part by part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    next: *const iovec,
    left: usize,
    /// How much of the first part was read.
    done: usize,
    /// The only part, of a call with one buffer.
    only: iovec,
}

impl Parts {
    /// One buffer.
    pub(crate) const fn one(from: *const c_void, len: size_t) -> Self {
        let only = iovec { iov_base: from.cast_mut(), iov_len: len };
        Self { next: std::ptr::null(), left: 0, done: 0, only }
    }

    /// A vector of them.
    pub(crate) fn many(parts: *const iovec, count: i32) -> Self {
        let left = usize::try_from(count).unwrap_or(0);
        Self { next: parts, left, done: 0, only: iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }
    }

    /// One buffer to be filled.
    pub(crate) fn whole(into: *mut c_void, len: size_t) -> Option<Self> {
        (len <= isize::MAX as usize).then(|| Self::one(into, len))
    }

    /// A vector of buffers, if it is one that the kernel takes.
    pub(crate) fn vector(parts: *const iovec, count: i32) -> Option<Self> {
        let is_one = (1..=IOV_MAX).contains(&count) && !parts.is_null();
        let vector = is_one.then(|| Self::many(parts, count))?;
        (vector.len_bytes() <= isize::MAX as u64).then_some(vector)
    }

    /// All bytes of all parts.
    pub(crate) fn len_bytes(&self) -> u64 {
        if self.next.is_null() {
            return self.only.iov_len as u64;
        }
        // SAFETY: as many parts as the program says there are.
        (0..self.left).map(|i| unsafe { (*self.next.add(i)).iov_len } as u64).fold(0, u64::saturating_add)
    }

    /// Writes all of it at an offset by the kernel, however the file was opened.
    pub(crate) fn write_in_place(self, fd: c_int, at: u64, appends: bool) -> ssize_t {
        let (parts, count) = match self.next.is_null() {
            true => (&raw const self.only, 1),
            // No more than IOV_MAX.
            false => (self.next, self.left as c_int),
        };
        let flags = if appends { RWF_NOAPPEND } else { 0 };
        // SAFETY: the parts that the program gave to its own call, which it is in.
        unsafe { real::pwritev2(fd, parts, count, at as off_t, flags) }
    }

    /// Bytes that can be read or stored at once, and where.
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

impl Sink for Parts {
    /// Memory that the program cannot store to ends it here: the kernel would have told it so.
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

impl Source for Parts {
    /// No more is asked for than the kernel took, so every byte was readable a moment ago: what a program unmaps under its own write
    /// ends it here, as it might have there. What it changes meanwhile is old or new.
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
