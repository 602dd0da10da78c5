//! stdio streams, which the C library writes by its own calls: their files are barred.

use std::ffi::{CStr, c_char, c_int, c_void};

use byway_tdm_engine::table::Reason;
use libc::FILE;
use rustix::fs::AtFlags;

use super::resident::exclude_from_dax;
use crate::{path, real, state};

fn writes(mode: *const c_char) -> bool {
    // SAFETY: a mode that the program gave to a call that takes one.
    !mode.is_null() && unsafe { CStr::from_ptr(mode) }.to_bytes().iter().any(|byte| b"wa+".contains(byte))
}

fn truncates(mode: *const c_char) -> bool {
    // SAFETY: as above.
    !mode.is_null() && unsafe { CStr::from_ptr(mode) }.to_bytes().first() == Some(&b'w')
}

/// Opens a stream by path, by `real`.
fn opened(name: *const c_char, mode: *const c_char, real: impl FnOnce() -> *mut FILE) -> *mut FILE {
    path::demote(libc::AT_FDCWD, name, AtFlags::empty(), Reason::OpenElsewhere);
    let stream = match truncates(mode) {
        true => path::change(libc::AT_FDCWD, name, AtFlags::empty(), real),
        false => real(),
    };
    if !stream.is_null() && writes(mode) {
        let error = state::errno();
        // SAFETY: a stream that was just opened.
        let fd = unsafe { libc::fileno(stream) };
        state::attach(fd, 0);
        state::bar(fd, Reason::Stdio);
        state::set_errno(error);
    }
    stream
}

fn forget(stream: *mut FILE) {
    if !stream.is_null() {
        // SAFETY: a stream that the program has open.
        let _ = state::forget(unsafe { libc::fileno(stream) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    opened(path, mode, || unsafe { real::fopen(path, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    opened(path, mode, || unsafe { real::fopen64(path, mode) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    forget(stream);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    opened(path, mode, || unsafe { real::freopen(path, mode, stream) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    forget(stream);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    opened(path, mode, || unsafe { real::freopen64(path, mode, stream) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    match writes(mode) {
        true => state::bar(fd, Reason::Stdio),
        false => exclude_from_dax(fd),
    }
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::fdopen(fd, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fclose(stream: *mut FILE) -> c_int {
    forget(stream);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::fclose(stream) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    state::bar(fd, Reason::Stdio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::vdprintf(fd, format, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    state::bar(fd, Reason::Stdio);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::__vdprintf_chk(fd, flag, format, arguments) }
}

/// The real function behind a trampoline that writes to `fd`.
#[cfg(target_arch = "x86_64")]
extern "C" fn behind(name: *const c_char, fd: c_int) -> *mut c_void {
    state::bar(fd, Reason::Stdio);
    // SAFETY: one of the names below.
    real::next(unsafe { CStr::from_ptr(name) })
}

#[cfg(target_arch = "x86_64")]
super::in_front! { behind: dprintf __dprintf_chk }
