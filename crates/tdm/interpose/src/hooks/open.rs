//! Opening files. A served file opened with O_TRUNC is truncated by a call of its own, with a record.

use std::ffi::{c_char, c_int, c_void};

use byway_tdm_engine::table::{Level, Reason};
use libc::mode_t;
use rustix::fs::AtFlags;

use super::below;
use crate::{path, real, state};

/// Opens by `open`, which is given the flags.
fn open_any(folder: c_int, name: *const c_char, flags: c_int, open: impl Fn(c_int) -> c_int) -> c_int {
    path::demote(folder, name, AtFlags::empty(), Reason::OpenElsewhere);
    // A file of O_TMPFILE may get a name.
    let is_file = flags & libc::O_PATH == 0 && flags & libc::O_TMPFILE != libc::O_DIRECTORY;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY && is_file;
    let truncates = flags & libc::O_TRUNC != 0 && is_file;
    match (writes, truncates) {
        (false, false) => open(flags),
        // Linux truncates a file opened read-only with O_TRUNC.
        (false, true) => path::change(folder, name, AtFlags::empty(), || open(flags)),
        (true, true) if path::is_served(folder, name) => open_and_truncate(flags, open),
        (true, _) => open_to_write(flags, open),
    }
}

fn open_to_write(flags: c_int, open: impl Fn(c_int) -> c_int) -> c_int {
    let fd = open(flags);
    if fd >= 0 {
        let error = state::errno();
        state::attach(fd, flags);
        if flags & libc::O_TRUNC != 0 {
            settle_if_served(fd);
        }
        state::set_errno(error);
    }
    fd
}

fn open_and_truncate(flags: c_int, open: impl Fn(c_int) -> c_int) -> c_int {
    let fd = open(flags & !libc::O_TRUNC);
    if fd < 0 {
        return fd;
    }
    state::attach(fd, flags);
    // SAFETY: takes numbers; an invalid one gives an error.
    if unsafe { super::size::truncate_open(fd, 0, |size| real::ftruncate(fd, size)) } == 0 {
        return fd;
    }
    let error = state::errno();
    // SAFETY: closes the descriptor that this call opened and does not return.
    unsafe { close_again(fd) };
    state::set_errno(error);
    -1
}

unsafe fn close_again(fd: c_int) {
    let _ = state::forget(fd);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::close(fd) };
}

/// The file was served between the look-up of its name and the truncation: its log has removed bytes.
fn settle_if_served(fd: c_int) {
    if let Some(file) = state::file(fd).filter(|file| file.entry().level() != Level::Pass) {
        file.unseen(below(fd), || ());
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    open_any(libc::AT_FDCWD, path, flags, |flags| unsafe { real::open(path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    open_any(libc::AT_FDCWD, path, flags, |flags| unsafe { real::open64(path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn openat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    open_any(folder, path, flags, |flags| unsafe { real::openat(folder, path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    open_any(folder, path, flags, |flags| unsafe { real::openat64(folder, path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { creat(path, mode) }
}

// Variants of programs compiled with fortification; they create no file.

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { open(path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { open64(path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { openat(folder, path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { openat64(folder, path, flags, 0) }
}

/// Files that the C library creates and opens.
macro_rules! temporary {
    ($($name:ident($($argument:ident: $type:ty),*), $flags:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(template: *mut c_char $(, $argument: $type)*) -> c_int {
                let flags = libc::O_RDWR | $flags;
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                open_any(libc::AT_FDCWD, std::ptr::null(), flags, |_| unsafe { real::$name(template $(, $argument)*) })
            }
        )*
    };
}

temporary! {
    mkstemp(), 0;
    mkstemp64(), 0;
    mkstemps(ending: c_int), 0;
    mkstemps64(ending: c_int), 0;
    mkostemp(flags: c_int), flags;
    mkostemp64(flags: c_int), flags;
    mkostemps(ending: c_int, flags: c_int), flags;
    mkostemps64(ending: c_int, flags: c_int), flags;
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    open_any(mount, std::ptr::null(), flags, |flags| unsafe { real::open_by_handle_at(mount, handle, flags) })
}
