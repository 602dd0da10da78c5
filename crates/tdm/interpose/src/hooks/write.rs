//! Writes.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use byway_tdm_engine::client::{Call, OpenFile, Spot, Wrote};
use libc::{iovec, off_t, size_t, ssize_t};
use rustix::fs::{AtFlags, SeekFrom, StatxFlags};

use super::resident::answer;
use super::untracked::once;
use crate::cancellation::{CancellationGuard, cancellation_point};
use crate::iovec::IoVecs;
use crate::{place, real, state};

/// Where a write at the position went: the position is behind it now. Others may move the position of a file that is opened to append and read.
fn behind(file: &OpenFile<'_>, fd: c_int, wrote: ssize_t) -> Wrote {
    match file.appends() && !file.appends_alone() {
        true => at_end(fd, wrote),
        // SAFETY: the program is in a call with this descriptor.
        false => before(rustix::fs::seek(unsafe { BorrowedFd::borrow_raw(fd) }, SeekFrom::Current(0)), wrote),
    }
}

/// Where an append went. Queries the size only: after a query of times the kernel keeps finer ones at the next write, which doubles its cost.
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

/// Writes by `real`, or to device memory. At PASS only the level is loaded.
#[inline(always)]
fn wrote(
    fd: c_int,
    spot: Option<Spot>,
    iovec: impl Fn() -> Option<IoVecs>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(listed) = state::FDS.get(fd) else { return real() };
    match state::pass_call(listed) {
        Some(call) => call.write(real),
        None => wrote_at_level(fd, spot, iovec, real),
    }
}

/// The same at any level. Out of line, so that writes at PASS do not pay for its registers.
#[inline(never)]
fn wrote_at_level(
    fd: c_int,
    spot: Option<Spot>,
    iovec: impl Fn() -> Option<IoVecs>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(file) = state::seen(fd) else { return real() };
    // Invalid arguments: the kernel reports the error.
    let (Some(mut spot), Some(from)) = (spot, iovec()) else { return real() };
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
        let _guard = CancellationGuard::new();
        let done = file.write_resident(&mut spot, from.len_bytes(), from);
        if let Some(wrote) = answer(done, |wrote| wrote as ssize_t) {
            return wrote;
        }
    }
}

/// Writes by `real`, in flight.
#[inline]
fn by_kernel(
    (file, call): (OpenFile<'static>, Call<'static>),
    fd: c_int,
    spot: Spot,
    from: IoVecs,
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

/// Where a write went. Linux appends on O_APPEND files whatever the offset, and leaves the position.
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
fn here(fd: c_int, iovec: impl Fn() -> Option<IoVecs>, real: impl FnOnce() -> ssize_t) -> ssize_t {
    wrote(fd, Some(Spot::Here), iovec, real)
}

/// Writes at an offset.
#[inline(always)]
fn there(
    fd: c_int,
    at: off_t,
    iovec: impl Fn() -> Option<IoVecs>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    wrote(fd, u64::try_from(at).ok().map(Spot::At), iovec, real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    here(fd, move || IoVecs::whole(from.cast_mut(), len), move || unsafe { real::write(fd, from, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, iovec: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    here(fd, move || IoVecs::vector(iovec, count), move || unsafe { real::writev(fd, iovec, count) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    there(
        fd,
        at,
        move || IoVecs::whole(from.cast_mut(), len),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::pwrite(fd, from, len, at) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    there(
        fd,
        at,
        move || IoVecs::whole(from.cast_mut(), len),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::pwrite64(fd, from, len, at) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev(fd: c_int, iovec: *const iovec, count: c_int, at: off_t) -> ssize_t {
    there(
        fd,
        at,
        move || IoVecs::vector(iovec, count),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::pwritev(fd, iovec, count, at) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64(
    fd: c_int,
    iovec: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    there(
        fd,
        at,
        move || IoVecs::vector(iovec, count),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::pwritev64(fd, iovec, count, at) },
    )
}

/// pwritev2: flags other than 0 change what a write means.
fn flagged(
    fd: c_int,
    (iovec, count): (*const iovec, c_int),
    (at, flags): (off_t, c_int),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match flags {
        0 if at == -1 => here(fd, move || IoVecs::vector(iovec, count), real),
        0 => there(fd, at, move || IoVecs::vector(iovec, count), real),
        _ => once(fd, real),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    iovec: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    flagged(fd, (iovec, count), (at, flags), move || unsafe { real::pwritev2(fd, iovec, count, at, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    iovec: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    flagged(fd, (iovec, count), (at, flags), move || unsafe {
        real::pwritev64v2(fd, iovec, count, at, flags)
    })
}
