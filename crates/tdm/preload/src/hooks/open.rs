//! Files as they are opened. One that is served and is to be cut to nothing is cut by a call of its own, which its log hears of.

use std::ffi::{c_char, c_int};

use byway_tdm_board::Level;
use libc::mode_t;
use rustix::fs::AtFlags;

use super::below;
use crate::{path, real, state};

/// Opens by `open`, which is given the flags.
fn open_any(folder: c_int, name: *const c_char, flags: c_int, open: impl Fn(c_int) -> c_int) -> c_int {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY && flags & (libc::O_PATH | libc::O_DIRECTORY) == 0;
    if !writes {
        return open(flags);
    }
    let cuts = flags & libc::O_TRUNC != 0;
    if cuts && path::served(folder, name, AtFlags::empty()).is_some() {
        return open_and_cut(flags, open);
    }
    let fd = open(flags);
    if fd >= 0 {
        let error = state::errno();
        state::attach(fd, flags);
        if cuts {
            settle_if_served(fd);
        }
        state::set_errno(error);
    }
    fd
}

fn open_and_cut(flags: c_int, open: impl Fn(c_int) -> c_int) -> c_int {
    let fd = open(flags & !libc::O_TRUNC);
    if fd < 0 {
        return fd;
    }
    state::attach(fd, flags);
    if unsafe { super::size::cut(fd, 0, |size| real::ftruncate(fd, size)) } == 0 {
        return fd;
    }
    let error = state::errno();
    unsafe { close_again(fd) };
    state::set_errno(error);
    -1
}

unsafe fn close_again(fd: c_int) {
    state::forget(fd);
    unsafe { real::close(fd) };
}

/// Somebody began to serve the file between the look at its name and its being cut: the log has what is gone.
fn settle_if_served(fd: c_int) {
    if let Some(file) = state::file(fd).filter(|file| file.entry().standing().level != Level::Pass) {
        file.change(below(fd), || ());
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_any(libc::AT_FDCWD, path, flags, |flags| unsafe { real::open(path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_any(libc::AT_FDCWD, path, flags, |flags| unsafe { real::open64(path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_any(folder, path, flags, |flags| unsafe { real::openat(folder, path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_any(folder, path, flags, |flags| unsafe { real::openat64(folder, path, flags, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    unsafe { open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    unsafe { creat(path, mode) }
}

// What programs that were compiled with checks of the C library call, with flags that make no file.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    unsafe { open(path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    unsafe { open64(path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    unsafe { openat(folder, path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    unsafe { openat64(folder, path, flags, 0) }
}
