//! What a file would save at each level, and what it costs to bring it there.

use crate::averages::{Averages, Rates, SLOW_NS};
use crate::config::Config;
use crate::cost;
use crate::level::Level;
use crate::needs;
use crate::sample::{Call, Sample};
use crate::scales::Scaled;

/// What is not even a ten-thousandth of the time is not worth a move.
const LEAST_NS: f64 = 100_000.0;

const SECOND_NS: f64 = 1e9;

/// What a level would do for a file. Times are nanoseconds in each second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prospect {
    /// Which level.
    pub level: Level,
    /// Room that the file would need there.
    pub room_bytes: u64,
    /// What it would save over the best level below, by the short average.
    pub saves_fast_ns: f64,
    /// By the long average.
    pub saves_slow_ns: f64,
    /// What it has to save: going there and back, paid for in the time of the long average.
    pub needs_ns: f64,
}

impl Prospect {
    /// By the lower of both averages.
    #[must_use]
    pub const fn sure_ns(&self) -> f64 {
        self.saves_fast_ns.min(self.saves_slow_ns)
    }

    /// By the higher of both averages.
    #[must_use]
    pub const fn best_ns(&self) -> f64 {
        self.saves_fast_ns.max(self.saves_slow_ns)
    }

    /// What each MiB of room saves: of a newcomer, who has to prove it.
    #[must_use]
    pub fn score(&self) -> f64 {
        a_mib(self.sure_ns(), self.room_bytes)
    }

    /// What each MiB saves of a file that is there with so much room: a pause does not cost it its place.
    #[must_use]
    pub fn score_of_resident(&self, room_bytes: u64) -> f64 {
        a_mib(self.best_ns(), room_bytes)
    }

    /// What the move costs each MiB.
    #[must_use]
    pub fn score_of_move(&self) -> f64 {
        a_mib(self.needs_ns, self.room_bytes)
    }

    /// Both averages are above what is needed.
    pub(crate) fn pays(&self) -> bool {
        self.sure_ns() >= self.needs_ns
    }

    /// What keeps a file that is there.
    pub(crate) fn keeps_ns(&self) -> f64 {
        self.needs_ns / 4.0
    }

    /// Both averages are below what keeps a file.
    pub(crate) fn is_cold(&self) -> bool {
        self.best_ns() < self.keeps_ns()
    }

    /// The level costs more than the one below: now, whatever it saved before.
    pub(crate) fn loses(&self) -> bool {
        self.saves_fast_ns < -self.keeps_ns()
    }
}

/// What counts against others is a second of each at most: nobody waits for longer, and one that is absorbed syncs far more often than the
/// kernel would have let it.
fn a_mib(ns: f64, room_bytes: u64) -> f64 {
    ns.min(SECOND_NS) * 1048576.0 / room_bytes.max(1) as f64
}

/// What there is to say of a file at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    pub(crate) absorb: Prospect,
    pub(crate) dax: Prospect,
    /// The largest log that it could have.
    pub(crate) log_most_bytes: u64,
    /// Logging what is written between two syncs, and one sync below.
    pub(crate) log_a_sync_ns: f64,
    pub(crate) lower_sync_ns: f64,
}

impl Outlook {
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
            absorb: Prospect {
                level: Level::Absorb,
                room_bytes: log_bytes,
                saves_fast_ns: fast.0,
                saves_slow_ns: slow.0,
                needs_ns: a_second(syncs_ns),
            },
            dax: Prospect {
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

    /// Of a level that needs room.
    pub(crate) const fn of(&self, level: Level) -> &Prospect {
        match level {
            Level::Dax => &self.dax,
            Level::Pass | Level::Absorb => &self.absorb,
        }
    }

    /// Whether its log has room at all.
    pub(crate) const fn is_absorbable(&self) -> bool {
        self.absorb.room_bytes <= self.log_most_bytes
    }
}

/// A cost that is paid once, spread over the time of the long average.
fn a_second(once_ns: f64) -> f64 {
    (once_ns * 1e9 / SLOW_NS as f64).max(LEAST_NS)
}

/// What absorbing saves over the kernel alone, and device memory over the better of both.
fn saved(costs: &Scaled<'_>, rates: &Rates, absorbable: bool) -> (f64, f64) {
    let [pass, absorb, dax] = Level::ALL.map(|level| cost::time(costs, level, rates));
    let below = if absorbable { pass.min(absorb) } else { pass };
    (pass - absorb, below - dax)
}

fn log_a_sync(costs: &Scaled<'_>, rates: &Rates) -> f64 {
    let writes_ns = costs.of(Level::Absorb, Call::Write, rates.writes, rates.written_bytes);
    if rates.syncs > 0.0 { writes_ns / rates.syncs } else { f64::INFINITY }
}

/// What absorbing would save of a burst, each second.
pub(crate) fn burst_saves_ns(costs: &Scaled<'_>, rates: &Rates) -> f64 {
    saved(costs, rates, true).0
}
