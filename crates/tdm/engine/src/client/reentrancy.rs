//! Reentrancy guard: detects a signal handler that interrupted its own thread inside this library.

use std::cell::Cell;

use byway_sys::signal_stack;

thread_local! {
    /// Stack address at which the guard was taken; zero if it is free.
    static TAKEN_AT: Cell<usize> = const { Cell::new(0) };
}

/// This thread's reentrancy guard, until it is dropped.
#[derive(Debug)]
pub struct ReentrancyGuard(());

impl ReentrancyGuard {
    /// Takes the guard. `None` in a signal handler that interrupted its holder.
    #[inline]
    #[must_use]
    pub fn take() -> Option<Self> {
        let frame = 0_u8;
        let here = (&raw const frame).addr();
        TAKEN_AT.with(|taken_at| {
            // Constructed only when taken, since dropping frees it.
            let is_free = taken_at.get() == 0 || is_gone(taken_at.get(), here);
            is_free.then(|| {
                taken_at.set(here);
                Self(())
            })
        })
    }
}

/// Whether a handler has jumped (siglongjmp) out of the call that took the guard. A handler runs below the interrupted frame, so a caller at or
/// above that frame is not one.
#[cold]
fn is_gone(taken_at: usize, here: usize) -> bool {
    here >= taken_at && !signal_stack::is_in_use()
}

impl Drop for ReentrancyGuard {
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
    fn taken_below() -> Option<ReentrancyGuard> {
        std::hint::black_box([0_u8; 4096]);
        ReentrancyGuard::take()
    }

    #[test]
    fn refused_guard_stays_with_its_holder() {
        let guard = ReentrancyGuard::take();
        assert!(guard.is_some());
        assert!(taken_below().is_none() && taken_below().is_none());
        drop(guard);
        assert!(taken_below().is_some());
    }

    #[test]
    fn guard_of_an_abandoned_call_is_taken_over() {
        std::mem::forget(taken_below());
        assert!(ReentrancyGuard::take().is_some());
    }
}
