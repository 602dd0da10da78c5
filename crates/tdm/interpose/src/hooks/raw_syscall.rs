//! System calls by their number (syscall(2)).

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use byway_tdm_engine::table::Reason;
use libc::size_t;

use super::attributes::{of_name, of_open};
use super::resident::via_kernel;
use super::untracked::{mapped, once, once_from};
use super::{close, confine, names, open, process, read, seek, size, sync, untracked, write};
use crate::{real, state};

/// A system call by number. One with a function in the C library is handled as that. A file opened so is barred, as further calls may be missed.
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
    // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
    let real = || unsafe { real::syscall(number, a, b, c, d, e, f) };
    match number {
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_write => unsafe { write::write(fd, at(b), c as size_t) as c_long },
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_pwrite64 => unsafe { write::pwrite64(fd, at(b), c as size_t, d) as c_long },
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => once(fd, real),
        libc::SYS_sendfile => once_from((fd, b as c_int), real),
        libc::SYS_splice | libc::SYS_copy_file_range => once_from((c as c_int, fd), real),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_read => unsafe { read::read(fd, at(b), c as size_t) as c_long },
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_pread64 => unsafe { read::pread64(fd, at(b), c as size_t, d) as c_long },
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 | libc::SYS_fstat => {
            via_kernel(fd, Reason::NeedsKernel, real)
        }
        libc::SYS_newfstatat | libc::SYS_statx => via_kernel(fd, Reason::NeedsKernel, real),
        libc::SYS_sync => {
            // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
            unsafe { sync::sync() };
            0
        }
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_syncfs => c_long::from(unsafe { sync::syncfs(fd) }),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_ioctl => c_long::from(unsafe { untracked::ioctl(fd, b as c_ulong, at(c)) }),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_lseek => unsafe { seek::lseek(fd, b, c as c_int) },
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_fsync => c_long::from(unsafe { sync::fsync(fd) }),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_fdatasync => c_long::from(unsafe { sync::fdatasync(fd) }),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_ftruncate => c_long::from(unsafe { size::ftruncate(fd, b) }),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
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
            via_kernel(e as c_int, Reason::Mapped, real)
        }
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_close | libc::SYS_close_range | libc::SYS_dup | libc::SYS_dup3 | libc::SYS_fcntl => unsafe {
            descriptors(number, [a, b, c])
        },
        libc::SYS_openat => {
            // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
            opened(c as c_int, unsafe { open::openat(fd, at(b).cast(), c as c_int, d as libc::mode_t) })
        }
        // Its flags are behind a pointer: assume writing.
        libc::SYS_openat2 => {
            let opened_as = real();
            if opened_as >= 0 {
                state::attach(opened_as as c_int, libc::O_WRONLY);
            }
            opened(libc::O_WRONLY, opened_as as c_int)
        }
        libc::SYS_io_uring_setup => {
            state::bar_all(Reason::Ring);
            real()
        }
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_truncate => c_long::from(unsafe { size::truncate(at(a).cast(), b) }),
        libc::SYS_renameat => {
            // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
            c_long::from(unsafe { names::renameat(fd, at(b).cast(), c as c_int, at(d).cast()) })
        }
        libc::SYS_renameat2 => {
            // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
            c_long::from(unsafe { names::renameat2(fd, at(b).cast(), c as c_int, at(d).cast(), e as c_uint) })
        }
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_unlinkat => c_long::from(unsafe { names::unlinkat(fd, at(b).cast(), c as c_int) }),
        libc::SYS_seccomp => {
            confine::before_seccomp(a, b, c);
            real()
        }
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_prctl => c_long::from(unsafe {
            confine::prctl(a as c_int, b as c_ulong, c as c_ulong, d as c_ulong, e as c_ulong)
        }),
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_unshare => c_long::from(unsafe { close::unshare(fd) }),
        libc::SYS_io_setup => {
            state::bar_all(Reason::KernelAio);
            real()
        }
        libc::SYS_execveat => {
            process::hand_on();
            real()
        }
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_execve => c_long::from(unsafe {
            process::execve(at(a).cast(), at(b).cast::<*const c_char>(), at(c).cast::<*const c_char>())
        }),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => {
            // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
            opened(b as c_int, unsafe { open::open(at(a).cast(), b as c_int, c as libc::mode_t) })
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_rename => c_long::from(unsafe { names::rename(at(a).cast(), at(b).cast()) }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_unlink => c_long::from(unsafe { names::unlink(at(a).cast()) }),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown => of_name(libc::AT_FDCWD, at(a).cast(), 0, real),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_creat => opened(libc::O_WRONLY, unsafe { open::creat(at(a).cast(), b as libc::mode_t) }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
        libc::SYS_dup2 => c_long::from(unsafe { close::dup2(fd, b as c_int) }),
        _ => real(),
    }
}

/// A file opened by a bare call.
fn opened(flags: c_int, fd: c_int) -> c_long {
    if fd >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY {
        state::bar(fd, Reason::BareCall);
    }
    c_long::from(fd)
}

/// System calls that close and duplicate descriptors.
unsafe fn descriptors(number: c_long, [a, b, c]: [c_long; 3]) -> c_long {
    let fd = a as c_int;
    let argument = std::ptr::with_exposed_provenance_mut::<c_void>(c as usize);
    // SAFETY: the arguments of the program's system call, in the order of the function of the same name.
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
