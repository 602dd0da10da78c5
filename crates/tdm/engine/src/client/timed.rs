//! Sampling: which calls are timed, few enough to cost the others nothing.

use crate::table::{Counted, Counters, Entry, Timed, Times};
use byway_sys::time::monotonic_ns;
use byway_tdm_policy::SHADOW_ONE_IN;

/// One write in 61 is timed; a prime, as programs alternate headers and data.
const WRITES_ONE_IN: u64 = 61;

/// One read in 61 is timed; a prime, as programs alternate reads of several parts.
const READS_ONE_IN: u64 = 61;

/// One sync in 17 of an absorbed or DAX-resident file is timed.
const SYNCS_ONE_IN: u64 = 17;

/// Timed real syncs (shadow syncs) take at most 1/200 of the time.
const SHADOWS_ONE_PART_IN: u64 = 200;

/// A stopwatch that reads the clock for sampled calls only.
#[derive(Debug)]
pub(super) struct Watch(Option<u64>);

impl Watch {
    /// For the next write.
    #[inline]
    pub(super) fn of_write(counters: Counters<'_>) -> Self {
        let is_timed = counters.get(Counted::Writes).is_multiple_of(WRITES_ONE_IN);
        Self(is_timed.then(now_ns))
    }

    /// For the next read.
    #[inline]
    pub(super) fn of_read(counters: Counters<'_>) -> Self {
        let is_timed = counters.get(Counted::Reads).is_multiple_of(READS_ONE_IN);
        Self(is_timed.then(monotonic_ns))
    }

    /// For a counted sync of a DAX-resident file that began at `began_ns`.
    #[inline]
    pub(super) fn of_sync(counters: Counters<'_>, began_ns: u64) -> Self {
        let is_timed = counters.get(Counted::Syncs).is_multiple_of(SYNCS_ONE_IN);
        Self(is_timed.then_some(began_ns))
    }

    /// Nanoseconds since the last lap, if timed.
    #[inline]
    pub(super) fn lap(&mut self) -> Option<u64> {
        let since = self.0?;
        let now = monotonic_ns();
        self.0 = Some(now);
        Some(now.saturating_sub(since))
    }

    /// Records the time until now, if timed.
    #[inline]
    pub(super) fn over(self, times: Times<'_>, what: Timed) {
        if let Some(since) = self.0 {
            record_since(times, what, since);
        }
    }

    /// Records a time, if there is one.
    #[inline]
    pub(super) fn record(&self, times: Times<'_>, what: Timed, ns: Option<u64>) {
        if let Some(ns) = ns {
            times.record(what, ns);
        }
    }
}

/// The rare path, kept out of line so that the common path stays in the processor's caches.
#[cold]
#[inline(never)]
fn now_ns() -> u64 {
    monotonic_ns()
}

#[cold]
#[inline(never)]
fn record_since(times: Times<'_>, what: Timed, since: u64) {
    times.record(what, monotonic_ns().saturating_sub(since));
}

/// Shadow syncs: real syncs of an absorbed file, two in a row. The first writes back older dirty pages, so that the second is comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shadow {
    /// Not a shadow sync.
    No,
    /// Writes back what earlier calls left dirty.
    First,
    /// Measures what a sync costs below.
    Second,
}

/// Flag: the first of the pair is done; the other bits are its time in nanoseconds.
const HALF_WAY: u64 = 1 << 63;

impl Shadow {
    /// For a counted sync.
    #[inline]
    pub(super) fn due(counters: Counters<'_>, now_ns: u64) -> Self {
        let again_ns = || counters.get(Counted::ShadowAgainNs);
        match counters.get(Counted::Syncs) % SHADOW_ONE_IN {
            0 if again_ns() & HALF_WAY != 0 || now_ns >= again_ns() => Self::First,
            1 if again_ns() & HALF_WAY != 0 => Self::Second,
            _ => Self::No,
        }
    }

    /// Whether the sync is a real one whatever the log has.
    #[inline]
    pub(super) fn goes_below(self) -> bool {
        self != Self::No
    }

    /// Ends a sync that began at `began_ns`: records its time, or sets when the next pair may follow.
    #[inline]
    pub(super) fn over(self, entry: &Entry<'_>, began_ns: u64) {
        let counters = entry.counters();
        if self == Self::No && !counters.get(Counted::Syncs).is_multiple_of(SYNCS_ONE_IN) {
            return;
        }
        let now_ns = monotonic_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        match self {
            Self::No => entry.times().record(Timed::LevelSync, took_ns),
            Self::First => counters.set(Counted::ShadowAgainNs, HALF_WAY | took_ns),
            Self::Second => {
                // The first is much longer when a thousand syncs left dirty pages.
                let first_ns = counters.get(Counted::ShadowAgainNs) & !HALF_WAY;
                let both_ns = took_ns.saturating_add(first_ns);
                let again_ns = now_ns.saturating_add(both_ns.saturating_mul(SHADOWS_ONE_PART_IN));
                counters.set(Counted::ShadowAgainNs, again_ns & !HALF_WAY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::table::{FILE_TABLE_BYTES, FileKey, FileTable};
    use byway_sys::Mapping;

    use super::*;

    const SLOW_NS: u64 = 10_000_000;

    #[test]
    fn shadow_sync_pairs_are_rate_limited_by_their_cost() {
        let file_table = FileTable::make(Mapping::anonymous(FILE_TABLE_BYTES).unwrap()).unwrap();
        let file = tempfile::tempfile().unwrap();
        let entry = file_table.find_or_make(FileKey::of(&file).unwrap().unwrap().key).unwrap().unwrap();
        let counters = entry.counters();
        counters.set(Counted::Syncs, SHADOW_ONE_IN);
        assert_eq!(Shadow::due(counters, monotonic_ns()), Shadow::First);
        Shadow::First.over(&entry, monotonic_ns() - SLOW_NS);
        counters.set(Counted::Syncs, SHADOW_ONE_IN + 1);
        assert_eq!(Shadow::due(counters, monotonic_ns()), Shadow::Second);
        Shadow::Second.over(&entry, monotonic_ns());
        counters.set(Counted::Syncs, 2 * SHADOW_ONE_IN);
        let paid_ns = monotonic_ns() + SLOW_NS * (SHADOWS_ONE_PART_IN - 20);
        assert_eq!(Shadow::due(counters, paid_ns), Shadow::No);
        assert_eq!(Shadow::due(counters, paid_ns + 1_000 * SLOW_NS), Shadow::First);
    }
}
