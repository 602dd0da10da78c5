//! How a file is served: words that calls look at with its lock and without.
//!
//! A call at PASS is the kernel's alone, and nothing is held meanwhile: it looks at the level behind what the kernel did. A log begins suspended, and its level is
//! stored behind that. So whoever sees the old level has written before any sync by that log begins, and the first of these is a real one; whoever sees the new
//! one suspends it once more, and a real sync that is under way does not cover that. The kernel's own locks order its writes and syncs.

use crate::log::{Cursor, Position, RingPlace};
use byway_tdm_policy::Level;

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::attributes::Attributes;
use crate::table::level::{Standing, Why};

/// The words of an entry that say so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served<'b> {
    pub(super) standing: &'b AtomicU64,
    /// Place, length and identity of the ring: stored before a level that has one, so who loads that level and then these has them whole.
    pub(super) ring: &'b [AtomicU64; 3],
    pub(super) cursor: Cursor<'b>,
    pub(super) attributes: Attributes<'b>,
}

impl Served<'_> {
    #[inline]
    pub(super) fn standing(&self) -> Standing {
        Standing::from_word(self.standing.load(Ordering::SeqCst))
    }

    pub(super) fn move_to(&self, level: Level, why: Why) -> bool {
        // Nobody has said what was changed of it while the kernel alone served it.
        self.attributes.change();
        self.change(|standing| match standing.is_barred {
            false => Some(Standing { level, why, is_barred: false }),
            true => (level == Level::Pass).then_some(Standing { level, ..standing }),
        })
    }

    pub(super) fn explain(&self, why: Why) {
        self.change(|standing| {
            let is_open = standing.level == Level::Pass && !standing.is_barred;
            is_open.then_some(Standing { why, ..standing })
        });
    }

    pub(super) fn bar(&self, why: Why) {
        self.cursor.suspend();
        self.change(|standing| Some(Standing { why, is_barred: true, ..standing }));
    }

    pub(super) fn unbar(&self) {
        self.change(|standing| Some(Standing { is_barred: false, ..standing }));
    }

    fn change(&self, change: impl Fn(Standing) -> Option<Standing>) -> bool {
        let change = |word| change(Standing::from_word(word)).map(Standing::to_word);
        self.standing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
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
        self.standing().level == Level::Absorb && self.ring() == ring
    }

    #[inline]
    pub(super) fn level(&self) -> Level {
        Standing::level_of(self.standing.load(Ordering::SeqCst))
    }

    #[inline]
    pub(super) fn look_again(&self) {
        if self.level() != Level::Pass {
            begun_meanwhile(self.cursor);
        }
    }

    pub(super) fn begin_log(&self, ring: RingPlace, why: Why) -> bool {
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
