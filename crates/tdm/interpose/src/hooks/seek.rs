//! Seeks. The position after an append shows where it went, so seeks take the file's lock.

use std::ffi::c_int;

use byway_tdm_engine::client::{Call, OpenFile, Seek};
use libc::off_t;

use super::resident::answer;
use crate::cancellation::CancellationGuard;
use crate::{place, real, state};

/// Seeks by `real`, or in the shared file table.
#[inline(always)]
fn seek(fd: c_int, by: off_t, from: c_int, real: impl FnOnce() -> off_t) -> off_t {
    let Some(listed) = state::FDS.get(fd) else { return real() };
    match state::pass_call(listed) {
        Some(call) => call.read(real),
        None => seek_at_level(fd, by, from, real),
    }
}

#[inline(never)]
fn seek_at_level(fd: c_int, by: off_t, from: c_int, real: impl FnOnce() -> off_t) -> off_t {
    let Some(file) = state::seen(fd) else { return real() };
    let Some(whence) = whence(from) else { return real() };
    loop {
        if let Some(call) = file.begin(place::own()) {
            return by_kernel(file, call, real);
        }
        let _guard = CancellationGuard::new();
        if let Some(to) = answer(file.seek_resident(by, whence), |to| to as off_t) {
            return to;
        }
    }
}

fn by_kernel(file: OpenFile<'static>, call: Call<'static>, real: impl FnOnce() -> off_t) -> off_t {
    if !file.appends_alone() || file.is_at_pass() {
        let to = real();
        file.end(call);
        return to;
    }
    let file = state::served(file);
    let to = file.seek(real);
    file.end(call);
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
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    seek(fd, by, from, move || unsafe { real::lseek(fd, by, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lseek64(fd: c_int, by: off_t, from: c_int) -> off_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    seek(fd, by, from, move || unsafe { real::lseek64(fd, by, from) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn llseek(fd: c_int, by: off_t, from: c_int) -> off_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    seek(fd, by, from, move || unsafe { real::lseek64(fd, by, from) })
}
