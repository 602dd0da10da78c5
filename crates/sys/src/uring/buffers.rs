//! Memory that a ring has registered, so that the kernel need not look its pages up for each operation.
//!
//! Registering is a ring's own affair, and its thread's, while memory is prepared once for all of a program's queues and
//! by any thread. So the thread that prepares memory gives it an index and a serial number, and each ring registers it when it
//! first sees it, in place of what had that index before.

use std::io;

use io_uring::Submitter;

use crate::map::Mapping;

/// A mapping that a ring may register, whole: what an operation moves is a part of it.
///
/// Numbers that name another mapping move bytes of pages that the ring once registered and that the kernel keeps for it,
/// or fail: they reach no memory that a reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredBuffer {
    index: u16,
    serial: u64,
    start: *mut u8,
    len: usize,
}

impl RegisteredBuffer {
    /// `mapping`, in slot `index` of a ring's table. `serial`, above 0, distinguishes it from earlier owners of the slot.
    #[must_use]
    #[inline]
    pub fn new(mapping: &Mapping, index: u16, serial: u64) -> Self {
        Self { index, serial, start: mapping.as_mut_ptr(), len: mapping.len() }
    }
}

/// Where a ring has a buffer that it registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferIndex(pub(super) u16);

/// What a ring has registered: by index, the serial number, or 0.
#[derive(Debug)]
pub(super) struct Registered(Box<[u64]>);

impl Registered {
    /// A table of `entries` entries, all empty.
    pub(super) fn new(submitter: &Submitter<'_>, entries: u16) -> io::Result<Self> {
        if entries > 0 {
            submitter.register_buffers_sparse(entries.into())?;
        }
        Ok(Self(vec![0; entries.into()].into()))
    }

    /// The index of a buffer that is registered from now on; `None` for one that the table has no place for.
    #[inline]
    pub(super) fn index(
        &mut self,
        submitter: &Submitter<'_>,
        buffer: RegisteredBuffer,
    ) -> io::Result<Option<BufferIndex>> {
        match self.0.get_mut(usize::from(buffer.index)) {
            Some(serial) if *serial == buffer.serial => Ok(Some(BufferIndex(buffer.index))),
            Some(serial) => {
                register(submitter, buffer)?;
                *serial = buffer.serial;
                Ok(Some(BufferIndex(buffer.index)))
            }
            None => Ok(None),
        }
    }
}

#[cold]
fn register(submitter: &Submitter<'_>, buffer: RegisteredBuffer) -> io::Result<()> {
    let memory = libc::iovec { iov_base: buffer.start.cast(), iov_len: buffer.len };
    // SAFETY: the kernel looks the pages up now and keeps them for as long as they are registered, whatever becomes of
    // the program's mapping of them; an address that is none is refused.
    unsafe { submitter.register_buffers_update(buffer.index.into(), &[memory], None) }
}
