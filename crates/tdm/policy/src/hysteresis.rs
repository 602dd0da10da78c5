//! Hysteresis: consecutive windows in which a file was hot, cold or at a loss.

use crate::averages::FAST_NS;
use crate::estimate::CostEstimate;
use crate::level::Level;

/// Windows in which a level must pay before a promotion.
pub(crate) const PROMOTE_WINDOWS: u32 = 2;

/// Windows in which a file must be cold before a demotion.
pub(crate) const DEMOTE_WINDOWS: u32 = 5;

/// Windows in which its level must cost more than it saves.
pub(crate) const LOSS_WINDOWS: u32 = 3;

/// Counters of consecutive windows of 1 s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hysteresis {
    begun_ns: u64,
    absorb_pays: u32,
    dax_pays: u32,
    cold: u32,
    loses: u32,
}

impl Hysteresis {
    pub(crate) fn begin(now_ns: u64) -> Self {
        Self { begun_ns: now_ns, ..Self::default() }
    }

    /// Counts a window that has ended.
    pub(crate) fn evaluate(&mut self, now_ns: u64, level: Level, estimate: &CostEstimate) {
        if now_ns.saturating_sub(self.begun_ns) < FAST_NS {
            return;
        }
        self.begun_ns = now_ns;
        let here = estimate.of(level);
        extend(&mut self.absorb_pays, estimate.absorb.pays());
        extend(&mut self.dax_pays, estimate.dax.pays());
        extend(&mut self.cold, level > Level::Pass && here.is_cold());
        extend(&mut self.loses, level > Level::Pass && here.loses());
    }

    /// Windows in which that level would have paid.
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

const fn extend(windows: &mut u32, goes_on: bool) {
    *windows = if goes_on { windows.saturating_add(1) } else { 0 };
}
