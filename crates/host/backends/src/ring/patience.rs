//! How long somebody waits.

use std::time::{Duration, Instant};

/// From here on nobody tells a wait from one without end, which asks for no time and sets no timer.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A wait that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    timeout: Duration,
    /// When it began, if it has an end.
    begun: Option<Instant>,
}

impl Patience {
    /// A wait of `timeout` that begins now.
    #[inline]
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, begun: (timeout < FOREVER).then(Instant::now) }
    }

    /// All of it; `None` for ever.
    #[inline]
    pub(crate) fn first(self) -> Option<Duration> {
        self.begun.map(|_| self.timeout)
    }

    /// What is left of it; `None` for ever.
    pub(crate) fn left(self) -> Option<Duration> {
        self.left_and(Duration::ZERO)
    }

    /// What is left of it and `more`; `None` for ever.
    pub(crate) fn left_and(self, more: Duration) -> Option<Duration> {
        self.begun.map(|begun| (self.timeout + more).saturating_sub(begun.elapsed()))
    }
}
