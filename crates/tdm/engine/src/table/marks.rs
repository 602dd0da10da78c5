//! Which calls of the kernel are under way, as the threads that make them say: a place on the board for each.
//!
//! A file does not come home while one is. A word that all threads count in and out costs each call two locked instructions;
//! here a thread stores into a line of its own. What orders that store before the thread's look at the level is the barrier that
//! the daemon has every processor pass, between moving the level and looking at the marks: either the thread sees that the file comes home, or
//! the daemon sees the mark.

use crate::table::atomic::{AtomicU64, Ordering, light_fence};
use crate::table::index::EntryIndex;

/// Threads of a user that have a place at a time: the others count.
pub(super) const MARKS: usize = 2048;

/// A line for each: no thread waits for another one's.
pub(super) const MARK_BYTES: usize = 64;

/// Places that a thread looks at before it goes without.
const LOOKS: usize = 64;

const OWNER: usize = 0;
const CALL: usize = 1;

/// Words of a place.
pub(super) const MARK_WORDS: usize = 2;

/// Which place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkPlace(pub u32);

/// A thread's place: whose it is, and the file of the call that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'b>(pub(super) &'b [AtomicU64; MARK_WORDS]);

impl Mark<'_> {
    /// A call of a file's begins; whoever begins looks at the level behind this. Not where this thread has another one under way, as a signal
    /// handler finds it that interrupted one.
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

    /// It ends.
    #[inline]
    pub fn clear(&self) {
        self.0[CALL].store(0, Ordering::Release);
    }

    /// Has it be a thread's, if it is nobody's, or that of one before who had the same number: whatever he did is over.
    fn claim(&self, thread: u32) -> bool {
        let claimed = self.0[OWNER].compare_exchange(0, thread.into(), Ordering::AcqRel, Ordering::Acquire);
        let is_mine = claimed.is_ok() || claimed == Err(thread.into());
        if is_mine {
            self.clear();
        }
        is_mine
    }

    /// The same of a place whose thread is gone.
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

    /// Whether a thread that is there has a call of that file under way.
    fn is_of(&self, entry: EntryIndex, is_there: impl Fn(u32) -> bool) -> bool {
        self.0[CALL].load(Ordering::Acquire) == call_of(entry)
            && is_there(self.0[OWNER].load(Ordering::Acquire) as u32)
    }
}

const fn call_of(entry: EntryIndex) -> u64 {
    entry.0 as u64 + 1
}

/// All places of a board.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<F>(pub(super) F);

impl<'b, F: Fn(usize) -> Option<Mark<'b>>> Marks<F> {
    /// A place for a thread; `None` where there is none near where its own would be.
    pub(super) fn claim(&self, thread: u32, is_there: impl Fn(u32) -> bool) -> Option<MarkPlace> {
        let near = || (0..LOOKS).map(|look| (thread as usize + look) % MARKS);
        let take = |place: &usize| self.0(*place).is_some_and(|mark| mark.claim(thread));
        let inherit = |place: &usize| self.0(*place).is_some_and(|mark| mark.inherit(thread, &is_there));
        near().find(take).or_else(|| near().find(inherit)).map(|place| MarkPlace(place as u32))
    }

    /// Whether a call of that file is under way in any thread that is there: by whoever has passed the barrier.
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
    fn a_file_has_a_call_under_way_from_when_a_thread_marks_it_until_it_clears_that() {
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
    fn a_signal_handler_s_call_leaves_the_mark_of_the_one_that_it_interrupted() {
        let places = places();
        let marks = marks(&places);
        let mine = marks.claim(7, EVERYBODY).unwrap();
        let mark = marks.0(mine.0 as usize).unwrap();
        assert!(mark.set(EntryIndex(3)) && !mark.set(EntryIndex(4)));
        assert!(marks.has(EntryIndex(3), EVERYBODY));
    }

    #[test]
    fn threads_have_places_of_their_own_until_there_is_none_near() {
        let places = places();
        let marks = marks(&places);
        let near: Vec<_> =
            (0..LOOKS as u32).map(|look| marks.claim(5 + look * MARKS as u32, EVERYBODY)).collect();
        assert!(near.iter().enumerate().all(|(n, place)| *place == Some(MarkPlace(5 + n as u32))));
        assert_eq!(marks.claim(5 + 1000 * MARKS as u32, EVERYBODY), None);
    }

    #[test]
    fn a_thread_that_was_killed_inside_of_a_call_holds_no_file_and_its_place_is_another_s() {
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
    fn a_thread_with_a_dead_one_s_number_begins_with_nothing_under_way() {
        let places = places();
        let marks = marks(&places);
        let place = marks.claim(7, EVERYBODY).unwrap();
        assert!(marks.0(place.0 as usize).unwrap().set(EntryIndex(3)));
        assert_eq!(marks.claim(7, EVERYBODY), Some(place));
        assert!(!marks.has(EntryIndex(3), EVERYBODY));
    }
}
