//! Truncation and allocation.

use std::ffi::{c_char, c_int};

use byway_tdm_engine::table::Reason;
use libc::off_t;
use rustix::fs::AtFlags;

use super::attributes::of_open;
use super::below;
use super::resident::{answer, via_kernel};
use crate::{path, place, real, state};

/// Truncates an open file by `real`.
pub(super) unsafe fn truncate_open(fd: c_int, size: off_t, real: impl Fn(off_t) -> c_int) -> c_int {
    let (Some(file), Ok(bytes)) = (state::file(fd), u64::try_from(size)) else { return real(size) };
    loop {
        if let Some(call) = file.begin(place::own()) {
            let truncated = file.truncate(bytes, below(fd), || real(size));
            file.end(call);
            return truncated;
        }
        if let Some(truncated) = answer(file.truncate_resident(bytes), |()| 0) {
            return truncated;
        }
    }
}

/// Changes bytes or their places. Allocation that changes neither size nor bytes needs no record and counts as an attribute change.
fn changed(fd: c_int, mode: c_int, real: impl FnOnce() -> c_int) -> c_int {
    via_kernel(fd, Reason::NeedsKernel, || match state::file(fd) {
        Some(_) if mode == libc::FALLOC_FL_KEEP_SIZE => of_open(fd, real),
        Some(file) => file.unseen(below(fd), real),
        None => real(),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftruncate(fd: c_int, size: off_t) -> c_int {
    // SAFETY: takes numbers; an invalid one gives an error.
    unsafe { truncate_open(fd, size, |size| real::ftruncate(fd, size)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftruncate64(fd: c_int, size: off_t) -> c_int {
    // SAFETY: takes numbers; an invalid one gives an error.
    unsafe { truncate_open(fd, size, |size| real::ftruncate64(fd, size)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn truncate(path: *const c_char, size: off_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    path::change(libc::AT_FDCWD, path, AtFlags::empty(), || unsafe { real::truncate(path, size) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn truncate64(path: *const c_char, size: off_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    path::change(libc::AT_FDCWD, path, AtFlags::empty(), || unsafe { real::truncate64(path, size) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    changed(fd, mode, || unsafe { real::fallocate(fd, mode, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    changed(fd, mode, || unsafe { real::fallocate64(fd, mode, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    changed(fd, 0, || unsafe { real::posix_fallocate(fd, at, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    changed(fd, 0, || unsafe { real::posix_fallocate64(fd, at, len) })
}
