//! Atomics of the machine, or of the loom model.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The program's side of an asymmetric barrier: the compiler keeps the order here, and [`byway_sys::barrier::for_registered`] in the daemon makes
/// every processor keep it.
#[inline]
pub(super) fn light_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}
