//! Seeks: where a file that is appended to was written last is asked by its position, which is not to move in between.

use std::ffi::c_int;

use libc::off_t;

use crate::{real, state};

#[inline]
fn seek(fd: c_int, real: impl FnOnce() -> off_t) -> off_t {
    match state::seen(fd).filter(|file| file.appends_alone() && !file.is_at_pass()) {
        Some(file) => state::served(file).seek(real),
        None => real(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lseek(fd: c_int, by: off_t, from: c_int) -> off_t {
    seek(fd, || unsafe { real::lseek(fd, by, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lseek64(fd: c_int, by: off_t, from: c_int) -> off_t {
    seek(fd, || unsafe { real::lseek64(fd, by, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn llseek(fd: c_int, by: off_t, from: c_int) -> off_t {
    seek(fd, || unsafe { real::lseek64(fd, by, from) })
}
