//! Alternative names of the C library's functions, used by libraries and older programs.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, mode_t, off_t, size_t, ssize_t};

use super::{close, open, process, read, seek, stat, stream, untracked, write};

macro_rules! same {
    ($($alias:ident = $module:ident::$name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "as the C library has it")]
            pub unsafe extern "C-unwind" fn $alias($($argument: $type),*) -> $answer {
                // SAFETY: the program's arguments; the function has the same signature and contract.
                unsafe { $module::$name($($argument),*) }
            }
        )*
    };
}

same! {
    __open = open::open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __open64 = open::open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __close = close::close(fd: c_int) -> c_int;
    __dup2 = close::dup2(from: c_int, to: c_int) -> c_int;
    __fcntl = close::fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    __write = write::write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    __pwrite64 = write::pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t;
    __read = read::read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    __pread64 = read::pread64(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t;
    __lseek = seek::lseek(fd: c_int, by: off_t, from: c_int) -> off_t;
    __backtrace_symbols_fd = untracked::backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> ();
    _IO_fopen = stream::fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    _IO_fdopen = stream::fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    _IO_fclose = stream::fclose(stream: *mut FILE) -> c_int;
    _IO_popen = process::popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
}

/// Functions of glibc before 2.33, with a version of the structure as first argument.
macro_rules! stat_of_version {
    ($($alias:ident = $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $alias(_: c_int, $($argument: $type),*) -> c_int {
                // SAFETY: the program's arguments; the function has the same signature and contract.
                unsafe { stat::$name($($argument),*) }
            }
        )*
    };
}

stat_of_version! {
    __fxstat = fstat(fd: c_int, found: *mut libc::stat);
    __fxstat64 = fstat64(fd: c_int, found: *mut libc::stat);
    __xstat = stat(path: *const c_char, found: *mut libc::stat);
    __xstat64 = stat64(path: *const c_char, found: *mut libc::stat);
    __lxstat = lstat(path: *const c_char, found: *mut libc::stat);
    __lxstat64 = lstat64(path: *const c_char, found: *mut libc::stat);
    __fxstatat = fstatat(folder: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int);
    __fxstatat64 = fstatat64(folder: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int);
}
