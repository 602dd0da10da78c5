//! Programs that this one becomes or starts: they have every descriptor that is not closed on the way, and may write it unseen.

use std::ffi::{CStr, c_char, c_int, c_void};

use byway_tdm_board::Why;
use libc::{FILE, pid_t};

use crate::{real, state};

/// Bars the files that another program will have.
extern "C" fn hand_on() {
    for (fd, _) in state::FDS.all() {
        // SAFETY: asks for flags.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFD, std::ptr::null_mut()) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            state::bar(fd, Why::HandedOn);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    hand_on();
    unsafe { real::execve(path, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    hand_on();
    unsafe { real::execv(path, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    hand_on();
    unsafe { real::execvp(file, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    hand_on();
    unsafe { real::execvpe(file, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(
    fd: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    hand_on();
    unsafe { real::fexecve(fd, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    hand_on();
    unsafe { real::posix_spawn(pid, path, actions, attributes, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    hand_on();
    unsafe { real::posix_spawnp(pid, file, actions, attributes, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    hand_on();
    unsafe { real::system(command) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    hand_on();
    unsafe { real::popen(command, mode) }
}

/// The real function behind a trampoline.
extern "C" fn behind(name: *const c_char) -> *mut c_void {
    hand_on();
    // SAFETY: one of the names below.
    real::next(unsafe { CStr::from_ptr(name) })
}

// `execl` and its kind take as many arguments as there are, which only their caller and the function behind know: every register
// and the stack are left as they were, and that function returns to the caller.
#[cfg(target_arch = "x86_64")]
macro_rules! handing_on {
    ($($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                static NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                std::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "mov rdi, [rip + {name}]",
                    "call {behind}",
                    "mov r11, rax",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    name = sym NAME,
                    behind = sym behind,
                )
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
handing_on! { execl execlp execle }
