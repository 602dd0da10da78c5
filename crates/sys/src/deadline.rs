//! When waiting ends.

use std::time::{Duration, Instant};

/// Waits of this length or longer have no timeout: they set no timer.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// The end of a wait that has begun, which may be never: a time beyond the range of the clock.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    timeout: Duration,
    /// When the wait began, if it has an end.
    begun: Option<Instant>,
}

impl Deadline {
    /// So much later than now.
    #[must_use]
    #[inline]
    pub fn after(timeout: Duration) -> Self {
        Self { timeout, begun: (timeout < FOREVER).then(Instant::now) }
    }

    /// All of the wait, without asking a clock; `None` for ever.
    #[must_use]
    #[inline]
    pub fn whole(self) -> Option<Duration> {
        self.begun.map(|_| self.timeout)
    }

    /// What is left of the wait, nothing once it is over; `None` for ever.
    #[must_use]
    #[inline]
    pub fn left(self) -> Option<Duration> {
        self.left_and(Duration::ZERO)
    }

    /// What is left of the wait and `more`; `None` for ever.
    #[must_use]
    #[inline]
    pub fn left_and(self, more: Duration) -> Option<Duration> {
        self.begun.map(|begun| (self.timeout + more).saturating_sub(begun.elapsed()))
    }

    /// What is left of the wait; for ever, the longest time there is.
    #[must_use]
    #[inline]
    pub fn left_or_max(self) -> Duration {
        self.left().unwrap_or(Duration::MAX)
    }

    /// Whether it is over.
    #[must_use]
    #[inline]
    pub fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_clock_is_never_over() {
        let never = Deadline::after(Duration::MAX);
        assert_eq!((never.whole(), never.left(), never.is_over()), (None, None, false));
        assert_eq!(never.left_or_max(), Duration::MAX);
    }

    #[test]
    fn no_time_is_over_at_once_but_for_what_is_added() {
        let now = Deadline::after(Duration::ZERO);
        assert!(now.is_over());
        assert!(now.left_and(Duration::from_secs(1000)).is_some_and(|left| !left.is_zero()));
    }
}
