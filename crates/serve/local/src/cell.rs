//! The device, and the turn that says who runs it: one thread at a time.
//!
//! This is the only file of the bridge with `unsafe`: the device is reached through a cell that the turn guards.

use std::cell::UnsafeCell;

use byway_queue::RunLock;

/// A value that one thread at a time may reach: the holder of the run lock. No thread reaches it after a panic.
#[derive(Debug)]
pub struct Guarded<T> {
    run_lock: RunLock,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only between an acquired run lock and `RunLock::release`.
// The turn admits one thread at a time, entering acquires what leaving released, so `T: Send` is enough.
#[expect(unsafe_code, reason = "a cell shared between threads, guarded by a model-checked turn")]
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// A value nobody runs.
    pub fn new(value: T) -> Self {
        Self { run_lock: RunLock::new(), value: UnsafeCell::new(value) }
    }

    /// The value, unless somebody panicked with it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if self.has_failed() { None } else { Some(self.value.get_mut()) }
    }

    /// Whether somebody panicked with it.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.run_lock.is_poisoned()
    }

    /// Does `work`; if it panics, nobody reaches the value any more.
    #[inline]
    pub fn or_fail<R>(&self, work: impl FnOnce() -> R) -> R {
        let failing = Failing(&self.run_lock);
        let result = work();
        std::mem::forget(failing);
        result
    }

    /// Runs `work` if nobody else is running, with `first` set; otherwise calls `leave_word` and, should the runner
    /// have gone meanwhile, runs then. Runs again for as long as others left word meanwhile. Never waits.
    #[inline]
    pub fn run_or_leave_word(&self, leave_word: impl FnOnce(), mut work: impl FnMut(&mut T, bool)) {
        let mut first = true;
        if !self.run_lock.try_acquire() {
            leave_word();
            first = false;
            if !self.run_lock.acquire_or_set_pending() {
                return;
            }
        }
        self.or_fail(|| {
            loop {
                // SAFETY: this thread holds the turn, so no other reference to the value exists.
                #[expect(unsafe_code, reason = "exclusive by the turn")]
                work(unsafe { &mut *self.value.get() }, first);
                first = false;
                if self.run_lock.release() {
                    return;
                }
            }
        });
    }

    /// Waits for the turn and runs `work` once; word that others left meanwhile is for `after`. Nothing is run, and
    /// nothing comes of it, once somebody panicked with the value.
    pub fn run<R>(&self, work: impl FnOnce(&mut T) -> R, mut after: impl FnMut(&mut T)) -> Option<R> {
        if !self.run_lock.acquire() {
            return None;
        }
        // SAFETY: this thread holds the turn, so no other reference to the value exists.
        #[expect(unsafe_code, reason = "exclusive by the turn")]
        let value = unsafe { &mut *self.value.get() };
        Some(self.or_fail(|| {
            let result = work(value);
            while !self.run_lock.release() {
                after(value);
            }
            result
        }))
    }
}

/// Fails a turn, unless it is forgotten.
struct Failing<'a>(&'a RunLock);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.0.poison();
    }
}
