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
        // Made only where it is taken: one that is dropped gives it back.
        BUSY.with(|busy| (!busy.replace(true)).then(|| Self(())))
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        BUSY.with(|busy| busy.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_was_refused_is_still_whose_it_was() {
        let turn = Turn::take();
        assert!(turn.is_some());
        assert!(Turn::take().is_none() && Turn::take().is_none());
        drop(turn);
        assert!(Turn::take().is_some());
    }
}
