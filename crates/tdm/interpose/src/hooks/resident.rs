//! Calls on DAX-resident files, and demotion before calls that only the kernel can make.

use std::ffi::c_int;

use byway_tdm_engine::client::{OpenFile, ResidentOutcome};
use byway_tdm_engine::table::Reason;

use super::below;
use crate::{place, state};

/// The value of a failed call.
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

/// Makes a call by the kernel, demoting the file first.
pub(super) fn via_kernel<R: Failing>(fd: c_int, why: Reason, by_kernel: impl FnOnce() -> R) -> R {
    let Some(file) = state::seen(fd) else { return by_kernel() };
    loop {
        if let Some(call) = file.begin(place::own()) {
            let done = by_kernel();
            file.end(call);
            return done;
        }
        if let Err(error) = demote(&file, fd, why) {
            state::set_errno(error);
            return R::FAILED;
        }
    }
}

/// The same for a call on two files.
pub(super) fn both_via_kernel<R: Failing>(
    (one, other): (c_int, c_int),
    why: Reason,
    by_kernel: impl FnOnce() -> R,
) -> R {
    via_kernel(one, why, || via_kernel(other, why, by_kernel))
}

/// Demotes a file.
pub(super) fn demote(file: &OpenFile<'static>, fd: c_int, why: Reason) -> Result<(), c_int> {
    let error = state::errno();
    let _guard = crate::cancellation::CancellationGuard::new();
    let left = file.demote(why, below(fd));
    state::set_errno(error);
    left
}

/// Demotes a file and excludes it from promotion.
pub(super) fn exclude_from_dax(fd: c_int) {
    state::exclude(fd, Reason::ReadUnseen);
    if let Some(file) = state::seen(fd) {
        let _ = demote(&file, fd, Reason::ReadUnseen);
    }
}

/// The same for all files of this process.
pub(super) fn exclude_all_from_dax() {
    for (fd, _) in state::FDS.all() {
        exclude_from_dax(fd);
    }
}

/// The result of a call on a DAX-resident file. `None` if the kernel must make it.
#[inline]
pub(super) fn answer<T, R: Failing>(done: ResidentOutcome<T>, result: impl FnOnce(T) -> R) -> Option<R> {
    match done {
        ResidentOutcome::Done(done) => Some(result(done)),
        ResidentOutcome::Failed(error) => {
            state::set_errno(error);
            Some(R::FAILED)
        }
        ResidentOutcome::NotResident => None,
    }
}
