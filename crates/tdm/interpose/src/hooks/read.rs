//! Reads. Of a file that is not at home they are the kernel's, with a look at a table before.

use std::ffi::{c_int, c_void};

use byway_tdm_engine::client::Spot;
use byway_tdm_engine::table::Why;
use libc::{iovec, off_t, size_t, ssize_t};

use super::home::{answer, below_home};
use crate::calm::Calm;
use crate::parts::Parts;
use crate::{place, real, state};

/// Reads by `real`, or at home.
#[inline(always)]
fn read_from(
    fd: c_int,
    spot: Option<Spot>,
    parts: impl Fn() -> Option<Parts>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(listed) = state::FDS.get(fd) else { return real() };
    // A read at an offset moves nothing: one that was under way when its file came home has read what was there before.
    if matches!(spot, Some(Spot::At(_))) {
        let is_the_kernel_s = state::is_at_pass(listed);
        return if is_the_kernel_s { real() } else { read_at_level(fd, spot, parts, real) };
    }
    match state::passing(listed) {
        Some(call) => call.read(real),
        None => read_at_level(fd, spot, parts, real),
    }
}

/// The same at a level that may be another one.
#[inline(never)]
fn read_at_level(
    fd: c_int,
    spot: Option<Spot>,
    parts: impl Fn() -> Option<Parts>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let stays = matches!(spot, Some(Spot::At(_)));
    let Some(file) = state::seen(fd) else { return real() };
    // What the kernel refuses it refuses by itself.
    let (Some(spot), Some(whole)) = (spot, parts()) else { return real() };
    loop {
        if stays && !file.is_home() {
            return file.read_below(real);
        }
        if let Some(call) = file.begin(place::own()) {
            let read = file.read_below(real);
            file.end(call);
            return read;
        }
        let _calm = Calm::new();
        let mut into = whole;
        if let Some(read) = answer(file.read_home(spot, whole.len_bytes(), &mut into), |read| read as ssize_t)
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
        move || Parts::whole(into, len),
        move || unsafe { real::read(fd, into, len) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t {
    read_from(
        fd,
        at(from),
        move || Parts::whole(into, len),
        move || unsafe { real::pread(fd, into, len, from) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread64(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t {
    read_from(
        fd,
        at(from),
        move || Parts::whole(into, len),
        move || unsafe { real::pread64(fd, into, len, from) },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let real = move || unsafe { real::readv(fd, parts, count) };
    read_from(fd, Some(Spot::Here), move || Parts::vector(parts, count), real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv(fd: c_int, parts: *const iovec, count: c_int, from: off_t) -> ssize_t {
    let real = move || unsafe { real::preadv(fd, parts, count, from) };
    read_from(fd, at(from), move || Parts::vector(parts, count), real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    from: off_t,
) -> ssize_t {
    let real = move || unsafe { real::preadv64(fd, parts, count, from) };
    read_from(fd, at(from), move || Parts::vector(parts, count), real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    from: off_t,
    flags: c_int,
) -> ssize_t {
    below_home(fd, Why::WentBelow, move || unsafe { real::preadv2(fd, parts, count, from, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    from: off_t,
    flags: c_int,
) -> ssize_t {
    below_home(fd, Why::WentBelow, move || unsafe { real::preadv64v2(fd, parts, count, from, flags) })
}

// What programs that were compiled with checks of the C library call.

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    match len <= room {
        true => unsafe { read(fd, into, len) },
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
        true => unsafe { pread(fd, into, len, from) },
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
        true => unsafe { pread64(fd, into, len, from) },
        false => unsafe { real::__pread64_chk(fd, into, len, from, room) },
    }
}
