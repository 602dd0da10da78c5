//! The atomics this crate is built on: the standard library's, or loom's.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub fn pause(_: u32) {
    loom::thread::yield_now();
}

/// Pauses in a wait loop: spins 128 times, then yields the CPU, as the awaited thread may not be running.
#[cfg(not(loom))]
#[inline]
pub fn pause(round: u32) {
    if round < 128 { std::hint::spin_loop() } else { std::thread::yield_now() }
}

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
