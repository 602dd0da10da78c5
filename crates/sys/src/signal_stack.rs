//! The stack of its own that a thread may have for its signal handlers (sigaltstack).

use std::mem::MaybeUninit;

/// Whether this is a signal handler on such a stack: its frames lie anywhere, beside those of what it interrupted.
#[must_use]
pub fn is_in_use() -> bool {
    let mut found = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: changes nothing, and stores the current stack in ours, unless it fails.
    let found = unsafe {
        match libc::sigaltstack(std::ptr::null(), found.as_mut_ptr()) {
            0 => found.assume_init(),
            _ => return false,
        }
    };
    found.ss_flags & libc::SS_ONSTACK != 0
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg_attr(miri, ignore = "signal stacks are not there")]
    fn a_thread_that_handles_no_signal_is_on_its_own_stack() {
        assert!(!super::is_in_use());
    }
}
