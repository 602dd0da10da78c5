//! Writes.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use byway_tdm_engine::client::{Call, OpenFile, Spot, Wrote};
use libc::{iovec, off_t, size_t, ssize_t};
use rustix::fs::{AtFlags, SeekFrom, StatxFlags};

use super::home::answer;
use super::unseen::once;
use crate::calm::{Calm, cancellation_point};
use crate::parts::Parts;
use crate::{place, real, state};

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

/// Writes by `real`, or at home; at PASS nothing is in between but looks at the level.
#[inline(always)]
fn wrote(
    fd: c_int,
    spot: Option<Spot>,
    parts: impl Fn() -> Option<Parts>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(listed) = state::FDS.get(fd) else { return real() };
    match state::passing(listed) {
        Some(call) => call.write(real),
        None => wrote_at_level(fd, spot, parts, real),
    }
}

/// The same at a level that may be another one. By itself: what it takes to keep is not to be paid for by writes at PASS.
#[inline(never)]
fn wrote_at_level(
    fd: c_int,
    spot: Option<Spot>,
    parts: impl Fn() -> Option<Parts>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(file) = state::seen(fd) else { return real() };
    // What the kernel refuses it refuses by itself.
    let (Some(mut spot), Some(from)) = (spot, parts()) else { return real() };
    loop {
        if let Some(call) = file.begin(place::own()) {
            let appends = file.appends();
            return match spot {
                Spot::Claimed(at) => {
                    by_kernel((file, call), fd, spot, from, || from.write_in_place(fd, at, appends))
                }
                _ => by_kernel((file, call), fd, spot, from, real),
            };
        }
        cancellation_point();
        let _calm = Calm::new();
        let done = file.write_home(&mut spot, from.len_bytes(), from);
        if let Some(wrote) = answer(done, |wrote| wrote as ssize_t) {
            return wrote;
        }
    }
}

/// Writes by `real`, which is under way.
#[inline]
fn by_kernel(
    (file, call): (OpenFile<'static>, Call<'static>),
    fd: c_int,
    spot: Spot,
    from: Parts,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if file.is_at_pass() {
        let wrote = file.pass(real);
        file.end(call);
        return wrote;
    }
    cancellation_point();
    let file = state::served(file);
    let wrote = file.write(real, |wrote| whereto(&file, fd, spot, wrote), || from);
    file.end(call);
    wrote
}

/// Where bytes went. Linux appends to a file that was opened for that, whatever the offset, and leaves its position then.
fn whereto(file: &OpenFile<'_>, fd: c_int, spot: Spot, wrote: ssize_t) -> Wrote {
    match spot {
        Spot::Here => behind(file, fd, wrote),
        Spot::Claimed(at) => Wrote::At(at),
        Spot::At(at) if !file.appends() => Wrote::At(at),
        Spot::At(_) => at_end(fd, wrote),
    }
}

/// Writes at the open file's position.
#[inline(always)]
fn here(fd: c_int, parts: impl Fn() -> Option<Parts>, real: impl FnOnce() -> ssize_t) -> ssize_t {
    wrote(fd, Some(Spot::Here), parts, real)
}

/// Writes at an offset.
#[inline(always)]
fn there(fd: c_int, at: off_t, parts: impl Fn() -> Option<Parts>, real: impl FnOnce() -> ssize_t) -> ssize_t {
    wrote(fd, u64::try_from(at).ok().map(Spot::At), parts, real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    here(fd, move || Parts::whole(from.cast_mut(), len), move || unsafe { real::write(fd, from, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    here(fd, move || Parts::vector(parts, count), move || unsafe { real::writev(fd, parts, count) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    there(
        fd,
        at,
        move || Parts::whole(from.cast_mut(), len),
        move || unsafe { real::pwrite(fd, from, len, at) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    there(
        fd,
        at,
        move || Parts::whole(from.cast_mut(), len),
        move || unsafe { real::pwrite64(fd, from, len, at) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    there(fd, at, move || Parts::vector(parts, count), move || unsafe { real::pwritev(fd, parts, count, at) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    there(
        fd,
        at,
        move || Parts::vector(parts, count),
        move || unsafe { real::pwritev64(fd, parts, count, at) },
    )
}

/// Flags change what a write means, but for none.
fn flagged(
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    (at, flags): (off_t, c_int),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match flags {
        0 if at == -1 => here(fd, move || Parts::vector(parts, count), real),
        0 => there(fd, at, move || Parts::vector(parts, count), real),
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
    flagged(fd, (parts, count), (at, flags), move || unsafe { real::pwritev2(fd, parts, count, at, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    flagged(fd, (parts, count), (at, flags), move || unsafe {
        real::pwritev64v2(fd, parts, count, at, flags)
    })
}
