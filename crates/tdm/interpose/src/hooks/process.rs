//! exec and spawn: the other program has every descriptor without FD_CLOEXEC and may write without records.

#[cfg(target_arch = "x86_64")]
use std::ffi::CStr;
use std::ffi::{c_char, c_int, c_void};

use byway_tdm_engine::table::Reason;
use libc::{FILE, pid_t};

use crate::{real, state};

/// Bars files that another program will have open.
pub(super) extern "C" fn hand_on() {
    for (fd, _) in state::FDS.all() {
        // SAFETY: asks for flags.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFD, std::ptr::null_mut()) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            state::bar(fd, Reason::HandedOn);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::execve(path, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::execv(path, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::execvp(file, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::execvpe(file, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fexecve(
    fd: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::fexecve(fd, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    flags: c_int,
) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::execveat(folder, path, arguments, environment, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::posix_spawn(pid, path, actions, attributes, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::posix_spawnp(pid, file, actions, attributes, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::system(command) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    hand_on();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::popen(command, mode) }
}

/// The real function behind a trampoline.
#[cfg(target_arch = "x86_64")]
extern "C" fn behind(name: *const c_char, _: c_int) -> *mut c_void {
    hand_on();
    // SAFETY: one of the names below.
    real::next(unsafe { CStr::from_ptr(name) })
}

#[cfg(target_arch = "x86_64")]
super::in_front! { behind: execl execlp execle }

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    from: c_int,
    to: c_int,
) -> c_int {
    // Another program will have it; the C library duplicates it unseen.
    state::bar(from, Reason::HandedOn);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, from, to) }
}

/// A fork without exec.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Fork() -> pid_t {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let child = unsafe { real::_Fork() };
    if child == 0 {
        state::own();
        byway_tdm_engine::client::forget_thread();
    }
    child
}
