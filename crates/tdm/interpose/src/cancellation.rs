//! Cancellation guard: no thread is cancelled while it holds a lock or runs this library's code.

use std::ffi::c_int;

const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Cancellation point, before any lock is taken: interposed functions that are cancellation points call it first.
#[inline]
pub(crate) fn cancellation_point() {
    // SAFETY: takes nothing; unwinds through frames that have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// Disables cancellation of this thread until it is dropped.
#[derive(Debug)]
pub(crate) struct CancellationGuard(c_int);

impl CancellationGuard {
    #[inline]
    pub(crate) fn new() -> Self {
        let mut before = DISABLE;
        // SAFETY: a state of this thread alone, which is put back.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for CancellationGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as it was.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}
