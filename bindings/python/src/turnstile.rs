//! A fair lock: a waiting thread enters before one that left and returns.
//!
//! A thread that waits for completions enters again and again. With a plain mutex it would be in again before another
//! thread, woken by its leaving, has got up.
//!
//! Never enter with the GIL held: the holder of the lock may want it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that one thread at a time uses.
#[derive(Debug, Default)]
pub struct Turnstile<T> {
    /// Held by the thread that enters next.
    next: Mutex<()>,
    inside: Mutex<T>,
}

impl<T> Turnstile<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Self { next: Mutex::new(()), inside: Mutex::new(value) }
    }

    /// Waits until it is this thread's turn.
    pub fn enter(&self) -> MutexGuard<'_, T> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        drop(next);
        inside
    }
}
