//! What changes files by ways that nobody can follow from here. Once: the log is suspended. For as long as something is
//! there (a mapping, a ring): the file is barred.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use byway_tdm_board::Why;
use libc::{mmsghdr, msghdr, off_t, size_t, ssize_t};

use super::attributes::{of_name, of_open};
use super::home::{Failing, below_home, both_below_home, keep_all_below, keep_below};
use super::{below, close, confine, open, process, read, seek, size, sync, write};
use crate::{real, state};

pub(super) fn once<R: Failing>(fd: c_int, real: impl FnOnce() -> R) -> R {
    below_home(fd, Why::WentBelow, || match state::file(fd) {
        Some(file) => file.unseen(below(fd), real),
        None => real(),
    })
}

/// The same, by bytes of another file.
fn once_from<R: Failing>((to, from): (c_int, c_int), real: impl FnOnce() -> R) -> R {
    below_home(from, Why::WentBelow, || once(to, real))
}

/// A shared mapping may be written later even if it may not now (mprotect).
fn mapped(flags: c_int, fd: c_int) {
    const SHARED_VALIDATE: c_int = 3;
    if matches!(flags & SHARED_VALIDATE, libc::MAP_SHARED | SHARED_VALIDATE)
        && flags & libc::MAP_ANONYMOUS == 0
    {
        state::bar(fd, Why::Mapped);
    } else if flags & libc::MAP_ANONYMOUS == 0 {
        keep_below(fd);
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
    below_home(fd, Why::Mapped, || unsafe { real::mmap(at, len, access, flags, fd, from) })
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
    below_home(fd, Why::Mapped, || unsafe { real::mmap64(at, len, access, flags, fd, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    once_from((to, from), || unsafe { real::sendfile(to, from, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
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
    once_from((to, from), || unsafe { real::copy_file_range(from, from_at, to, to_at, len, flags) })
}

/// Blocks of another file made this one's (FICLONE, FICLONERANGE, FIDEDUPERANGE), a file's own flags, and much else.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    const FICLONE: c_ulong = 0x4004_9409;
    const FICLONERANGE: c_ulong = 0x4020_940d;
    const FS_IOC_SETFLAGS: c_ulong = 0x4008_6602;
    const FS_IOC_FSSETXATTR: c_ulong = 0x401c_5820;
    if matches!(request, FICLONE | FICLONERANGE) {
        state::bar(fd, Why::Cloned);
    }
    let other = match request {
        FICLONE => argument.addr() as c_int,
        // SAFETY: the number of the file that blocks are taken from comes first in what the program gave.
        FICLONERANGE if !argument.is_null() => unsafe { argument.cast::<i64>().read_unaligned() as c_int },
        _ => fd,
    };
    let real =
        || both_below_home((fd, other), Why::WentBelow, || unsafe { real::ioctl(fd, request, argument) });
    match request {
        FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR => of_open(fd, real),
        _ => real(),
    }
}

/// A descriptor in a message is another program's from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if !message.is_null() && unsafe { (*message).msg_controllen } > 0 {
        unsafe { bar_those_in(message) };
    }
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
                    state::bar(fds.add(i).read_unaligned(), Why::HandedOn);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    state::bar_all(Why::Ring);
    unsafe { real::io_uring_setup(entries, parameters) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init(
    entries: c_uint,
    ring: *mut c_void,
    flags: c_uint,
) -> c_int {
    state::bar_all(Why::Ring);
    unsafe { real::io_uring_queue_init(entries, ring, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    state::bar_all(Why::Ring);
    unsafe { real::io_uring_queue_init_params(entries, ring, parameters) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_setup(events: c_int, context: *mut c_void) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::io_setup(events, context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_write(request: *mut c_void) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::aio_write(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_write64(request: *mut c_void) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::aio_write64(request) }
}

/// A sync that ends later, of the file below: no record from before is to undo what it keeps.
unsafe fn synced_later(request: *mut c_void, real: impl FnOnce() -> c_int) -> c_int {
    if !request.is_null() {
        // SAFETY: the number of the file comes first in what the program gave.
        let fd = unsafe { request.cast::<c_int>().read_unaligned() };
        keep_below(fd);
        if let Err(error) = sync::keep(fd) {
            state::set_errno(error);
            return -1;
        }
    }
    real()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_fsync(operation: c_int, request: *mut c_void) -> c_int {
    unsafe { synced_later(request, || real::aio_fsync(operation, request)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_fsync64(operation: c_int, request: *mut c_void) -> c_int {
    unsafe { synced_later(request, || real::aio_fsync64(operation, request)) }
}

/// What the C library writes by itself, into a program's log when that ends by a fault.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) {
    let told = || {
        unsafe { real::backtrace_symbols_fd(addresses, count, fd) };
        0
    };
    once::<c_int>(fd, told);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_read(request: *mut c_void) -> c_int {
    keep_all_below();
    unsafe { real::aio_read(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_read64(request: *mut c_void) -> c_int {
    keep_all_below();
    unsafe { real::aio_read64(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lio_listio(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::lio_listio(mode, list, count, event) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lio_listio64(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    state::bar_all(Why::KernelAio);
    unsafe { real::lio_listio64(mode, list, count, event) }
}

/// System calls by their number. What the C library has under a name is done as by that; a file that is opened so is the kernel's, as
/// more may be done to it than comes by here.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let fd = a as c_int;
    let at = |address: c_long| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
    let real = || unsafe { real::syscall(number, a, b, c, d, e, f) };
    match number {
        libc::SYS_write => unsafe { write::write(fd, at(b), c as size_t) as c_long },
        libc::SYS_pwrite64 => unsafe { write::pwrite64(fd, at(b), c as size_t, d) as c_long },
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => once(fd, real),
        libc::SYS_sendfile => once_from((fd, b as c_int), real),
        libc::SYS_splice | libc::SYS_copy_file_range => once_from((c as c_int, fd), real),
        libc::SYS_read => unsafe { read::read(fd, at(b), c as size_t) as c_long },
        libc::SYS_pread64 => unsafe { read::pread64(fd, at(b), c as size_t, d) as c_long },
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 | libc::SYS_fstat => {
            below_home(fd, Why::WentBelow, real)
        }
        libc::SYS_newfstatat | libc::SYS_statx => below_home(fd, Why::WentBelow, real),
        libc::SYS_sync => {
            unsafe { sync::sync() };
            0
        }
        libc::SYS_syncfs => c_long::from(unsafe { sync::syncfs(fd) }),
        libc::SYS_ioctl => c_long::from(unsafe { ioctl(fd, b as c_ulong, at(c)) }),
        libc::SYS_lseek => unsafe { seek::lseek(fd, b, c as c_int) },
        libc::SYS_fsync => c_long::from(unsafe { sync::fsync(fd) }),
        libc::SYS_fdatasync => c_long::from(unsafe { sync::fdatasync(fd) }),
        libc::SYS_ftruncate => c_long::from(unsafe { size::ftruncate(fd, b) }),
        libc::SYS_fallocate => c_long::from(unsafe { size::fallocate(fd, b as c_int, c, d) }),
        libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
            of_open(fd, real)
        }
        libc::SYS_fchmodat | libc::SYS_fchownat | libc::SYS_utimensat if b != 0 => {
            of_name(fd, at(b).cast(), 0, real)
        }
        libc::SYS_utimensat => of_open(fd, real),
        libc::SYS_setxattr | libc::SYS_removexattr => of_name(libc::AT_FDCWD, at(a).cast(), 0, real),
        libc::SYS_mmap => {
            mapped(d as c_int, e as c_int);
            below_home(e as c_int, Why::Mapped, real)
        }
        libc::SYS_close | libc::SYS_close_range | libc::SYS_dup | libc::SYS_dup3 | libc::SYS_fcntl => unsafe {
            descriptors(number, [a, b, c])
        },
        libc::SYS_openat => {
            opened(c as c_int, unsafe { open::openat(fd, at(b).cast(), c as c_int, d as libc::mode_t) })
        }
        // How it is opened is behind a pointer: for writing, as far as is known here.
        libc::SYS_openat2 => {
            let opened_as = real();
            if opened_as >= 0 {
                state::attach(opened_as as c_int, libc::O_WRONLY);
            }
            opened(libc::O_WRONLY, opened_as as c_int)
        }
        libc::SYS_io_uring_setup => {
            state::bar_all(Why::Ring);
            real()
        }
        libc::SYS_seccomp => {
            confine::before_seccomp(a, b, c);
            real()
        }
        libc::SYS_prctl => c_long::from(unsafe {
            confine::prctl(a as c_int, b as c_ulong, c as c_ulong, d as c_ulong, e as c_ulong)
        }),
        libc::SYS_unshare => c_long::from(unsafe { close::unshare(fd) }),
        libc::SYS_io_setup => {
            state::bar_all(Why::KernelAio);
            real()
        }
        libc::SYS_execveat => {
            process::hand_on();
            real()
        }
        libc::SYS_execve => c_long::from(unsafe {
            process::execve(at(a).cast(), at(b).cast::<*const c_char>(), at(c).cast::<*const c_char>())
        }),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => {
            opened(b as c_int, unsafe { open::open(at(a).cast(), b as c_int, c as libc::mode_t) })
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown => of_name(libc::AT_FDCWD, at(a).cast(), 0, real),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => opened(libc::O_WRONLY, unsafe { open::creat(at(a).cast(), b as libc::mode_t) }),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2 => c_long::from(unsafe { close::dup2(fd, b as c_int) }),
        _ => real(),
    }
}

/// A file that a bare call opened.
fn opened(flags: c_int, fd: c_int) -> c_long {
    if fd >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY {
        state::bar(fd, Why::BareCall);
    }
    c_long::from(fd)
}

/// Calls that close and copy descriptors.
unsafe fn descriptors(number: c_long, [a, b, c]: [c_long; 3]) -> c_long {
    let fd = a as c_int;
    let argument = std::ptr::with_exposed_provenance_mut::<c_void>(c as usize);
    c_long::from(unsafe {
        match number {
            libc::SYS_close => close::close(fd),
            libc::SYS_close_range => close::close_range(a as c_uint, b as c_uint, c as c_int),
            libc::SYS_dup => close::dup(fd),
            libc::SYS_dup3 => close::dup3(fd, b as c_int, c as c_int),
            _ => close::fcntl(fd, b as c_int, argument),
        }
    })
}
