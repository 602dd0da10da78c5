//! Time that commands waited for work beside their own, by cause.
//!
//! Measured in real time, with two readings of the clock for each piece of such work. A command without any reads no clock.

use byway_sys::time::monotonic_ns;

/// Work that ends faster is not counted: reading the clock takes a tenth of it.
const LEAST_NS: u64 = 1000;

/// What a command waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// A full memtable: a put waits until the one before it is written to flash.
    Freeze,
    /// A share of writing memtables to flash and of merging runs.
    Flush,
    /// Log compaction: a share of it, or all that a put needs to have a free segment.
    Compaction,
    /// Garbage collection, wear levelling and refresh of flash blocks.
    GarbageCollection,
    /// A sync of the image: `flush=media`, Flush, and the sync points that power loss requires.
    Sync,
    /// The device's run lock, held by another thread.
    Lock,
    /// A completion queue without room: the host takes completions too slowly.
    FullRing,
}

impl StallCause {
    /// All causes, in the order of their values.
    pub const ALL: [Self; 7] = [
        Self::Freeze,
        Self::Flush,
        Self::Compaction,
        Self::GarbageCollection,
        Self::Sync,
        Self::Lock,
        Self::FullRing,
    ];

    /// Its name in log pages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::GarbageCollection => "gc",
            Self::Sync => "sync",
            Self::Lock => "lock",
            Self::FullRing => "full_ring",
        }
    }
}

/// Waits for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Waits of a microsecond and more.
    pub count: u64,
    /// Time of all together in nanoseconds.
    pub total_ns: u64,
    /// Longest wait in nanoseconds.
    pub longest_ns: u64,
}

impl Stall {
    /// Adds one that took `waited_ns`.
    pub fn note(&mut self, waited_ns: u64) {
        self.count += 1;
        self.total_ns += waited_ns;
        self.longest_ns = self.longest_ns.max(waited_ns);
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Waits by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    by_cause: [Stall; StallCause::ALL.len()],
    total_ns: u64,
}

impl Stalls {
    /// Notes a wait; one of less than a microsecond is not counted.
    pub fn note(&mut self, cause: StallCause, waited_ns: u64) {
        if waited_ns >= LEAST_NS {
            self.by_cause[cause as usize].note(waited_ns);
            self.total_ns += waited_ns;
        }
    }

    /// Waits for `cause`.
    #[must_use]
    pub const fn of(&self, cause: StallCause) -> &Stall {
        &self.by_cause[cause as usize]
    }

    /// Each cause with its waits.
    pub fn rows(&self) -> impl Iterator<Item = (StallCause, &Stall)> {
        StallCause::ALL.into_iter().zip(&self.by_cause)
    }

    /// Time of all waits in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Waits that were noted since `earlier`, a copy made before. The longest of several for one cause is taken to be all of
    /// them together.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self { total_ns: self.total_ns - earlier.total_ns, ..Self::default() };
        for ((one, now), before) in since.by_cause.iter_mut().zip(&self.by_cause).zip(&earlier.by_cause) {
            let total_ns = now.total_ns - before.total_ns;
            *one = Stall { count: now.count - before.count, total_ns, longest_ns: total_ns };
        }
        since
    }

    /// Adds the waits of another.
    pub fn add(&mut self, other: &Self) {
        self.by_cause.iter_mut().zip(&other.by_cause).for_each(|(one, other)| one.add(other));
        self.total_ns += other.total_ns;
    }
}

/// A wait that began, beside what is counted elsewhere meanwhile.
#[derive(Clone, Copy, Debug)]
#[must_use = "a wait is counted when it ends"]
pub struct StallTimer {
    started_ns: u64,
    counted_ns: u64,
}

impl StallTimer {
    /// A wait begins, at a time when waits of `counted_ns` are counted elsewhere.
    pub fn start(counted_ns: u64) -> Self {
        Self { started_ns: monotonic_ns(), counted_ns }
    }

    /// How long it took without what was counted elsewhere since: `counted_ns` now.
    #[must_use]
    pub fn stop(self, counted_ns: u64) -> u64 {
        let took_ns = monotonic_ns().saturating_sub(self.started_ns);
        took_ns.saturating_sub(counted_ns.saturating_sub(self.counted_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_sum_up_by_cause_and_keep_the_longest() {
        let (mut one, mut other) = (Stalls::default(), Stalls::default());
        one.note(StallCause::Sync, 5000);
        one.note(StallCause::Sync, 2000);
        one.note(StallCause::Flush, LEAST_NS - 1);
        other.note(StallCause::Sync, 9000);
        one.add(&other);
        let expected = Stall { count: 3, total_ns: 16_000, longest_ns: 9000 };
        assert_eq!(*one.of(StallCause::Sync), expected);
        assert_eq!(*one.of(StallCause::Flush), Stall::default());
        assert_eq!(one.total_ns(), 16_000);
    }

    #[test]
    fn stall_causes_stand_in_the_order_of_their_values() {
        for (value, cause) in StallCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, value);
        }
    }

    #[test]
    fn stall_timer_leaves_out_what_was_counted_elsewhere() {
        let timer = StallTimer::start(10);
        assert_eq!(timer.stop(u64::MAX), 0);
    }
}
