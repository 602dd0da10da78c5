//! Seeks. Where a file that is appended to was written last is asked by its position, which is not to move in between.

use std::ffi::c_int;

use byway_tdm_client::{OpenFile, Seek};
use libc::off_t;

use super::home::answer;
use crate::calm::Calm;
use crate::{real, state};

/// Seeks by `real`, or at home.
#[inline]
fn seek(fd: c_int, by: off_t, from: c_int, real: impl FnOnce() -> off_t) -> off_t {
    let Some(file) = state::seen(fd) else { return real() };
    let Some(whence) = whence(from) else { return real() };
    loop {
        if file.begin() {
            return by_kernel(file, real);
        }
        let _calm = Calm::new();
        if let Some(to) = answer(file.seek_home(by, whence), |to| to as off_t) {
            return to;
        }
    }
}

fn by_kernel(file: OpenFile<'static>, real: impl FnOnce() -> off_t) -> off_t {
    if !file.appends_alone() || file.is_at_pass() {
        let to = real();
        file.end();
        return to;
    }
    let file = state::served(file);
    let to = file.seek(real);
    file.end();
    to
}

const fn whence(from: c_int) -> Option<Seek> {
    Some(match from {
        libc::SEEK_SET => Seek::Set,
        libc::SEEK_CUR => Seek::Current,
        libc::SEEK_END => Seek::End,
        libc::SEEK_DATA => Seek::Data,
        libc::SEEK_HOLE => Seek::Hole,
        _ => return None,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lseek(fd: c_int, by: off_t, from: c_int) -> off_t {
    seek(fd, by, from, || unsafe { real::lseek(fd, by, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lseek64(fd: c_int, by: off_t, from: c_int) -> off_t {
    seek(fd, by, from, || unsafe { real::lseek64(fd, by, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn llseek(fd: c_int, by: off_t, from: c_int) -> off_t {
    seek(fd, by, from, || unsafe { real::lseek64(fd, by, from) })
}
