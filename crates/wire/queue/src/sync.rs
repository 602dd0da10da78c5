//! The atomics this crate is built on: the machine's, or those of the model checker.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
