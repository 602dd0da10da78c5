//! How far measured times are from what was taken for true: of one file, and of all together.

use crate::cost::Costs;
use crate::histogram::Histogram;
use crate::level::Level;
use crate::sample::Call;

/// Timed calls without which a mean means nothing.
const ENOUGH: f64 = 8.0;

/// Timed syncs below that are enough: a log that begins has had as many behind its first, and they tell a disk from a file system
/// that syncs for nothing.
const ENOUGH_SYNCS_BELOW: f64 = 2.0;

/// Timed calls after which a new one counts one part in as many.
const REMEMBERED: f64 = 512.0;

/// After ten minutes without a timed call, nothing is known any more.
const FADING_NS: f64 = 150e9;

/// How far from true a cost may be thought to be: a client's counters say anything.
const FURTHEST: f64 = 10_000.0;

/// Measured time in units of the expected.
#[derive(Debug, Clone, Copy)]
struct Scale {
    ratio: f64,
    calls: f64,
}

/// The scale of each kind of call at each level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales([[Scale; 3]; 3]);

impl Default for Scales {
    fn default() -> Self {
        Self([[Scale { ratio: 1.0, calls: 0.0 }; 3]; 3])
    }
}

impl Scales {
    /// Takes in what was timed, of calls that had `bytes_a_call`.
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

    /// Forgets slowly what levels above the kernel's took: who left one because it was slow learns in some minutes whether it is yet.
    /// What the kernel takes is timed too seldom elsewhere to be forgotten.
    pub(crate) fn fade(&mut self, in_ns: u64) {
        let left = FADING_NS / (FADING_NS + in_ns as f64);
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

/// Costs as measured: of the file itself, else of all files, else as was taken for true.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scaled<'a> {
    pub(crate) costs: &'a Costs,
    pub(crate) own: &'a Scales,
    pub(crate) all: &'a Scales,
}

impl Scaled<'_> {
    /// What so many calls with so many bytes take.
    pub(crate) fn of(&self, level: Level, call: Call, calls: f64, bytes: f64) -> f64 {
        self.costs.level(level).call(call).of(calls, bytes) * self.scale(level, call)
    }

    fn scale(&self, level: Level, call: Call) -> f64 {
        self.own.known(level, call).or_else(|| self.all.known(level, call)).unwrap_or(1.0)
    }

    /// A sync below, and a sync at a level.
    pub(crate) fn sync_ns(&self, level: Level) -> f64 {
        self.of(level, Call::Sync, 1.0, 0.0)
    }

    /// Whether that was measured by the file, by others, or by nobody.
    pub(crate) fn known_from(&self, level: Level, call: Call) -> &'static str {
        match (self.own.known(level, call), self.all.known(level, call)) {
            (Some(_), _) => "measured",
            (None, Some(_)) => "of other files",
            (None, None) => "assumed",
        }
    }
}
