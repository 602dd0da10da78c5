//! Marks of system calls in flight: one cache line for each thread.
//!
//! A file is not promoted while a call on it is in flight. Counting calls in one shared word would cost two locked instructions each; here a
//! thread stores into a line of its own. The daemon orders that store before the thread's load of the level by a barrier for all processors,
//! between storing the level and reading the marks: the thread sees the new level, or the daemon sees the mark
//! ([decision 55](../../../../../docs/decisions/0055-marking-system-calls-in-flight.md)).

use crate::table::atomic::{AtomicU64, Ordering, light_fence};
use crate::table::index::EntryIndex;

/// Marks of one user's threads. Further threads count their calls.
pub(super) const MARKS: usize = 2048;

/// Bytes of a mark: one cache line.
pub(super) const MARK_BYTES: usize = 64;

/// Marks that a thread tries to claim.
const LOOKS: usize = 64;

const OWNER: usize = 0;
const CALL: usize = 1;

/// Words of a mark.
pub(super) const MARK_WORDS: usize = 2;

/// Index of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkPlace(pub u32);

/// One thread's mark: its thread number, and the file of its call in flight.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'b>(pub(super) &'b [AtomicU64; MARK_WORDS]);

impl Mark<'_> {
    /// Begins a call; the caller loads the level afterwards. `false` if a call is in flight already, which this signal handler interrupted.
    #[inline]
    #[must_use]
    pub fn set(&self, entry: EntryIndex) -> bool {
        if self.0[CALL].load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.0[CALL].store(call_of(entry), Ordering::Relaxed);
        light_fence();
        true
    }

    /// Ends the call.
    #[inline]
    pub fn clear(&self) {
        self.0[CALL].store(0, Ordering::Release);
    }

    /// Claims a free mark, or one of an earlier thread with the same number.
    fn claim(&self, thread: u32) -> bool {
        let claimed = self.0[OWNER].compare_exchange(0, thread.into(), Ordering::AcqRel, Ordering::Acquire);
        let is_mine = claimed.is_ok() || claimed == Err(thread.into());
        if is_mine {
            self.clear();
        }
        is_mine
    }

    /// Claims a mark whose thread is dead.
    fn inherit(&self, thread: u32, is_there: impl Fn(u32) -> bool) -> bool {
        let owner = self.0[OWNER].load(Ordering::Acquire);
        if is_there(owner as u32) {
            return false;
        }
        let taken =
            self.0[OWNER].compare_exchange(owner, thread.into(), Ordering::AcqRel, Ordering::Acquire).is_ok();
        if taken {
            self.clear();
        }
        taken
    }

    /// Whether a live thread has a call in flight on that file.
    fn is_of(&self, entry: EntryIndex, is_there: impl Fn(u32) -> bool) -> bool {
        self.0[CALL].load(Ordering::Acquire) == call_of(entry)
            && is_there(self.0[OWNER].load(Ordering::Acquire) as u32)
    }
}

const fn call_of(entry: EntryIndex) -> u64 {
    entry.0 as u64 + 1
}

/// All marks of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<F>(pub(super) F);

impl<'b, F: Fn(usize) -> Option<Mark<'b>>> Marks<F> {
    /// Claims a mark for a thread. `None` if those near its hash are taken.
    pub(super) fn claim(&self, thread: u32, is_there: impl Fn(u32) -> bool) -> Option<MarkPlace> {
        let near = || (0..LOOKS).map(|look| (thread as usize + look) % MARKS);
        let take = |place: &usize| self.0(*place).is_some_and(|mark| mark.claim(thread));
        let inherit = |place: &usize| self.0(*place).is_some_and(|mark| mark.inherit(thread, &is_there));
        near().find(take).or_else(|| near().find(inherit)).map(|place| MarkPlace(place as u32))
    }

    /// Whether any live thread has a call in flight on that file. The caller has run the barrier.
    pub(super) fn has(&self, entry: EntryIndex, is_there: impl Fn(u32) -> bool) -> bool {
        (0..MARKS).filter_map(&self.0).any(|mark| mark.is_of(entry, &is_there))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn places() -> Vec<[AtomicU64; MARK_WORDS]> {
        (0..MARKS).map(|_| [const { AtomicU64::new(0) }; MARK_WORDS]).collect()
    }

    fn marks<'p>(places: &'p [[AtomicU64; MARK_WORDS]]) -> Marks<impl Fn(usize) -> Option<Mark<'p>>> {
        Marks(|place: usize| places.get(place).map(Mark))
    }

    const EVERYBODY: fn(u32) -> bool = |_| true;

    #[test]
    fn marked_call_is_in_flight_until_cleared() {
        let places = places();
        let marks = marks(&places);
        let mine = marks.claim(7, EVERYBODY).unwrap();
        let mark = marks.0(mine.0 as usize).unwrap();
        assert!(mark.set(EntryIndex(3)));
        assert!(marks.has(EntryIndex(3), EVERYBODY) && !marks.has(EntryIndex(2), EVERYBODY));
        mark.clear();
        assert!(!marks.has(EntryIndex(3), EVERYBODY));
    }

    #[test]
    fn signal_handlers_call_keeps_the_interrupted_mark() {
        let places = places();
        let marks = marks(&places);
        let mine = marks.claim(7, EVERYBODY).unwrap();
        let mark = marks.0(mine.0 as usize).unwrap();
        assert!(mark.set(EntryIndex(3)) && !mark.set(EntryIndex(4)));
        assert!(marks.has(EntryIndex(3), EVERYBODY));
    }

    #[test]
    fn threads_claim_distinct_marks_until_none_is_near() {
        let places = places();
        let marks = marks(&places);
        let near: Vec<_> =
            (0..LOOKS as u32).map(|look| marks.claim(5 + look * MARKS as u32, EVERYBODY)).collect();
        assert!(near.iter().enumerate().all(|(n, place)| *place == Some(MarkPlace(5 + n as u32))));
        assert_eq!(marks.claim(5 + 1000 * MARKS as u32, EVERYBODY), None);
    }

    #[test]
    fn mark_of_a_killed_thread_is_void_and_reused() {
        let places = places();
        let marks = marks(&places);
        let near: Vec<u32> = (0..LOOKS as u32).map(|look| 5 + look * MARKS as u32).collect();
        assert!(near.iter().all(|thread| marks.claim(*thread, EVERYBODY).is_some()));
        let dead = near[9];
        let place = MarkPlace(5 + 9);
        assert!(marks.0(place.0 as usize).unwrap().set(EntryIndex(3)));
        assert!(!marks.has(EntryIndex(3), |thread| thread != dead));
        assert_eq!(marks.claim(5 + 1000 * MARKS as u32, |thread| thread != dead), Some(place));
        assert!(!marks.has(EntryIndex(3), EVERYBODY));
    }

    #[test]
    fn thread_with_a_reused_number_begins_without_a_call() {
        let places = places();
        let marks = marks(&places);
        let place = marks.claim(7, EVERYBODY).unwrap();
        assert!(marks.0(place.0 as usize).unwrap().set(EntryIndex(3)));
        assert_eq!(marks.claim(7, EVERYBODY), Some(place));
        assert!(!marks.has(EntryIndex(3), EVERYBODY));
    }
}
