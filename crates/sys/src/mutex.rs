//! Locking in code that the preload library links: this crate, `flash` and `tdm/region`.
//!
//! Their mutexes are those of `std`, each a word of its own. `parking_lot`, which all other crates use, keeps waiters in a table of
//! the process: if another thread of the host program holds a lock of that table during `fork`, it stays locked in the child.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, ignoring poisoning.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
