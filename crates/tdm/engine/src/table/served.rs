//! Level and ring of a file, read with and without its lock.
//!
//! A call at PASS takes no lock and loads the level after the kernel's work. A log begins suspended and its level is stored after that. So a call
//! that loads the old level has written before any sync by that log begins, and the first of these is a real one. A call that loads the new
//! level suspends the log again, which a real sync in flight does not cover. The kernel's locks order its own writes and syncs.

use crate::log::{Cursor, Position, RingPlace};
use byway_tdm_policy::{Level, Reason};

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::attributes::Attributes;
use crate::table::level::LevelState;

/// The words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served<'b> {
    pub(super) level_state: &'b AtomicU64,
    /// Place, length and identity of the ring. Stored before the level, so a thread that loads the level sees them whole.
    pub(super) ring: &'b [AtomicU64; 3],
    pub(super) cursor: Cursor<'b>,
    pub(super) attributes: Attributes<'b>,
}

impl Served<'_> {
    #[inline]
    pub(super) fn level_state(&self) -> LevelState {
        LevelState::from_word(self.level_state.load(Ordering::SeqCst))
    }

    pub(super) fn move_to(&self, level: Level, why: Reason) -> bool {
        // Changes at PASS were not recorded.
        self.attributes.change();
        self.change(|level_state| match level_state.is_barred {
            false => Some(LevelState { level, why, is_barred: false }),
            true => (level == Level::Pass).then_some(LevelState { level, ..level_state }),
        })
    }

    pub(super) fn explain(&self, why: Reason) {
        self.change(|level_state| {
            let is_open = level_state.level == Level::Pass && !level_state.is_barred;
            is_open.then_some(LevelState { why, ..level_state })
        });
    }

    pub(super) fn bar(&self, why: Reason) {
        self.cursor.suspend();
        self.change(|level_state| Some(LevelState { why, is_barred: true, ..level_state }));
    }

    pub(super) fn unbar(&self) {
        self.change(|level_state| Some(LevelState { is_barred: false, ..level_state }));
    }

    fn change(&self, change: impl Fn(LevelState) -> Option<LevelState>) -> bool {
        let change = |word| change(LevelState::from_word(word)).map(LevelState::to_word);
        self.level_state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
    }

    #[inline]
    pub(super) fn ring(&self) -> RingPlace {
        let [at, len_bytes, identity] = [0, 1, 2].map(|word: usize| self.ring[word].load(Ordering::Acquire));
        RingPlace { at, len_bytes, identity }
    }

    pub(super) fn set_ring(&self, ring: RingPlace) {
        for (word, value) in self.ring.iter().zip([ring.at, ring.len_bytes, ring.identity]) {
            word.store(value, Ordering::Release);
        }
    }

    pub(super) fn is_logged_in(&self, ring: RingPlace) -> bool {
        self.level() == Level::Absorb && self.ring() == ring
    }

    #[inline]
    pub(super) fn level(&self) -> Level {
        LevelState::level_of(self.level_state.load(Ordering::SeqCst))
    }

    #[inline]
    pub(super) fn look_again(&self) {
        if self.level() != Level::Pass {
            begun_meanwhile(self.cursor);
        }
    }

    pub(super) fn begin_log(&self, ring: RingPlace, why: Reason) -> bool {
        self.set_ring(ring);
        self.cursor.begin(Position(0));
        self.move_to(Level::Absorb, why)
    }
}

#[cold]
#[inline(never)]
fn begun_meanwhile(cursor: Cursor<'_>) {
    cursor.suspend();
}
