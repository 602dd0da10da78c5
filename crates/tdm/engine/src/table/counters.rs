//! Counters of a file, raised by a load and a store: concurrent calls may lose one, which the policy tolerates and which saves locked
//! instructions.

use crate::table::atomic::{AtomicU64, Ordering};

/// Words of counters.
pub(super) const COUNTERS: usize = 18;

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counted {
    /// Writing calls.
    Writes,
    /// Bytes written.
    WrittenBytes,
    /// Syncs.
    Syncs,
    /// Syncs done by a fence.
    SavedSyncs,
    /// Real syncs.
    LowerSyncs,
    /// Nanoseconds in real syncs.
    LowerSyncNs,
    /// Time of the last sync, in ns of the monotonic clock.
    LastSyncNs,
    /// Time of the third last sync.
    ThirdLastSyncNs,
    /// Time of the second last sync.
    SecondLastSyncNs,
    /// Earliest time of the next request to absorb, in ns of the monotonic clock.
    AskAgainNs,
    /// Bytes of retired records.
    RetiredBytes,
    /// Times that the log was suspended.
    Suspended,
    /// Nonzero if the daemon wants the file handed over: the next sync asks.
    Wanted,
    /// Earliest time of the next shadow sync, in ns of the monotonic clock.
    ShadowAgainNs,
    /// Nonzero if a user pinned the file: kept for the next daemon.
    Pinned,
    /// Earliest time of the next request to promote, in ns of the monotonic clock.
    PromotionRetryNs,
    /// Reading calls.
    Reads,
    /// Bytes read.
    ReadBytes,
}

/// A file's counters.
#[derive(Debug, Clone, Copy)]
pub struct Counters<'b>(pub(super) &'b [AtomicU64; COUNTERS]);

impl Counters<'_> {
    /// The value.
    #[inline]
    #[must_use]
    pub fn get(&self, what: Counted) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    /// Adds to it.
    #[inline]
    pub fn add(&self, what: Counted, more: u64) {
        add(&self.0[what as usize], more);
    }

    /// Sets it.
    #[inline]
    pub fn set(&self, what: Counted, value: u64) {
        self.0[what as usize].store(value, Ordering::Relaxed);
    }

    /// Records a sync at `now_ns`; returns how long ago the one two before it was.
    pub fn synced_at(&self, now_ns: u64) -> u64 {
        let [last, second] = [Counted::LastSyncNs, Counted::SecondLastSyncNs].map(|what| self.get(what));
        self.add(Counted::Syncs, 1);
        self.set(Counted::ThirdLastSyncNs, second);
        self.set(Counted::SecondLastSyncNs, last);
        self.set(Counted::LastSyncNs, now_ns);
        if second == 0 { u64::MAX } else { now_ns.saturating_sub(second) }
    }
}

/// Adds by a load and a store.
#[inline]
pub(super) fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
