//! What is counted of a file. Whoever does it counts, by a load and a store: two at once may count one, which no policy minds and
//! no write pays for.

use crate::table::atomic::{AtomicU64, Ordering};

/// Words of counters.
pub(super) const COUNTERS: usize = 18;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counted {
    /// Calls that wrote.
    Writes,
    /// Bytes that they wrote.
    WrittenBytes,
    /// Calls that synced.
    Syncs,
    /// Syncs that were answered by a fence.
    SavedSyncs,
    /// Syncs that went below.
    LowerSyncs,
    /// What these took, in nanoseconds.
    LowerSyncNs,
    /// When the last sync was, on the monotonic clock, in nanoseconds.
    LastSyncNs,
    /// When the third last sync was.
    ThirdLastSyncNs,
    /// When the second last sync was.
    SecondLastSyncNs,
    /// When the daemon may be asked again, on the monotonic clock, in nanoseconds.
    AskAgainNs,
    /// Records written back.
    RetiredBytes,
    /// How often the log was suspended.
    Suspended,
    /// Not zero while the daemon wants the file handed over: whoever syncs it next asks.
    Wanted,
    /// When a sync of an absorbed file may go below again to be timed, on the monotonic clock, in nanoseconds.
    ShadowAgainNs,
    /// Not zero for a file that somebody pinned: so the next daemon knows.
    Pinned,
    /// When the daemon may be asked again to make device memory its home, on the monotonic clock, in nanoseconds.
    HomeAgainNs,
    /// Calls that read.
    Reads,
    /// Bytes that they read.
    ReadBytes,
}

/// A file's counters.
#[derive(Debug, Clone, Copy)]
pub struct Counters<'b>(pub(super) &'b [AtomicU64; COUNTERS]);

impl Counters<'_> {
    /// What was counted.
    #[inline]
    #[must_use]
    pub fn get(&self, what: Counted) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    /// Counts so many more.
    #[inline]
    pub fn add(&self, what: Counted, more: u64) {
        add(&self.0[what as usize], more);
    }

    /// Sets a time.
    #[inline]
    pub fn set(&self, what: Counted, value: u64) {
        self.0[what as usize].store(value, Ordering::Relaxed);
    }

    /// Notes a sync at `now_ns`; says how long ago the one two before it was.
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
