//! Changes that cannot be followed. A single one suspends the log; a lasting one (a mapping, a ring) bars the file.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use byway_tdm_engine::table::Reason;
use libc::{mmsghdr, msghdr, off_t, size_t, ssize_t};

use super::attributes::of_open;
use super::resident::{Failing, both_via_kernel, exclude_all_from_dax, exclude_from_dax, via_kernel};
use super::{below, sync};
use crate::{real, state};

pub(super) fn once<R: Failing>(fd: c_int, real: impl FnOnce() -> R) -> R {
    via_kernel(fd, Reason::NeedsKernel, || match state::file(fd) {
        Some(file) => file.unseen(below(fd), real),
        None => real(),
    })
}

/// As [`once`], for a change to `to` with bytes of the file `from`.
pub(super) fn once_from<R: Failing>((to, from): (c_int, c_int), real: impl FnOnce() -> R) -> R {
    via_kernel(from, Reason::NeedsKernel, || once(to, real))
}

/// A shared mapping may become writable later (mprotect).
pub(super) fn mapped(flags: c_int, fd: c_int) {
    const SHARED_VALIDATE: c_int = 3;
    if matches!(flags & SHARED_VALIDATE, libc::MAP_SHARED | SHARED_VALIDATE)
        && flags & libc::MAP_ANONYMOUS == 0
    {
        state::bar(fd, Reason::Mapped);
    } else if flags & libc::MAP_ANONYMOUS == 0 {
        exclude_from_dax(fd);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap(
    at: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    mapped(flags, fd);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    via_kernel(fd, Reason::Mapped, || unsafe { real::mmap(at, len, access, flags, fd, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap64(
    at: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    mapped(flags, fd);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    via_kernel(fd, Reason::Mapped, || unsafe { real::mmap64(at, len, access, flags, fd, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    once_from((to, from), || unsafe { real::sendfile(to, from, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    once_from((to, from), || unsafe { real::sendfile64(to, from, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    once_from((to, from), || unsafe { real::splice(from, from_at, to, to_at, len, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    once_from((to, from), || unsafe { real::copy_file_range(from, from_at, to, to_at, len, flags) })
}

/// ioctl: FICLONE, FICLONERANGE, FIDEDUPERANGE, file flags and others.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    const FICLONE: c_ulong = 0x4004_9409;
    const FICLONERANGE: c_ulong = 0x4020_940d;
    const FS_IOC_SETFLAGS: c_ulong = 0x4008_6602;
    const FS_IOC_FSSETXATTR: c_ulong = 0x401c_5820;
    if matches!(request, FICLONE | FICLONERANGE) {
        state::bar(fd, Reason::Cloned);
    }
    let other = match request {
        FICLONE => argument.addr() as c_int,
        // SAFETY: the number of the file that blocks are taken from comes first in what the program gave.
        FICLONERANGE if !argument.is_null() => unsafe { argument.cast::<i64>().read_unaligned() as c_int },
        _ => fd,
    };
    let real =
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        || both_via_kernel((fd, other), Reason::NeedsKernel, || unsafe { real::ioctl(fd, request, argument) });
    match request {
        FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR => of_open(fd, real),
        _ => real(),
    }
}

/// sendmsg: descriptors in a message go to another program.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: a message that the program passes to a call that reads it.
    if !message.is_null() && unsafe { (*message).msg_controllen } > 0 {
        // SAFETY: as above.
        unsafe { bar_those_in(message) };
    }
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::sendmsg(socket, message, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    socket: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    for i in 0..count as usize {
        // SAFETY: as many messages as the program says there are.
        unsafe { bar_those_in(&raw const (*messages.add(i)).msg_hdr) };
    }
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::sendmmsg(socket, messages, count, flags) }
}

unsafe fn bar_those_in(message: *const msghdr) {
    // SAFETY: a message that the program gave to a call which reads it in the same way.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let fds = libc::CMSG_DATA(header).cast::<c_int>();
                for i in 0..bytes / size_of::<c_int>() {
                    state::bar(fds.add(i).read_unaligned(), Reason::HandedOn);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    state::bar_all(Reason::Ring);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::io_uring_setup(entries, parameters) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init(
    entries: c_uint,
    ring: *mut c_void,
    flags: c_uint,
) -> c_int {
    state::bar_all(Reason::Ring);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::io_uring_queue_init(entries, ring, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    state::bar_all(Reason::Ring);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::io_uring_queue_init_params(entries, ring, parameters) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_setup(events: c_int, context: *mut c_void) -> c_int {
    state::bar_all(Reason::KernelAio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::io_setup(events, context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_write(request: *mut c_void) -> c_int {
    state::bar_all(Reason::KernelAio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::aio_write(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_write64(request: *mut c_void) -> c_int {
    state::bar_all(Reason::KernelAio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::aio_write64(request) }
}

/// An asynchronous sync of the file below: no earlier record may undo what it keeps.
unsafe fn synced_later(request: *mut c_void, real: impl FnOnce() -> c_int) -> c_int {
    if !request.is_null() {
        // SAFETY: the number of the file comes first in what the program gave.
        let fd = unsafe { request.cast::<c_int>().read_unaligned() };
        exclude_from_dax(fd);
        if let Err(error) = sync::keep(fd) {
            state::set_errno(error);
            return -1;
        }
    }
    real()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_fsync(operation: c_int, request: *mut c_void) -> c_int {
    // SAFETY: the program's request, passed on unchanged.
    unsafe { synced_later(request, || real::aio_fsync(operation, request)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_fsync64(operation: c_int, request: *mut c_void) -> c_int {
    // SAFETY: the program's request, passed on unchanged.
    unsafe { synced_later(request, || real::aio_fsync64(operation, request)) }
}

/// Functions of the C library that write by themselves, such as into a log at a fault.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) {
    let reported = || {
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        unsafe { real::backtrace_symbols_fd(addresses, count, fd) };
        0
    };
    once::<c_int>(fd, reported);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_read(request: *mut c_void) -> c_int {
    exclude_all_from_dax();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::aio_read(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_read64(request: *mut c_void) -> c_int {
    exclude_all_from_dax();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::aio_read64(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lio_listio(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    state::bar_all(Reason::KernelAio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::lio_listio(mode, list, count, event) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lio_listio64(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    state::bar_all(Reason::KernelAio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::lio_listio64(mode, list, count, event) }
}
