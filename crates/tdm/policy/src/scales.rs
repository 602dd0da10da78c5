//! Scales: measured times relative to the assumed ones, of a file and of all files.

use crate::cost::Costs;
use crate::histogram::Histogram;
use crate::level::Level;
use crate::sample::Call;

/// Least timed calls for a mean.
const ENOUGH: f64 = 8.0;

/// Least timed real syncs: two distinguish a disk from a file system whose syncs are free.
const ENOUGH_SYNCS_BELOW: f64 = 2.0;

/// Calls of the moving average.
const REMEMBERED: f64 = 512.0;

/// Decay of what is known of a level: none is left after 10 min without a timed call.
const DECAY_NS: f64 = 150e9;

/// Largest factor accepted, as clients may spoil counters.
const FURTHEST: f64 = 10_000.0;

/// Measured time in units of the assumed.
#[derive(Debug, Clone, Copy)]
struct Scale {
    ratio: f64,
    calls: f64,
}

/// Scales by kind of call and level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales([[Scale; 3]; 3]);

impl Default for Scales {
    fn default() -> Self {
        Self([[Scale { ratio: 1.0, calls: 0.0 }; 3]; 3])
    }
}

impl Scales {
    /// Adds timed calls of `bytes_a_call` bytes.
    pub(crate) fn learn(
        &mut self,
        costs: &Costs,
        level: Level,
        call: Call,
        timed: &Histogram,
        bytes_a_call: f64,
    ) {
        let calls = timed.count() as f64;
        let expected_ns = costs.level(level).call(call).of(calls, calls * bytes_a_call);
        if calls == 0.0 || expected_ns <= 0.0 {
            return;
        }
        let ratio = (timed.total_ns as f64 / expected_ns).clamp(1.0 / FURTHEST, FURTHEST);
        let scale = &mut self.0[level.index()][call.index()];
        scale.calls = (scale.calls + calls).min(REMEMBERED);
        scale.ratio += (ratio - scale.ratio) * (calls / scale.calls).min(1.0);
    }

    /// Decays the scales of ABSORB and DAX, so that a file that left a slow level learns whether it still is. Those of PASS stay, as few calls are
    /// timed there.
    pub(crate) fn fade(&mut self, in_ns: u64) {
        let left = DECAY_NS / (DECAY_NS + in_ns as f64);
        for scale in self.0.iter_mut().skip(1).flatten() {
            scale.calls *= left;
        }
    }

    fn known(&self, level: Level, call: Call) -> Option<f64> {
        let scale = self.0[level.index()][call.index()];
        (scale.calls >= enough(level, call)).then_some(scale.ratio)
    }
}

const fn enough(level: Level, call: Call) -> f64 {
    match (level, call) {
        (Level::Pass, Call::Sync) => ENOUGH_SYNCS_BELOW,
        _ => ENOUGH,
    }
}

/// Measured costs: the file's own, else those of all files, else assumed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scaled<'a> {
    pub(crate) costs: &'a Costs,
    pub(crate) own: &'a Scales,
    pub(crate) all: &'a Scales,
}

impl Scaled<'_> {
    /// Time of `calls` calls that move `bytes` bytes in all.
    pub(crate) fn of(&self, level: Level, call: Call, calls: f64, bytes: f64) -> f64 {
        self.costs.level(level).call(call).of(calls, bytes) * self.scale(level, call)
    }

    fn scale(&self, level: Level, call: Call) -> f64 {
        self.own.known(level, call).or_else(|| self.all.known(level, call)).unwrap_or(1.0)
    }

    /// Time of a sync at a level.
    pub(crate) fn sync_ns(&self, level: Level) -> f64 {
        self.of(level, Call::Sync, 1.0, 0.0)
    }

    /// Source of that figure.
    pub(crate) fn known_from(&self, level: Level, call: Call) -> &'static str {
        match (self.own.known(level, call), self.all.known(level, call)) {
            (Some(_), _) => "measured",
            (None, Some(_)) => "measured of other files",
            (None, None) => "assumed, as none was timed yet",
        }
    }
}
