//! Forks, with what the child does and how it ends.
#![allow(unsafe_code, reason = "forks: there is no safe way to")]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exit status of a child whose `act` panicked.
const PANICKED: i32 = 101;

/// A child that is waited for.
pub struct Child(libc::pid_t);

/// Forks a child that does `act` and then ends; its exit status is 1 if `act` says no, or panics.
pub fn fork(act: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child calls the library, as children of programs do, and ends without unwinding into the test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let code = match catch_unwind(AssertUnwindSafe(act)) {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(_) => PANICKED,
        };
        // SAFETY: ends the child; destructors and handlers of the test program are not run.
        unsafe { libc::_exit(code) };
    }
    Child(child)
}

impl Child {
    /// Waits for the child; whether its `act` said yes.
    pub fn was_right(self) -> bool {
        let mut status = -1;
        // SAFETY: waits for a child of this process, once.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Whether a call was refused because the handle is another process's.
pub fn is_refused<T>(result: byway::Result<T>) -> bool {
    let Err(error) = result else { return false };
    error.kind() == byway::ErrorKind::Denied && error.to_string().contains("a forked child must open its own")
}
