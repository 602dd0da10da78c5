//! The sequence number of the next record.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts up. Threads that append to [leases](crate::engine::lease) take numbers beside each other: it has a cache line of its own.
#[repr(align(128))]
pub(crate) struct NextSeq(AtomicU64);

impl NextSeq {
    /// The first number after `seq`.
    pub(crate) fn after(seq: u64) -> Self {
        Self(AtomicU64::new(seq + 1))
    }

    /// The next number, which stays the next.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// The number before the next.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.get() - 1
    }

    /// Takes the next number. Of two calls, one after the other on whatever threads, the later one takes the higher number.
    #[inline]
    pub(crate) fn take(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }

    /// Notes that `seq` is taken: by [`take`](Self::take), or while no thread calls that.
    #[inline]
    pub(crate) fn pass(&self, seq: u64) {
        if self.get() <= seq {
            self.0.store(seq + 1, Relaxed);
        }
    }
}
