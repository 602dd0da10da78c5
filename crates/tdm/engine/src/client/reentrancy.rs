//! Whether this thread is in the middle of something that a signal handler of its own would wait for.

use std::cell::Cell;

use byway_sys::signal_stack;

thread_local! {
    /// Where on the stack whoever has the turn took it; zero where nobody has.
    static TAKEN_AT: Cell<usize> = const { Cell::new(0) };
}

/// This thread's turn, until it is dropped.
#[derive(Debug)]
pub struct Turn(());

impl Turn {
    /// Takes it; `None` for a signal handler that interrupted whoever has it.
    #[inline]
    #[must_use]
    pub fn take() -> Option<Self> {
        let frame = 0_u8;
        let here = (&raw const frame).addr();
        TAKEN_AT.with(|taken_at| {
            // Made only where it is taken: one that is dropped gives it back.
            let is_free = taken_at.get() == 0 || is_gone(taken_at.get(), here);
            is_free.then(|| {
                taken_at.set(here);
                Self(())
            })
        })
    }
}

/// Whether a handler has jumped out of the call that has the turn (siglongjmp), which gives nothing back any more. A handler lies below what it
/// interrupted: who comes from there, or from above, is none.
#[cold]
fn is_gone(taken_at: usize, here: usize) -> bool {
    here >= taken_at && !signal_stack::is_in_use()
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        TAKEN_AT.with(|taken_at| taken_at.set(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As from a function that is called, and is not in its caller's frame.
    #[inline(never)]
    fn taken_below() -> Option<Turn> {
        std::hint::black_box([0_u8; 4096]);
        Turn::take()
    }

    #[test]
    fn a_turn_that_was_refused_is_still_whose_it_was() {
        let turn = Turn::take();
        assert!(turn.is_some());
        assert!(taken_below().is_none() && taken_below().is_none());
        drop(turn);
        assert!(taken_below().is_some());
    }

    #[test]
    fn a_turn_of_a_call_that_is_gone_is_the_next_one_s() {
        std::mem::forget(taken_below());
        assert!(Turn::take().is_some());
    }
}
