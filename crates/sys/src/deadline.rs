//! When waiting ends.

use std::time::{Duration, Instant};

/// The end of a wait, which may be never: a time so long that no clock tells it.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So much later than now.
    #[must_use]
    #[inline]
    pub fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    /// What is left until then; nothing once it has passed.
    #[must_use]
    #[inline]
    pub fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether it has passed.
    #[must_use]
    #[inline]
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_clock_tells_is_never_over() {
        let never = Deadline::after(Duration::MAX);
        assert_eq!((never.left(), never.is_over()), (Duration::MAX, false));
    }

    #[test]
    fn no_time_is_over_at_once() {
        assert!(Deadline::after(Duration::ZERO).is_over());
    }
}
