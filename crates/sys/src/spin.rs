//! Spin then park, with a fixed spin: so many polls, or so long without an arrival.
//!
//! [`SpinBudget`](crate::SpinBudget) adapts the length to how soon arrivals follow a park; the kernel's interfaces decide by
//! their own record whether to spin at all.

use std::time::{Duration, Instant};

/// The polls of a waiting thread before it parks.
///
/// ```
/// let mut spin = byway_sys::Spin::polls(100);
/// let is_ready = || false;
/// while !is_ready() && spin.again() {}
/// // Here the caller parks, unless it is ready.
/// ```
#[derive(Debug)]
pub struct Spin {
    /// Empty polls since the last arrival.
    polls: u32,
    limit: Limit,
}

#[derive(Debug)]
enum Limit {
    Polls(u32),
    /// `since` is the beginning, or the first reading of the clock after an arrival.
    Time {
        most: Duration,
        polls_per_clock: u32,
        since: Option<Instant>,
    },
}

impl Spin {
    /// At most `most` polls, without a reading of the clock.
    #[must_use]
    pub const fn polls(most: u32) -> Self {
        Self { polls: 0, limit: Limit::Polls(most) }
    }

    /// Polls for `most` without an arrival, reading the clock after every `polls_per_clock` of them.
    #[must_use]
    pub fn lasting(most: Duration, polls_per_clock: u32) -> Self {
        Self { polls: 0, limit: Limit::Time { most, polls_per_clock, since: Some(Instant::now()) } }
    }

    /// After an empty poll: pauses the processor, and says whether to poll again. If not, the caller parks.
    #[inline]
    pub fn again(&mut self) -> bool {
        std::hint::spin_loop();
        self.polls = self.polls.saturating_add(1);
        match &mut self.limit {
            Limit::Polls(most) => self.polls < *most,
            Limit::Time { most, polls_per_clock, since } => {
                !self.polls.is_multiple_of(*polls_per_clock)
                    || since.get_or_insert_with(Instant::now).elapsed() < *most
            }
        }
    }

    /// Something arrived: the spin begins anew.
    #[inline]
    pub fn restart(&mut self) {
        self.polls = 0;
        if let Limit::Time { since, .. } = &mut self.limit {
            *since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spin_of_three_polls_ends_after_the_third_and_begins_anew_after_an_arrival() {
        let mut spin = Spin::polls(3);
        assert_eq!([spin.again(), spin.again(), spin.again(), spin.again()], [true, true, false, false]);
        spin.restart();
        assert!(spin.again());
    }

    #[test]
    fn spin_of_no_time_ends_at_the_first_reading_of_the_clock() {
        let mut spin = Spin::lasting(Duration::ZERO, 4);
        assert_eq!((0..10).take_while(|_| spin.again()).count(), 3);
    }

    #[test]
    fn spin_of_long_time_goes_on_past_readings_of_the_clock() {
        let mut spin = Spin::lasting(Duration::MAX, 4);
        spin.restart();
        assert!((0..1000).all(|_| spin.again()));
    }
}
