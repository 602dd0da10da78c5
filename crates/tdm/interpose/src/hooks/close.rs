//! Closing and duplicating descriptors. A number is removed from the list before it is free, as it may be reused at once.

use std::ffi::{c_int, c_uint, c_void};

use byway_tdm_engine::table::Reason;

use super::below;
use super::resident::via_kernel;
use crate::{real, state};

/// CLOSE_RANGE_UNSHARE: gives the calling thread a descriptor table of its own.
const UNSHARE: c_int = 1 << 1;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    let _ = state::forget(fd);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::close(fd) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // CLOSE_RANGE_CLOEXEC closes nothing yet.
    const CLOEXEC: c_int = 1 << 2;
    if flags & UNSHARE != 0 && has_threads() {
        // Other threads keep them.
        state::bar_all(Reason::Parted);
    } else if flags & CLOEXEC == 0 && can_close(first, last, flags) {
        forget_from(first, last);
    }
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::close_range(first, last, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    forget_from(first.max(0).unsigned_abs(), c_uint::MAX);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::closefrom(first) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let copy = unsafe { real::dup(fd) };
    state::copy(fd, copy);
    copy
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    over(from, to, || unsafe { real::dup2(from, to) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    over(from, to, || unsafe { real::dup3(from, to, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    controlled(fd, command, argument, || unsafe { real::fcntl(fd, command, argument) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    controlled(fd, command, argument, || unsafe { real::fcntl64(fd, command, argument) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unshare(flags: c_int) -> c_int {
    if flags & libc::CLONE_FILES != 0 && has_threads() {
        state::bar_all(Reason::Parted);
    }
    if flags & libc::CLONE_NEWPID != 0 {
        // Children have other process numbers there, and locks and marks are held by number.
        state::bar_all(Reason::OtherProcesses);
    }
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::unshare(flags) }
}

/// Whether there are other threads, for which a number would be another file's.
fn has_threads() -> bool {
    let error = state::errno();
    let tasks = std::fs::read_dir("/proc/self/task").map_or(2, |tasks| tasks.take(2).count());
    state::set_errno(error);
    tasks > 1
}

/// Whether the kernel would close anything: a failing call does not.
fn can_close(first: c_uint, last: c_uint, flags: c_int) -> bool {
    first <= last && flags & !UNSHARE == 0
}

/// Duplicates over a number that may be open.
fn over(from: c_int, to: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let was = if from == to { None } else { state::forget(to) };
    let copy = real();
    if copy < 0 {
        state::remember(to, was);
    } else {
        state::copy(from, copy);
    }
    copy
}

fn controlled(fd: c_int, command: c_int, argument: *mut c_void, real: impl FnOnce() -> c_int) -> c_int {
    // The flags of a DAX-resident file are those of its promotion.
    let answer = match command {
        libc::F_SETFL => via_kernel(fd, Reason::NeedsKernel, real),
        _ => real(),
    };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => state::copy(fd, answer),
        libc::F_SETFL => flags_changed(fd, argument.addr() as c_int),
        _ => {}
    }
    answer
}

/// Flags decide where writes go.
fn flags_changed(fd: c_int, flags: c_int) {
    let Some(file) = state::file(fd) else { return };
    let appends = flags & libc::O_APPEND != 0;
    if flags & libc::O_DIRECT != 0 {
        file.bar(Reason::Direct, below(fd));
    } else if appends != file.appends() {
        file.bar(Reason::FlagsChanged, below(fd));
    }
}

fn forget_from(first: c_uint, last: c_uint) {
    for (fd, _) in state::FDS.all() {
        if (first..=last).contains(&fd.unsigned_abs()) {
            let _ = state::forget(fd);
        }
    }
}
