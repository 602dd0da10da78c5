//! Polls for completions for some microseconds before sleeping, where that has paid lately.
//!
//! Falling asleep and being woken costs some microseconds of a processor. A completion that comes
//! sooner is better polled for; a later one costs as much again at most, and ends the polling. Only a poll shows whether polling
//! pays (a sleep lasts at least as long as the waking): it is tried every so many sleeps, more rarely after each empty poll.

use std::time::Duration;

use crate::spin::Spin;

/// How long it is looked for: about what falling asleep and being woken costs.
const LOOK: Duration = Duration::from_micros(4);

/// Pauses of the processor between two looks at the clock.
const PAUSES: u32 = 16;

/// From this many points on it is worth looking.
const WORTH_FROM: u8 = 4;

/// The most points.
const POINTS_MAX: u8 = 8;

/// Of so many sleeps one is replaced by a look, where it is not worth it: at first, and at last.
const TRIED_EVERY: [u16; 2] = [16, 1024];

/// Whether looking is worth it.
#[derive(Debug)]
pub(crate) struct Eager {
    points: u8,
    /// Sleeps before polling is tried again, and how many before the next trial if that poll is empty.
    left: u16,
    every: u16,
}

impl Default for Eager {
    fn default() -> Self {
        let [every, _] = TRIED_EVERY;
        Self { points: 0, left: every, every }
    }
}

impl Eager {
    /// Whether to look before sleeping: it has been worth it lately, or is to be tried.
    #[inline]
    pub(crate) fn tries(&mut self) -> bool {
        if self.points >= WORTH_FROM {
            return true;
        }
        if self.left > 1 {
            self.left -= 1;
            return false;
        }
        self.left = self.every;
        true
    }

    /// Asks `there` again and again until it says yes, or the time for it is over; says which. Between two questions the
    /// processor pauses so often, at most [`PAUSES`]: to ask may cost more than a look at memory.
    #[inline]
    pub(crate) fn look(&mut self, pauses: u32, mut there: impl FnMut() -> bool) -> bool {
        if there() {
            return true;
        }
        let pauses = pauses.clamp(1, PAUSES);
        let mut spin = Spin::lasting(LOOK, PAUSES / pauses);
        let mut found = false;
        while !found && spin.again() {
            (1..pauses).for_each(|_| std::hint::spin_loop());
            found = there();
        }
        self.learn(found);
        found
    }

    fn learn(&mut self, found: bool) {
        let [first, last] = TRIED_EVERY;
        (self.points, self.every) = match found {
            true => ((self.points + 2).min(POINTS_MAX), first),
            false => (self.points.saturating_sub(2), (self.every * 2).min(last)),
        };
        self.left = self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks for what is there when it is asked the third time.
    fn third(eager: &mut Eager) -> bool {
        let mut asked = 0;
        eager.look(1, || {
            asked += 1;
            asked == 3
        })
    }

    #[test]
    fn eager_polling_stops_when_polls_stay_empty() {
        let mut eager = Eager::default();
        assert!((0..2).all(|_| third(&mut eager)));
        assert!((0..100).all(|_| eager.tries()));
        let looks = (0..100).take_while(|_| !eager.look(1, || false) && eager.points >= WORTH_FROM).count();
        assert!(looks < 3, "it ends");
    }

    #[test]
    fn unsuccessful_polling_is_retried_ever_more_rarely() {
        let mut eager = Eager::default();
        let tries =
            |eager: &mut Eager| (0..10_000).filter(|_| eager.tries() && !eager.look(1, || false)).count();
        assert_eq!(tries(&mut eager), 14, "after 16, 32, 64 sleeps and so on, up to 1,024");
        assert!(third(&mut eager));
        assert!((0..15).all(|_| !eager.tries()) && eager.tries(), "it has paid: 16 again");
    }
}
