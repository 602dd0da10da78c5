//! What changes files by ways that nobody can follow from here. Once: the log is suspended. For as long as something is
//! there (a mapping, a ring): the file is barred.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use byway_tdm_board::Why;
use libc::{msghdr, off_t, size_t, ssize_t};

use crate::{real, state};

fn once<R>(fd: c_int, real: impl FnOnce() -> R) -> R {
    match state::file(fd) {
        Some(file) => file.unseen(real),
        None => real(),
    }
}

/// A shared mapping may be written later even if it may not now (mprotect).
fn mapped(flags: c_int, fd: c_int) {
    const SHARED_VALIDATE: c_int = 3;
    if matches!(flags & SHARED_VALIDATE, libc::MAP_SHARED | SHARED_VALIDATE)
        && flags & libc::MAP_ANONYMOUS == 0
    {
        state::bar(fd, Why::Mapped);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    mapped(flags, fd);
    unsafe { real::mmap(at, len, access, flags, fd, from) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    mapped(flags, fd);
    unsafe { real::mmap64(at, len, access, flags, fd, from) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    once(to, || unsafe { real::sendfile(to, from, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    once(to, || unsafe { real::sendfile64(to, from, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    once(to, || unsafe { real::splice(from, from_at, to, to_at, len, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    once(to, || unsafe { real::copy_file_range(from, from_at, to, to_at, len, flags) })
}

/// Blocks of another file made this one's (FICLONE, FICLONERANGE, FIDEDUPERANGE), among much else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    const FICLONE: c_ulong = 0x4004_9409;
    const FICLONERANGE: c_ulong = 0x4020_940d;
    if matches!(request, FICLONE | FICLONERANGE) {
        state::bar(fd, Why::Cloned);
    }
    unsafe { real::ioctl(fd, request, argument) }
}

/// A descriptor in a message is another program's from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if !message.is_null() && unsafe { (*message).msg_controllen } > 0 {
        unsafe { bar_those_in(message) };
    }
    unsafe { real::sendmsg(socket, message, flags) }
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
                    state::bar(fds.add(i).read_unaligned(), Why::HandedOn);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    state::bar_all(Why::Ring);
    unsafe { real::io_uring_setup(entries, parameters) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
    state::bar_all(Why::Ring);
    unsafe { real::io_uring_queue_init(entries, ring, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    state::bar_all(Why::Ring);
    unsafe { real::io_uring_queue_init_params(entries, ring, parameters) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_setup(events: c_int, context: *mut c_void) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::io_setup(events, context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write(request: *mut c_void) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::aio_write(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write64(request: *mut c_void) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::aio_write64(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn lio_listio(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::lio_listio(mode, list, count, event) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn lio_listio64(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::lio_listio64(mode, list, count, event) }
}

/// System calls by their number: those that write, open, close and copy descriptors, and those that make rings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let fd = a as c_int;
    let real = || unsafe { real::syscall(number, a, b, c, d, e, f) };
    match number {
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            once(fd, real)
        }
        libc::SYS_ftruncate | libc::SYS_fallocate => {
            state::bar(fd, Why::BareCall);
            real()
        }
        libc::SYS_close => {
            state::forget(fd);
            real()
        }
        libc::SYS_close_range => {
            let close_range = super::close::close_range;
            c_long::from(unsafe { close_range(a as c_uint, b as c_uint, c as c_int) })
        }
        libc::SYS_dup3 => c_long::from(unsafe { super::close::dup3(fd, b as c_int, c as c_int) }),
        libc::SYS_openat => {
            let opened = real();
            if opened >= 0 && c as c_int & libc::O_ACCMODE != libc::O_RDONLY {
                state::attach(opened as c_int, c as c_int);
                state::bar(opened as c_int, Why::BareCall);
            }
            opened
        }
        libc::SYS_io_uring_setup => {
            state::bar_all(Why::Ring);
            real()
        }
        libc::SYS_io_setup => {
            state::bar_all(Why::KernelAio);
            real()
        }
        _ => real(),
    }
}
