//! How long a level that disappointed is not tried again.

/// After the first time.
const FIRST_NS: u64 = 4_000_000_000;

/// At most.
const LONGEST_NS: u64 = 600_000_000_000;

/// Who stayed so many times as long as the last wait has made up for it.
const MADE_UP: u64 = 8;

/// A wait that doubles.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    pub(crate) strikes: u32,
    until_ns: u64,
}

impl Backoff {
    /// It went wrong after it had gone well for so long.
    pub(crate) fn strike(&mut self, now_ns: u64, well_ns: u64) {
        if well_ns > MADE_UP * length_ns(self.strikes.saturating_sub(1)) {
            self.strikes = 0;
        }
        self.until_ns = now_ns.saturating_add(length_ns(self.strikes));
        self.strikes = self.strikes.saturating_add(1);
    }

    /// What is left to wait.
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
    fn a_wait_doubles_up_to_ten_minutes_and_is_short_again_after_a_good_time() {
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
