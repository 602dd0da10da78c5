//! When an operation is given up.

use std::num::NonZeroU64;
use std::time::Duration;

use io_uring::types::Timespec;

use crate::time::monotonic_ns;

const SECOND_NS: u64 = 1_000_000_000;

/// A time by the monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(NonZeroU64);

impl Deadline {
    /// So long from now on; for ever, if it is longer than the clock goes.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let at = monotonic_ns().saturating_add(nanos).min(i64::MAX as u64);
        Self(NonZeroU64::new(at).unwrap_or(NonZeroU64::MIN))
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        monotonic_ns() >= self.0.get()
    }

    pub(super) fn timespec(self) -> Timespec {
        let at = self.0.get();
        Timespec::new().sec(at / SECOND_NS).nsec((at % SECOND_NS) as u32)
    }
}
