//! Clock of the placement policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byway_sys::time::monotonic_ns;

/// The monotonic clock plus an offset, which tests advance.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    ahead_ns: Arc<AtomicU64>,
    rounds: Arc<AtomicU64>,
}

impl Clock {
    /// Advances the offset.
    pub fn advance(&self, by: Duration) {
        self.ahead_ns.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Number of evaluations of all files.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    /// Counts an evaluation.
    pub(crate) fn note_round(&self) {
        self.rounds.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_add(self.ahead_ns.load(Ordering::Relaxed))
    }
}
