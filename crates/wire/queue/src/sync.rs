//! The atomics this crate is built on: the machine's, or those of the model checker.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub fn pause(_: u32) {
    loom::thread::yield_now();
}

/// Waits a little: spins at first, then gives way, as who is waited for may not be running.
#[cfg(not(loom))]
#[inline]
pub fn pause(round: u32) {
    if round < 128 { std::hint::spin_loop() } else { std::thread::yield_now() }
}

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
