//! The atomics that shared words are: the machine's, or those of the model checker.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One side of a barrier of which another process has the whole weight ([`byway_sys::barrier::for_registered`]): the compiler keeps the order
/// here, and that one has each processor keep it.
#[inline]
pub(super) fn light_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}
