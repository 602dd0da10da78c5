//! Exponential backoff of a level that cost more than it saved.

use crate::reason::Reason;

/// First wait.
const FIRST_NS: u64 = 4_000_000_000;

/// Longest wait.
const LONGEST_NS: u64 = 600_000_000_000;

/// A stay this many times as long as the last wait resets the backoff.
const MADE_UP: u64 = 8;

/// A doubling wait.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    strikes: u32,
    until_ns: u64,
}

impl Backoff {
    /// A move failed or lost, after a stay of `well_ns` nanoseconds.
    pub(crate) fn strike(&mut self, now_ns: u64, well_ns: u64) {
        if well_ns > MADE_UP * length_ns(self.strikes.saturating_sub(1)) {
            self.strikes = 0;
        }
        self.until_ns = now_ns.saturating_add(length_ns(self.strikes));
        self.strikes = self.strikes.saturating_add(1);
    }

    /// Why the level is not tried now, if it must wait.
    pub(crate) fn reason(&self, now_ns: u64) -> Option<Reason> {
        let left_ns = self.left_ns(now_ns);
        (left_ns > 0).then_some(Reason::BackingOff { left_ns, strikes: self.strikes })
    }

    /// Nanoseconds left to wait.
    pub(crate) const fn left_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.saturating_sub(now_ns)
    }
}

fn length_ns(strikes: u32) -> u64 {
    FIRST_NS.checked_shl(strikes.min(16)).map_or(LONGEST_NS, |ns| ns.min(LONGEST_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_10_min_and_resets_after_a_long_stay() {
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            backoff.strike(0, 0);
            waits.push(backoff.left_ns(0) / 1_000_000_000);
        }
        assert_eq!(waits[..4], [4, 8, 16, 32]);
        assert_eq!(waits[11], 600);
        backoff.strike(0, 8 * LONGEST_NS + 1);
        assert_eq!(backoff.left_ns(0), FIRST_NS);
    }
}
