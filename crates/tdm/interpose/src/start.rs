//! Initialisation at load and after fork.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;

use byway_tdm_engine::control::SOCKET_VARIABLE;
use byway_tdm_engine::table::Reason;

use crate::state;

/// Run by the loader before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = at_load;

extern "C" fn at_load(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    // Copied, as the program may overwrite its environment.
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) else { return };
    state::load(PathBuf::from(socket));
    // SAFETY: a function that may run in a child with one thread: it stores a number.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    list_inherited();
}

extern "C" fn in_child() {
    state::own();
}

/// Lists files that the program inherited. Standard streams (0 to 2) are written by stdio.
fn list_inherited() {
    let Ok(names) = std::fs::read_dir("/proc/self/fd") else { return };
    let fds: Vec<c_int> =
        names.flatten().filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    for fd in fds {
        // SAFETY: asks for flags; a number that is no descriptor any more is answered by an error.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let access = flags & libc::O_ACCMODE;
        if flags < 0 || flags & libc::O_PATH != 0 || access == libc::O_RDONLY {
            continue;
        }
        state::attach(fd, flags);
        // Another program may have it open, without this library.
        state::exclude(fd, Reason::HandedOn);
    }
}
