//! Looking for completions a little while before sleeping, where that has been worth it lately.
//!
//! Falling asleep and being woken costs some microseconds of a processor. What comes sooner is better looked for; what
//! comes later costs as much again at most, and then is not looked for any more.

use std::time::{Duration, Instant};

/// How long it is looked for: about what falling asleep and being woken costs.
const LOOK: Duration = Duration::from_micros(4);

/// Looks between two at the clock.
const LOOKS: u32 = 16;

/// From this many points on it is worth looking.
const WORTH_FROM: u8 = 4;

/// The most points.
const POINTS_MAX: u8 = 8;

/// Of so many sleeps one is timed: the clock costs a little too.
const TIMED_EVERY: u8 = 16;

/// Whether looking is worth it.
#[derive(Debug, Default)]
pub(super) struct Eager {
    points: u8,
    sleeps: u8,
}

impl Eager {
    /// Whether it has been worth it lately.
    #[inline]
    pub(super) fn is_worth_it(&self) -> bool {
        self.points >= WORTH_FROM
    }

    /// Asks `there` again and again until it says yes, or the time for it is over; says which.
    #[inline]
    pub(super) fn look(&mut self, mut there: impl FnMut() -> bool) -> bool {
        if there() {
            return true;
        }
        let begun = Instant::now();
        loop {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if there() {
                    self.came(Duration::ZERO);
                    return true;
                }
            }
            let looked = begun.elapsed();
            if looked > LOOK {
                self.came(looked);
                return false;
            }
        }
    }

    /// When a sleep begins, if it is one to be timed.
    #[inline]
    pub(super) fn sleeps(&mut self) -> Option<Instant> {
        self.sleeps = (self.sleeps + 1) % TIMED_EVERY;
        (self.sleeps == 0).then(Instant::now)
    }

    /// Something came after so long, or did not come within it.
    #[inline]
    pub(super) fn came(&mut self, after: Duration) {
        self.points = match after > LOOK {
            true => self.points.saturating_sub(2),
            false => (self.points + 1).min(POINTS_MAX),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_after_things_came_soon_and_sleeps_after_they_did_not() {
        let mut eager = Eager::default();
        assert!(!eager.is_worth_it());
        (0..WORTH_FROM).for_each(|_| eager.came(Duration::ZERO));
        assert!(eager.is_worth_it());
        let mut asked = 0;
        let mut third = || {
            asked += 1;
            asked == 3
        };
        assert!(eager.look(&mut third));
        while eager.is_worth_it() {
            assert!(!eager.look(|| false), "it ends");
        }
    }

    #[test]
    fn few_sleeps_are_timed() {
        let mut eager = Eager::default();
        let timed = (0..160).filter(|_| eager.sleeps().is_some()).count();
        assert_eq!(timed, 10);
    }
}
