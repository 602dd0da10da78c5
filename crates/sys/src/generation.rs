//! The generation of this process where the kernel has no pages that fork wipes (before Linux 4.14).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The word with the generation; zero until the process begins one.
pub(crate) fn word() -> &'static AtomicU64 {
    &GENERATION
}

/// Clears a child's generation. Called by the handler of fork.
pub(crate) fn clear() {
    GENERATION.store(0, Relaxed);
}
