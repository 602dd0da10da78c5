//! A thread that is not cancelled: it holds a lock, and the stack is this library's.

use std::ffi::c_int;

const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Where a thread may be cancelled, before anything is held: calls that the C library promises this of come here first, as they are calm
/// from then on.
#[inline]
pub(crate) fn cancellation_point() {
    // SAFETY: takes nothing; unwinds through frames that have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// From now on until it is dropped.
#[derive(Debug)]
pub(crate) struct Calm(c_int);

impl Calm {
    #[inline]
    pub(crate) fn new() -> Self {
        let mut before = DISABLE;
        // SAFETY: a state of this thread alone, which is put back.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Calm {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as it was.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}
