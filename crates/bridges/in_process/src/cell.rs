//! The device, and the turn that says who runs it: one thread at a time.
//!
//! This is the only file of the bridge with `unsafe`: the device is reached through a cell that the turn guards.

use std::cell::UnsafeCell;

use byway_queue::Turn;

/// A value that one thread at a time may reach: whoever holds the turn.
#[derive(Debug)]
pub struct Guarded<T> {
    turn: Turn,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only between a turn that was entered and `Turn::leave`.
// The turn admits one thread at a time, entering acquires what leaving released, so `T: Send` is enough.
#[expect(unsafe_code, reason = "a cell shared between threads, guarded by a model-checked turn")]
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// A value nobody runs.
    pub fn new(value: T) -> Self {
        Self { turn: Turn::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `work` if nobody else is running, with `first` set; otherwise calls `leave_word` and, should the runner
    /// have gone meanwhile, runs then. Runs again for as long as others left word meanwhile. Never waits.
    #[inline]
    pub fn run_or_leave_word(&self, leave_word: impl FnOnce(), mut work: impl FnMut(&mut T, bool)) {
        let mut first = true;
        if !self.turn.try_enter() {
            leave_word();
            first = false;
            if !self.turn.enter() {
                return;
            }
        }
        loop {
            // SAFETY: this thread holds the turn, so no other reference to the value exists.
            #[expect(unsafe_code, reason = "exclusive by the turn")]
            work(unsafe { &mut *self.value.get() }, first);
            first = false;
            if self.turn.leave() {
                return;
            }
        }
    }

    /// Runs `work` if nobody has the turn. For values that nobody leaves word for.
    pub fn try_run<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.turn.try_enter() {
            return None;
        }
        // SAFETY: this thread holds the turn, so no other reference to the value exists.
        #[expect(unsafe_code, reason = "exclusive by the turn")]
        let result = work(unsafe { &mut *self.value.get() });
        while !self.turn.leave() {}
        Some(result)
    }

    /// Waits for the turn and runs `work` once; word that others left meanwhile is for `after`.
    pub fn run<R>(&self, work: impl FnOnce(&mut T) -> R, mut after: impl FnMut(&mut T)) -> R {
        self.turn.wait();
        // SAFETY: this thread holds the turn, so no other reference to the value exists.
        #[expect(unsafe_code, reason = "exclusive by the turn")]
        let value = unsafe { &mut *self.value.get() };
        let result = work(value);
        while !self.turn.leave() {
            after(value);
        }
        result
    }
}
