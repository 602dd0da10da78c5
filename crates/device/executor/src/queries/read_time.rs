//! Modelled time of what a query reads of its object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::executor::Executor;

/// When the reads of a query have ended so far, in modelled picoseconds; 0 where time is not modelled. Computation takes no modelled time.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadTime(Arc<AtomicU64>);

impl ReadTime {
    /// When a read begins: behind those before it, and not before now.
    pub fn begin(&self, executor: &Executor) -> u64 {
        self.ended_ps().max(executor.clock().now_ps())
    }

    /// Notes that a read has ended.
    pub fn note_end(&self, at_ps: u64) {
        self.0.fetch_max(at_ps, Relaxed);
    }

    /// When the last read has ended.
    pub fn ended_ps(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
