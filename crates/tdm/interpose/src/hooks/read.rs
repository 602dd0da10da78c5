//! Reads. The kernel makes those of files that are not DAX-resident, after one look-up.

use std::ffi::{c_int, c_void};

use byway_tdm_engine::client::Spot;
use byway_tdm_engine::table::Reason;
use libc::{iovec, off_t, size_t, ssize_t};

use super::resident::{answer, via_kernel};
use crate::cancellation::CancellationGuard;
use crate::iovec::IoVecs;
use crate::{place, real, state};

/// Reads by `real`, or from device memory.
#[inline(always)]
fn read_from(
    fd: c_int,
    spot: Option<Spot>,
    iovec: impl Fn() -> Option<IoVecs>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(listed) = state::FDS.get(fd) else { return real() };
    // A read at an offset does not use the position: in flight during a promotion it has read the bytes before.
    if matches!(spot, Some(Spot::At(_))) {
        let is_the_kernel_s = state::is_at_pass(listed);
        return if is_the_kernel_s { real() } else { read_at_level(fd, spot, iovec, real) };
    }
    match state::pass_call(listed) {
        Some(call) => call.read(real),
        None => read_at_level(fd, spot, iovec, real),
    }
}

/// The same at any level.
#[inline(never)]
fn read_at_level(
    fd: c_int,
    spot: Option<Spot>,
    iovec: impl Fn() -> Option<IoVecs>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let stays = matches!(spot, Some(Spot::At(_)));
    let Some(file) = state::seen(fd) else { return real() };
    // Invalid arguments: the kernel reports the error.
    let (Some(spot), Some(whole)) = (spot, iovec()) else { return real() };
    loop {
        if stays && !file.is_resident() {
            return file.read_below(real);
        }
        if let Some(call) = file.begin(place::own()) {
            let read = file.read_below(real);
            file.end(call);
            return read;
        }
        let _guard = CancellationGuard::new();
        let mut into = whole;
        if let Some(read) =
            answer(file.read_resident(spot, whole.len_bytes(), &mut into), |read| read as ssize_t)
        {
            return read;
        }
    }
}

fn at(at: off_t) -> Option<Spot> {
    u64::try_from(at).ok().map(Spot::At)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
    read_from(
        fd,
        Some(Spot::Here),
        move || IoVecs::whole(into, len),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::read(fd, into, len) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t {
    read_from(
        fd,
        at(from),
        move || IoVecs::whole(into, len),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::pread(fd, into, len, from) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread64(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t {
    read_from(
        fd,
        at(from),
        move || IoVecs::whole(into, len),
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        move || unsafe { real::pread64(fd, into, len, from) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, iovec: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let real = move || unsafe { real::readv(fd, iovec, count) };
    read_from(fd, Some(Spot::Here), move || IoVecs::vector(iovec, count), real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv(fd: c_int, iovec: *const iovec, count: c_int, from: off_t) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let real = move || unsafe { real::preadv(fd, iovec, count, from) };
    read_from(fd, at(from), move || IoVecs::vector(iovec, count), real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64(
    fd: c_int,
    iovec: *const iovec,
    count: c_int,
    from: off_t,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let real = move || unsafe { real::preadv64(fd, iovec, count, from) };
    read_from(fd, at(from), move || IoVecs::vector(iovec, count), real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    iovec: *const iovec,
    count: c_int,
    from: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    via_kernel(fd, Reason::NeedsKernel, move || unsafe { real::preadv2(fd, iovec, count, from, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    iovec: *const iovec,
    count: c_int,
    from: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    via_kernel(fd, Reason::NeedsKernel, move || unsafe { real::preadv64v2(fd, iovec, count, from, flags) })
}

// Variants of programs compiled with fortification.

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    match len <= room {
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        true => unsafe { read(fd, into, len) },
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        false => unsafe { real::__read_chk(fd, into, len, room) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    from: off_t,
    room: size_t,
) -> ssize_t {
    match len <= room {
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        true => unsafe { pread(fd, into, len, from) },
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        false => unsafe { real::__pread_chk(fd, into, len, from, room) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread64_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    from: off_t,
    room: size_t,
) -> ssize_t {
    match len <= room {
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        true => unsafe { pread64(fd, into, len, from) },
        // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
        false => unsafe { real::__pread64_chk(fd, into, len, from, room) },
    }
}
