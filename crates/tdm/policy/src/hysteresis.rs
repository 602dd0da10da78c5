//! How many windows in a row a file was hot, cold or a loss.

use crate::averages::FAST_NS;
use crate::level::Level;
use crate::outlook::Outlook;

/// Windows that a level has to pay in a row.
pub(crate) const PROMOTE_WINDOWS: u32 = 2;

/// Windows in which a file has to be cold.
pub(crate) const DEMOTE_WINDOWS: u32 = 5;

/// Windows in which its level has to cost more than it saves.
pub(crate) const LOSS_WINDOWS: u32 = 3;

/// Streaks, by windows of a second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Streaks {
    begun_ns: u64,
    absorb_pays: u32,
    dax_pays: u32,
    cold: u32,
    loses: u32,
}

impl Streaks {
    pub(crate) fn begin(now_ns: u64) -> Self {
        Self { begun_ns: now_ns, ..Self::default() }
    }

    /// Judges the window that has ended, if one has.
    pub(crate) fn judge(&mut self, now_ns: u64, level: Level, outlook: &Outlook) {
        if now_ns.saturating_sub(self.begun_ns) < FAST_NS {
            return;
        }
        self.begun_ns = now_ns;
        let here = outlook.of(level);
        extend(&mut self.absorb_pays, outlook.absorb.pays());
        extend(&mut self.dax_pays, outlook.dax.pays());
        extend(&mut self.cold, level > Level::Pass && here.is_cold());
        extend(&mut self.loses, level > Level::Pass && here.loses());
    }

    /// For how many windows that level would have paid.
    pub(crate) const fn pays(&self, level: Level) -> u32 {
        match level {
            Level::Dax => self.dax_pays,
            Level::Pass | Level::Absorb => self.absorb_pays,
        }
    }

    pub(crate) const fn is_cold(&self) -> bool {
        self.cold >= DEMOTE_WINDOWS
    }

    pub(crate) const fn loses(&self) -> bool {
        self.loses >= LOSS_WINDOWS
    }
}

const fn extend(streak: &mut u32, goes_on: bool) {
    *streak = if goes_on { streak.saturating_add(1) } else { 0 };
}
