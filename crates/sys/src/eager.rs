//! Looking for completions a little while before sleeping, where that has been worth it lately.
//!
//! Falling asleep and being woken costs some microseconds of a processor. What comes sooner is better looked for; what
//! comes later costs as much again at most, and then is not looked for any more. Whether it pays is only seen by looking
//! (a sleep takes as long as the waking): it is tried now and then.

use std::time::{Duration, Instant};

/// How long it is looked for: about what falling asleep and being woken costs.
const LOOK: Duration = Duration::from_micros(4);

/// Pauses of the processor between two looks at the clock.
const PAUSES: u32 = 16;

/// From this many points on it is worth looking.
const WORTH_FROM: u8 = 4;

/// The most points.
const POINTS_MAX: u8 = 8;

/// Of so many sleeps one is put off for a look, where it is not worth it.
const TRIED_EVERY: u8 = 16;

/// Whether looking is worth it.
#[derive(Debug, Default)]
pub(crate) struct Eager {
    points: u8,
    sleeps: u8,
}

impl Eager {
    /// Whether to look before sleeping: it has been worth it lately, or is to be tried.
    #[inline]
    pub(crate) fn tries(&mut self) -> bool {
        if self.points >= WORTH_FROM {
            return true;
        }
        self.sleeps = (self.sleeps + 1) % TRIED_EVERY;
        self.sleeps == 0
    }

    /// Asks `there` again and again until it says yes, or the time for it is over; says which. Between two questions the
    /// processor pauses so often, at most [`PAUSES`]: to ask may cost more than a look at memory.
    #[inline]
    pub(crate) fn look(&mut self, pauses: u32, mut there: impl FnMut() -> bool) -> bool {
        if there() {
            return true;
        }
        let begun = Instant::now();
        let mut found = false;
        while !found && begun.elapsed() <= LOOK {
            found = (0..PAUSES / pauses.clamp(1, PAUSES)).any(|_| {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                there()
            });
        }
        self.points = match found {
            true => (self.points + 2).min(POINTS_MAX),
            false => self.points.saturating_sub(2),
        };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_while_things_come_soon_and_sleeps_when_they_do_not() {
        let mut eager = Eager::default();
        let third = |eager: &mut Eager| {
            let mut asked = 0;
            eager.look(1, || {
                asked += 1;
                asked == 3
            })
        };
        assert!((0..2).all(|_| third(&mut eager)));
        assert!((0..100).all(|_| eager.tries()));
        let looks = (0..100).take_while(|_| !eager.look(1, || false) && eager.points >= WORTH_FROM).count();
        assert!(looks < 3, "it ends");
    }

    #[test]
    fn where_it_has_not_paid_it_is_tried_now_and_then() {
        let mut eager = Eager::default();
        assert_eq!((0..160).filter(|_| eager.tries()).count(), 10);
    }
}
