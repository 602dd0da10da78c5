//! Which calls are timed: few enough that the others do not pay for it.

use crate::table::{Counted, Counters, Entry, Timed, Times};
use byway_sys::time::monotonic_ns;
use byway_tdm_policy::SHADOW_ONE_IN;

/// One write in so many is timed: a prime number, as a program writes header and data by turns.
const WRITES_ONE_IN: u64 = 61;

/// One read in so many, as whoever reads by pieces has turns too.
const READS_ONE_IN: u64 = 61;

/// One sync in so many, of a file that is absorbed or at home: a prime number for the same reason.
const SYNCS_ONE_IN: u64 = 17;

/// Syncs that go below to be timed take one part in so many of the time at most, however often the file is synced.
const SHADOWS_ONE_PART_IN: u64 = 200;

/// The clock, looked at for a call that is timed and left alone for the others.
#[derive(Debug)]
pub(super) struct Watch(Option<u64>);

impl Watch {
    /// For the write that comes next.
    #[inline]
    pub(super) fn of_write(counters: Counters<'_>) -> Self {
        let is_timed = counters.get(Counted::Writes).is_multiple_of(WRITES_ONE_IN);
        Self(is_timed.then(now_ns))
    }

    /// For the read that comes next.
    #[inline]
    pub(super) fn of_read(counters: Counters<'_>) -> Self {
        let is_timed = counters.get(Counted::Reads).is_multiple_of(READS_ONE_IN);
        Self(is_timed.then(monotonic_ns))
    }

    /// For a sync at home that is counted already and began at `began_ns`.
    #[inline]
    pub(super) fn of_sync(counters: Counters<'_>, began_ns: u64) -> Self {
        let is_timed = counters.get(Counted::Syncs).is_multiple_of(SYNCS_ONE_IN);
        Self(is_timed.then_some(began_ns))
    }

    /// How long it was since the last time.
    #[inline]
    pub(super) fn lap(&mut self) -> Option<u64> {
        let since = self.0?;
        let now = monotonic_ns();
        self.0 = Some(now);
        Some(now.saturating_sub(since))
    }

    /// Counts how long it was until now, if it is timed.
    #[inline]
    pub(super) fn over(self, times: Times<'_>, what: Timed) {
        if let Some(since) = self.0 {
            record_since(times, what, since);
        }
    }

    /// Counts a time, if there is one.
    #[inline]
    pub(super) fn record(&self, times: Times<'_>, what: Timed, ns: Option<u64>) {
        if let Some(ns) = ns {
            times.record(what, ns);
        }
    }
}

/// By itself, as is what follows: the kernel's part of a call leaves little of ours in the processor's caches, so what most calls do is to lie together.
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

/// A sync of an absorbed file that goes below all the same: two in a row, so that the second has its own bytes alone to bring down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shadow {
    /// It does not.
    No,
    /// It brings down what others left.
    First,
    /// It is what a sync costs below.
    Second,
}

/// A first one was, and no second yet; below that bit is what it took.
const HALF_WAY: u64 = 1 << 63;

impl Shadow {
    /// Of a sync that is counted already.
    #[inline]
    pub(super) fn due(counters: Counters<'_>, now_ns: u64) -> Self {
        let again_ns = || counters.get(Counted::ShadowAgainNs);
        match counters.get(Counted::Syncs) % SHADOW_ONE_IN {
            0 if again_ns() & HALF_WAY != 0 || now_ns >= again_ns() => Self::First,
            1 if again_ns() & HALF_WAY != 0 => Self::Second,
            _ => Self::No,
        }
    }

    /// Whether it goes below whatever the log has.
    #[inline]
    pub(super) fn goes_below(self) -> bool {
        self != Self::No
    }

    /// The sync that began at `began_ns` is over: it is what its level takes, or says when the next may go below.
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
                // The first is the longer one by far where a thousand syncs leave much to bring down.
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

    use crate::table::{BOARD_BYTES, Board, FileKey};
    use byway_sys::Mapping;

    use super::*;

    const SLOW_NS: u64 = 10_000_000;

    #[test]
    fn no_pair_follows_sooner_than_both_of_the_last_one_are_paid_for() {
        let board = Board::make(Mapping::anonymous(BOARD_BYTES).unwrap()).unwrap();
        let file = tempfile::tempfile().unwrap();
        let entry = board.find_or_make(FileKey::of(&file).unwrap().unwrap().key).unwrap().unwrap();
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
