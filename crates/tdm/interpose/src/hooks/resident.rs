//! Files that have device memory as their home: served there, or brought below before the kernel does what only it can do.

use std::ffi::c_int;

use byway_tdm_engine::client::{AtHome, OpenFile};
use byway_tdm_engine::table::Why;

use super::below;
use crate::{place, state};

/// What a call that fails returns.
pub(super) trait Failing {
    const FAILED: Self;
}

impl Failing for c_int {
    const FAILED: Self = -1;
}

impl Failing for isize {
    const FAILED: Self = -1;
}

impl Failing for i64 {
    const FAILED: Self = -1;
}

impl Failing for *mut std::ffi::c_void {
    const FAILED: Self = libc::MAP_FAILED;
}

/// Does it by the kernel, with the file below.
pub(super) fn below_home<R: Failing>(fd: c_int, why: Why, by_kernel: impl FnOnce() -> R) -> R {
    let Some(file) = state::seen(fd) else { return by_kernel() };
    loop {
        if let Some(call) = file.begin(place::own()) {
            let done = by_kernel();
            file.end(call);
            return done;
        }
        if let Err(error) = leave(&file, fd, why) {
            state::set_errno(error);
            return R::FAILED;
        }
    }
}

/// The same for two files, of which one is read.
pub(super) fn both_below_home<R: Failing>(
    (one, other): (c_int, c_int),
    why: Why,
    by_kernel: impl FnOnce() -> R,
) -> R {
    below_home(one, why, || below_home(other, why, by_kernel))
}

/// Brings a file below.
pub(super) fn leave(file: &OpenFile<'static>, fd: c_int, why: Why) -> Result<(), c_int> {
    let error = state::errno();
    let _calm = crate::calm::Calm::new();
    let left = file.leave_home(why, below(fd));
    state::set_errno(error);
    left
}

/// A file is seen below from here on, for as long as it is on the board: it never comes home again.
pub(super) fn keep_below(fd: c_int) {
    state::exclude(fd, Why::ReadUnseen);
    if let Some(file) = state::seen(fd) {
        let _ = leave(&file, fd, Why::ReadUnseen);
    }
}

/// Every file of this process, from here on.
pub(super) fn keep_all_below() {
    for (fd, _) in state::FDS.all() {
        keep_below(fd);
    }
}

/// What a call comes to at home; none where the kernel does it after all.
#[inline]
pub(super) fn answer<T, R: Failing>(done: AtHome<T>, result: impl FnOnce(T) -> R) -> Option<R> {
    match done {
        AtHome::Done(done) => Some(result(done)),
        AtHome::Failed(error) => {
            state::set_errno(error);
            Some(R::FAILED)
        }
        AtHome::Left => None,
    }
}
