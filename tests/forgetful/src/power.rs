//! Power that goes at a chosen event, for everything that hangs on it at once.

use std::cell::Cell;

/// Counts events down to the one at which the power goes. What happens from there on does not.
#[derive(Debug)]
pub struct Power {
    left: Cell<u64>,
    events: Cell<u64>,
}

impl Power {
    /// Power that goes at the event with this number, the first being 0.
    #[must_use]
    pub const fn until(event: u64) -> Self {
        Self { left: Cell::new(event), events: Cell::new(0) }
    }

    /// Power that stays.
    #[must_use]
    pub const fn stays() -> Self {
        Self::until(u64::MAX)
    }

    /// Whether the next event happens.
    pub fn event(&self) -> bool {
        let Some(left) = self.left.get().checked_sub(1) else { return false };
        self.left.set(left);
        self.events.set(self.events.get() + 1);
        true
    }

    /// Whether it is gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.left.get() == 0
    }

    /// Events that happened.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.get()
    }
}
