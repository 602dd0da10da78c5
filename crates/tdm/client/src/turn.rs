//! Whether this thread is in the middle of something that a signal handler of its own would wait for.

use std::cell::Cell;

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// This thread's turn, until it is dropped.
#[derive(Debug)]
pub struct Turn(());

impl Turn {
    /// Takes it; `None` for a signal handler that interrupted whoever has it.
    #[inline]
    #[must_use]
    pub fn take() -> Option<Self> {
        BUSY.with(|busy| (!busy.replace(true)).then_some(Self(())))
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        BUSY.with(|busy| busy.set(false));
    }
}
