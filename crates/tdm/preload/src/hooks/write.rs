//! Writes.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use byway_tdm_client::Wrote;
use libc::{iovec, off_t, size_t, ssize_t};
use rustix::fs::{AtFlags, SeekFrom, StatxFlags};

use super::below;
use crate::calm::cancellation_point;
use crate::parts::Parts;
use crate::{real, state};

/// Where bytes went that were written at the open file's own position, which is behind them now, or to the end of a file that is opened
/// to append: its position others may move meanwhile.
fn behind(fd: c_int, appends: bool, wrote: ssize_t) -> Wrote {
    // SAFETY: the program is in a call with this descriptor.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let end = match appends {
        true => size_of(file),
        false => rustix::fs::seek(file, SeekFrom::Current(0)).ok(),
    };
    end.and_then(|end| end.checked_sub(wrote.unsigned_abs() as u64)).map_or(Wrote::Unknown, Wrote::At)
}

/// Its size and nothing else: of a file whose times somebody asked for, the kernel makes the next write keep a finer one, which
/// costs it as much again.
fn size_of(file: BorrowedFd<'_>) -> Option<u64> {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::SIZE);
    found.ok().map(|found| found.stx_size)
}

/// Writes at the open file's position.
#[inline]
fn here(fd: c_int, parts: impl FnOnce() -> Parts, real: impl FnOnce() -> ssize_t) -> ssize_t {
    cancellation_point();
    match state::file(fd) {
        None => real(),
        Some(file) => file.write(real, |wrote| behind(fd, file.appends(), wrote), parts),
    }
}

/// Writes at an offset: but Linux appends to a file that was opened for that, whatever the offset.
#[inline]
fn there(fd: c_int, at: off_t, parts: impl FnOnce() -> Parts, real: impl FnOnce() -> ssize_t) -> ssize_t {
    cancellation_point();
    let Some(file) = state::file(fd) else { return real() };
    match u64::try_from(at) {
        Ok(at) if !file.appends() => file.write(real, |_| Wrote::At(at), parts),
        _ => file.write(real, |wrote| behind(fd, file.appends(), wrote), parts),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    here(fd, || Parts::one(from, len), || unsafe { real::write(fd, from, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    here(fd, || Parts::many(parts, count), || unsafe { real::writev(fd, parts, count) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    there(fd, at, || Parts::one(from, len), || unsafe { real::pwrite(fd, from, len, at) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    there(fd, at, || Parts::one(from, len), || unsafe { real::pwrite64(fd, from, len, at) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    there(fd, at, || Parts::many(parts, count), || unsafe { real::pwritev(fd, parts, count, at) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    there(fd, at, || Parts::many(parts, count), || unsafe { real::pwritev64(fd, parts, count, at) })
}

/// Flags change what a write means, but for none.
fn flagged(
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    (at, flags): (off_t, c_int),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match state::file(fd) {
        None => real(),
        Some(file) if flags != 0 => file.unseen(below(fd), real),
        Some(_) if at == -1 => here(fd, || Parts::many(parts, count), real),
        Some(_) => there(fd, at, || Parts::many(parts, count), real),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    flagged(fd, (parts, count), (at, flags), || unsafe { real::pwritev2(fd, parts, count, at, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    flagged(fd, (parts, count), (at, flags), || unsafe { real::pwritev64v2(fd, parts, count, at, flags) })
}
