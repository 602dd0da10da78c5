//! Locking in code that the preload library links: this crate, `flash` and `tdm/region`.
//!
//! Their mutexes are those of `std`, each a word of its own. `parking_lot`, which all other crates use, keeps waiters in a table of
//! the process: a `fork` of the program that the library is loaded into may copy that table while a thread of it has it locked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, ignoring poisoning.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
