//! Writes.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use byway_tdm_client::{OpenFile, Wrote};
use libc::{iovec, off_t, size_t, ssize_t};
use rustix::fs::{AtFlags, SeekFrom, StatxFlags};

use super::unseen::once;
use crate::calm::cancellation_point;
use crate::parts::Parts;
use crate::{real, state};

/// Where bytes went that were written at the open file's own position, which is behind them now; but others may move that of a file
/// which is opened to append and to be read.
fn behind(file: &OpenFile<'_>, fd: c_int, wrote: ssize_t) -> Wrote {
    match file.appends() && !file.appends_alone() {
        true => at_end(fd, wrote),
        // SAFETY: the program is in a call with this descriptor.
        false => before(rustix::fs::seek(unsafe { BorrowedFd::borrow_raw(fd) }, SeekFrom::Current(0)), wrote),
    }
}

/// Where bytes went that were written to the end. Its size is asked for and nothing else: of a file whose times somebody asked for, the
/// kernel makes the next write keep a finer one, which costs it as much again.
fn at_end(fd: c_int, wrote: ssize_t) -> Wrote {
    // SAFETY: as above.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::SIZE);
    before(found.map(|found| found.stx_size), wrote)
}

fn before(end: rustix::io::Result<u64>, wrote: ssize_t) -> Wrote {
    let start = end.ok().and_then(|end| end.checked_sub(wrote.unsigned_abs() as u64));
    start.map_or(Wrote::Unknown, Wrote::At)
}

/// Writes by `real`; at PASS nothing is in between but a look at the level.
#[inline]
fn wrote(
    fd: c_int,
    whereto: impl FnOnce(&OpenFile<'_>, ssize_t) -> Wrote,
    parts: impl FnOnce() -> Parts,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(file) = state::seen(fd) else { return real() };
    if file.is_at_pass() {
        return file.pass(real);
    }
    cancellation_point();
    let file = state::served(file);
    file.write(real, |wrote| whereto(&file, wrote), parts)
}

/// Writes at the open file's position.
#[inline]
fn here(fd: c_int, parts: impl FnOnce() -> Parts, real: impl FnOnce() -> ssize_t) -> ssize_t {
    wrote(fd, |file, wrote| behind(file, fd, wrote), parts, real)
}

/// Writes at an offset: but Linux appends to a file that was opened for that, whatever the offset, and leaves its position.
#[inline]
fn there(fd: c_int, at: off_t, parts: impl FnOnce() -> Parts, real: impl FnOnce() -> ssize_t) -> ssize_t {
    let whereto = |file: &OpenFile<'_>, wrote| match u64::try_from(at) {
        Ok(at) if !file.appends() => Wrote::At(at),
        _ => at_end(fd, wrote),
    };
    wrote(fd, whereto, parts, real)
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
    match flags {
        0 if at == -1 => here(fd, || Parts::many(parts, count), real),
        0 => there(fd, at, || Parts::many(parts, count), real),
        _ => once(fd, real),
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
