//! A power supply that fails at a chosen event, for everything connected to it.

use std::cell::Cell;
use std::ops::Range;

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

/// Runs `history` for each seed, with the power lost at each of its events in turn, until the history ends before the
/// event. `history` returns whether the power was lost. Returns how often it was.
///
/// # Errors
///
/// The first thing that was broken, with the seed and the event that break it again.
pub fn every_cut(
    seeds: Range<u64>,
    mut history: impl FnMut(u64, u64) -> Result<bool, String>,
) -> Result<u64, String> {
    let mut cuts = 0;
    for seed in seeds {
        for event in 0.. {
            let was_cut =
                history(seed, event).map_err(|broken| format!("seed {seed}, event {event}: {broken}"))?;
            if !was_cut {
                break;
            }
            cuts += 1;
        }
    }
    Ok(cuts)
}
