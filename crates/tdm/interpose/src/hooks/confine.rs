//! Programs that install seccomp filters, which may forbid this library's own calls.

use std::ffi::{c_int, c_long, c_ulong};

use crate::{real, state};

/// SECCOMP_MODE_STRICT.
const MODE_STRICT: c_ulong = 1;

/// SECCOMP_SET_MODE_STRICT.
const SET_MODE_STRICT: c_long = 0;

/// SECCOMP_SET_MODE_FILTER.
const SET_MODE_FILTER: c_long = 1;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    // Without a filter it fails: programs test for seccomp so.
    if option == libc::PR_SET_SECCOMP && (a == MODE_STRICT || b != 0) {
        state::confine();
    }
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::prctl(option, a, b, c, d) }
}

/// Before seccomp(2), a bare call. Without a filter it fails as well.
pub(super) fn before_seccomp(operation: c_long, flags: c_long, filter: c_long) {
    let is_strict = operation == SET_MODE_STRICT && flags == 0 && filter == 0;
    if is_strict || (operation == SET_MODE_FILTER && filter != 0) {
        state::confine();
    }
}
