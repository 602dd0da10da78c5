//! Memory that commands move, as handles: the memory is the command's while one is on its way, and the handle's else.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use byway::{Backend, Buffer, Error, ErrorKind, Result};

use crate::arg::{check, handle, invalid, put, want};
use crate::device::byway_device;
use crate::error::{border, border_quiet};

/// Memory that commands send from and receive into. One command uses it at a time; its memory is the program's again
/// when that command's completion is taken.
pub struct byway_buffer {
    /// `None` while a command holds it, or when it is lost with its queue.
    memory: Option<Buffer>,
    start: *mut c_void,
    bytes: usize,
    capacity: usize,
    /// Given back while a command held it: freed with the command's completion.
    freed: bool,
}

/// Allocates a buffer of `bytes` bytes in memory that the device can use without preparing it for each command. It
/// holds zeroes, or what is left from its last use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_alloc(
    device: *const byway_device,
    bytes: usize,
    buffer: *mut *mut byway_buffer,
) -> c_int {
    border(|| {
        want(buffer, "buffer")?;
        // SAFETY: by the contract.
        let memory = unsafe { byway_device::shared(device) }?.buffer(bytes)?;
        // SAFETY: by the contract.
        unsafe { put(buffer, byway_buffer::new(memory).into_raw(), "buffer") }?;
        Ok(0)
    })
}

/// Makes a buffer of memory that the program has. It stays the program's, which keeps it in place until the buffer is
/// freed and every command with it has finished. A backend that needs other memory than this carries a copy or refuses
/// the command: `memory_align_bytes` of byway_device_capabilities() says on what it must begin and end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_wrap(
    memory: *mut c_void,
    bytes: usize,
    buffer: *mut *mut byway_buffer,
) -> c_int {
    border(|| {
        check(memory, bytes, "memory")?;
        let start = NonNull::new(memory.cast()).unwrap_or(NonNull::dangling());
        // SAFETY: the program keeps the memory until the buffer is freed and no command holds it, by the contract; and
        // `byway_queue` takes every completion before it is closed, or loses the memory for good.
        let lent = unsafe { Buffer::lent(start, bytes) };
        // SAFETY: by the contract.
        unsafe { put(buffer, byway_buffer::new(lent).into_raw(), "buffer") }?;
        Ok(0)
    })
}

/// Prepares the memory of a buffer as byway_buffer_alloc() does, until the buffer and all that were cut from it are freed:
/// wrapped memory, above all, of which commands would else carry copies, or which would be prepared for each. It begins and
/// ends at a page of 4096 bytes. A buffer that cannot be prepared is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_prepare(
    device: *const byway_device,
    buffer: *mut byway_buffer,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, buffer) = unsafe { (byway_device::shared(device)?, handle(buffer, "buffer")?) };
        let (memory, error) = match device.prepare(buffer.take()?) {
            Ok(prepared) => (prepared, None),
            Err(unprepared) => (unprepared.buffer, Some(unprepared.error)),
        };
        buffer.settle(Some(memory));
        error.map_or(Ok(0), Err)
    })
}

/// Cuts a buffer in two at byte `at`, without a copy: `second` is what stood behind it. The memory is freed with the
/// last of its parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_cut(
    buffer: *mut byway_buffer,
    at: usize,
    second: *mut *mut byway_buffer,
) -> c_int {
    border(|| {
        want(second, "second")?;
        // SAFETY: by the contract.
        let first = unsafe { handle(buffer, "buffer") }?;
        if at > first.capacity {
            return Err(invalid(format!("a cut at byte {at} of {}", first.capacity)));
        }
        let mut memory = first.take()?;
        let behind = memory.split_off(at);
        *first = byway_buffer::new(memory);
        // SAFETY: by the contract.
        unsafe { put(second, byway_buffer::new(behind).into_raw(), "second") }?;
        Ok(0)
    })
}

/// First byte of the buffer; NULL for NULL, or for a buffer that was lost with a queue that failed. It stays where it
/// is. While a command uses the buffer the program leaves it alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_data(buffer: *const byway_buffer) -> *mut c_void {
    // SAFETY: by the contract NULL or a buffer of this library.
    unsafe { buffer.as_ref() }.map_or(std::ptr::null_mut(), |buffer| buffer.start)
}

/// Length in bytes: what a command moves with this buffer. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_bytes(buffer: *const byway_buffer) -> usize {
    // SAFETY: by the contract NULL or a buffer of this library.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.bytes)
}

/// The longest that its length can be set to, in bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_capacity(buffer: *const byway_buffer) -> usize {
    // SAFETY: by the contract NULL or a buffer of this library.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.capacity)
}

/// Sets the length; what is in the memory stays there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_set_bytes(buffer: *mut byway_buffer, bytes: usize) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let buffer = unsafe { handle(buffer, "buffer") }?;
        buffer.set_bytes(bytes).map(|()| 0)
    })
}

/// Frees a buffer; NULL is none. One that a command uses is freed with that command's completion; wrapped memory stays
/// the program's to free, after that completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_buffer_free(buffer: *mut byway_buffer) {
    border_quiet(|| {
        // SAFETY: by the contract NULL or a buffer of this library, which the program does not use again.
        match unsafe { buffer.as_mut() } {
            Some(busy) if busy.is_busy() => busy.freed = true,
            // SAFETY: `into_raw` made it.
            Some(_) => drop(unsafe { Box::from_raw(buffer) }),
            None => {}
        }
    });
}

impl byway_buffer {
    fn new(memory: Buffer) -> Self {
        let start = memory.as_ptr().as_ptr().cast();
        let (bytes, capacity) = (memory.len(), memory.capacity());
        Self { memory: Some(memory), start, bytes, capacity, freed: false }
    }

    fn into_raw(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    #[inline]
    fn is_busy(&self) -> bool {
        self.memory.is_none() && !self.start.is_null()
    }

    fn set_bytes(&mut self, bytes: usize) -> Result<()> {
        let Some(memory) = &mut self.memory else { return Err(self.missing()) };
        if bytes > self.capacity {
            let said = format!("a length of {bytes} bytes in a buffer of {}", self.capacity);
            return Err(invalid(said));
        }
        memory.set_len(bytes);
        self.bytes = bytes;
        Ok(())
    }

    /// The memory, for a command.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Result<Buffer> {
        self.memory.take().ok_or_else(|| self.missing())
    }

    /// The memory back from a command that was waited for; none is left of one that was lost with its queue. The
    /// program has not freed the buffer meanwhile.
    #[inline(always)]
    pub(crate) fn settle(&mut self, memory: Option<Buffer>) {
        // There was none: a command had it. So nothing has to be dropped.
        std::mem::forget(std::mem::replace(&mut self.memory, memory));
        if self.memory.is_none() {
            self.clear_place();
        }
    }

    #[cold]
    fn clear_place(&mut self) {
        (self.start, self.bytes, self.capacity) = (std::ptr::null_mut(), 0, 0);
    }

    /// The memory back from its command. If the program has given the buffer back meanwhile, it is gone after this.
    ///
    /// # Safety
    /// `at` is the handle that the memory was taken from.
    #[inline(always)]
    pub(crate) unsafe fn restore(at: *mut Self, memory: Buffer) {
        // SAFETY: a handle that a command uses is alive: giving it back only marks it.
        let buffer = unsafe { &mut *at };
        // There was none: a command had it. So nothing has to be dropped.
        std::mem::forget(buffer.memory.replace(memory));
        if buffer.freed {
            // SAFETY: `into_raw` made it, and the program has given it back.
            unsafe { Self::end(at) };
        }
    }

    /// # Safety
    /// `into_raw` made it, and the program does not use it again.
    #[cold]
    #[inline(never)]
    unsafe fn end(at: *mut Self) {
        // SAFETY: the caller's word.
        drop(unsafe { Box::from_raw(at) });
    }

    /// Marks a buffer whose memory will not come back.
    ///
    /// # Safety
    /// As [`Self::restore`].
    #[cold]
    pub(crate) unsafe fn lose(at: *mut Self) {
        // SAFETY: as in `restore`.
        let buffer = unsafe { &mut *at };
        buffer.clear_place();
        if buffer.freed {
            // SAFETY: as in `restore`.
            drop(unsafe { Box::from_raw(at) });
        }
    }

    #[cold]
    fn missing(&self) -> Error {
        if self.start.is_null() {
            return Error::host(ErrorKind::DeviceLost, "the buffer was lost with a queue that failed");
        }
        Error::host(ErrorKind::Busy, "a command that has not finished uses the buffer")
    }
}
