//! Cost estimates: what a file would save at each level, and what moving it costs.

use crate::averages::{Averages, Rates, SLOW_NS};
use crate::config::Config;
use crate::cost;
use crate::level::Level;
use crate::needs;
use crate::sample::{Call, Sample};
use crate::scales::Scaled;

/// Least saving worth a move: 1/10,000 of the time.
const LEAST_NS: f64 = 100_000.0;

pub(crate) const SECOND_NS: f64 = 1e9;

/// Estimate for a level. Times are in ns of each second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelEstimate {
    /// The level.
    pub level: Level,
    /// Bytes that the file would need there.
    pub room_bytes: u64,
    /// Saving over the best level below, by the short average.
    pub saves_fast_ns: f64,
    /// Saving, by the long average.
    pub saves_slow_ns: f64,
    /// Saving needed: the move there and back, spread over the window of the long average.
    pub needs_ns: f64,
}

impl LevelEstimate {
    /// The lower of both savings.
    #[must_use]
    pub const fn sure_ns(&self) -> f64 {
        self.saves_fast_ns.min(self.saves_slow_ns)
    }

    /// The higher of both savings.
    #[must_use]
    pub const fn best_ns(&self) -> f64 {
        self.saves_fast_ns.max(self.saves_slow_ns)
    }

    /// Saving for each MiB, of a file that wants to enter.
    #[must_use]
    pub fn score(&self) -> f64 {
        a_mib(self.sure_ns(), self.room_bytes)
    }

    /// Saving for each MiB of a resident file, by the higher average: a pause does not displace it.
    #[must_use]
    pub fn score_of_resident(&self, room_bytes: u64) -> f64 {
        a_mib(self.best_ns(), room_bytes)
    }

    /// Cost of the move for each MiB.
    #[must_use]
    pub fn score_of_move(&self) -> f64 {
        a_mib(self.needs_ns, self.room_bytes)
    }

    /// Both averages reach what is needed.
    pub(crate) fn pays(&self) -> bool {
        self.sure_ns() >= self.needs_ns
    }

    /// Least saving that keeps a resident file.
    pub(crate) fn keeps_ns(&self) -> f64 {
        self.needs_ns / 4.0
    }

    /// Both averages are below that.
    pub(crate) fn is_cold(&self) -> bool {
        self.best_ns() < self.keeps_ns()
    }

    /// The level costs more than the one below, by the short average.
    pub(crate) fn loses(&self) -> bool {
        self.saves_fast_ns < -self.keeps_ns()
    }
}

/// At most a second of each second counts against other files: an absorbed file syncs far more often than it could below.
fn a_mib(ns: f64, room_bytes: u64) -> f64 {
    ns.min(SECOND_NS) * 1048576.0 / room_bytes.max(1) as f64
}

/// Estimates for a file at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostEstimate {
    pub(crate) absorb: LevelEstimate,
    pub(crate) dax: LevelEstimate,
    /// Bytes of the largest log possible.
    pub(crate) log_most_bytes: u64,
    /// Nanoseconds to log the bytes between two syncs, and of a real sync.
    pub(crate) log_a_sync_ns: f64,
    pub(crate) lower_sync_ns: f64,
}

impl CostEstimate {
    pub(crate) fn new(config: &Config, costs: &Scaled<'_>, averages: &Averages, sample: &Sample) -> Self {
        let lower_sync_ns = costs.sync_ns(Level::Pass);
        let log_bytes = needs::log_bytes(config, averages, lower_sync_ns);
        let log_most_bytes = needs::log_most_bytes(config);
        let absorbable = log_bytes <= log_most_bytes;
        let saves = |rates: &Rates| saved(costs, rates, absorbable);
        let (fast, slow) = (saves(&averages.fast), saves(&averages.slow));
        let pinned_bytes = needs::pinned_bytes(config, sample);
        let moved_bytes = needs::moved_bytes(config, sample, pinned_bytes);
        let syncs_ns = 2.0 * lower_sync_ns;
        Self {
            absorb: LevelEstimate {
                level: Level::Absorb,
                room_bytes: log_bytes,
                saves_fast_ns: fast.0,
                saves_slow_ns: slow.0,
                needs_ns: a_second(syncs_ns),
            },
            dax: LevelEstimate {
                level: Level::Dax,
                room_bytes: pinned_bytes,
                saves_fast_ns: fast.1,
                saves_slow_ns: slow.1,
                needs_ns: a_second(syncs_ns + config.moving_ns(moved_bytes)),
            },
            log_most_bytes,
            log_a_sync_ns: log_a_sync(costs, &averages.slow),
            lower_sync_ns,
        }
    }

    /// The estimate of a level that needs device memory.
    pub(crate) const fn of(&self, level: Level) -> &LevelEstimate {
        match level {
            Level::Dax => &self.dax,
            Level::Pass | Level::Absorb => &self.absorb,
        }
    }

    /// Whether its log would fit.
    pub(crate) const fn is_absorbable(&self) -> bool {
        self.absorb.room_bytes <= self.log_most_bytes
    }
}

/// A one-time cost, spread over the window of the long average.
fn a_second(once_ns: f64) -> f64 {
    (once_ns * 1e9 / SLOW_NS as f64).max(LEAST_NS)
}

/// Savings of ABSORB over PASS, and of DAX over the better of both.
fn saved(costs: &Scaled<'_>, rates: &Rates, absorbable: bool) -> (f64, f64) {
    let [pass, absorb, dax] = Level::ALL.map(|level| cost::time(costs, level, rates));
    let below = if absorbable { pass.min(absorb) } else { pass };
    (pass - absorb, below - dax)
}

fn log_a_sync(costs: &Scaled<'_>, rates: &Rates) -> f64 {
    let writes_ns = costs.of(Level::Absorb, Call::Write, rates.writes, rates.written_bytes);
    if rates.syncs > 0.0 { writes_ns / rates.syncs } else { f64::INFINITY }
}

/// Saving of ABSORB during a burst, in ns of each second.
pub(crate) fn burst_saves_ns(costs: &Scaled<'_>, rates: &Rates) -> f64 {
    saved(costs, rates, true).0
}
