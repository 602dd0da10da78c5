//! Statistics of a file from its samples.

use crate::averages::{Averages, FAST_NS, Rates};
use crate::cost::Costs;
use crate::histogram::{Histogram, Recent};
use crate::level::Level;
use crate::reason::Reason;
use crate::sample::{Call, Counts, Sample, Traits};
use crate::scales::Scales;

/// Length of a burst.
const BURST_NS: u64 = 100_000_000;

/// Syncs of a burst.
const BURST_SYNCS: u64 = 3;

/// A file unused for this many of its usual pauses has stopped.
const STOPPED_GAPS: f64 = 10.0;

/// A burst of syncs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    syncs: u64,
    in_ns: u64,
    /// Calls during the burst, possibly also before.
    counts: Counts,
}

impl Burst {
    /// Rates of one such burst each second: the true rates are not known yet.
    pub(crate) fn rates(&self) -> Rates {
        Rates::of(self.counts, self.in_ns.max(FAST_NS))
    }

    /// The reason for absorbing the file.
    pub(crate) const fn reason(&self) -> Reason {
        Reason::FastStart { syncs: self.syncs, in_ns: self.in_ns }
    }
}

/// Statistics of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileStats {
    sample: Sample,
    averages: Averages,
    scales: Scales,
    lower: [Recent; 3],
    served: [Recent; 3],
    burst: Option<Burst>,
    at_ns: Option<u64>,
    /// When it was last used.
    used_ns: u64,
    burst_from: (u64, Counts),
    /// The level changed since the last sample, so the level of the next sample's times is unknown.
    moved: bool,
}

/// Scales that samples update.
struct Learning<'a> {
    costs: &'a Costs,
    all: &'a mut Scales,
    /// Level of the file during the whole interval, if it did not change.
    level: Option<Level>,
}

impl FileStats {
    /// A file that was just opened, with counters at zero.
    pub(crate) fn opened(now_ns: u64) -> Self {
        let burst_from = (now_ns, Counts::default());
        Self { at_ns: Some(now_ns), used_ns: now_ns, burst_from, ..Self::default() }
    }

    /// The last sample.
    pub(crate) const fn sample(&self) -> &Sample {
        &self.sample
    }

    /// Rates over 1 s and 15 s.
    pub(crate) const fn averages(&self) -> &Averages {
        &self.averages
    }

    /// The file's own measured costs.
    pub(crate) const fn scales(&self) -> &Scales {
        &self.scales
    }

    /// The burst of syncs that the last sample shows.
    pub(crate) const fn burst(&self) -> Option<&Burst> {
        self.burst.as_ref()
    }

    /// Whether writes were in flight.
    pub(crate) const fn is_being_written(&self) -> bool {
        self.sample.writes_in_flight > 0
    }

    /// Whether its writer asks to have it absorbed.
    pub(crate) const fn is_asked_for(&self) -> bool {
        self.sample.traits.contains(Traits::ASKED)
    }

    /// Lower bound of the 99th percentile at its level, in ns.
    pub(crate) fn level_p99_least_ns(&self, call: Call) -> Option<f64> {
        self.served[call.index()].p99_least_ns()
    }

    /// Upper bound of the 99th percentile below, in ns.
    pub(crate) fn lower_p99_most_ns(&self, call: Call) -> Option<f64> {
        self.lower[call.index()].p99_most_ns()
    }

    /// Adds a sample. `level` is that of the whole interval, if it did not change.
    pub(crate) fn observe(
        &mut self,
        now_ns: u64,
        new: &Sample,
        level: Option<Level>,
        (costs, all): (&Costs, &mut Scales),
    ) {
        let mut learning = Learning { costs, all, level };
        let before = std::mem::replace(&mut self.sample, *new);
        let Some(at_ns) = self.at_ns else {
            self.at_ns = Some(now_ns);
            self.used_ns = now_ns;
            self.burst_from = (now_ns, new.counts);
            self.burst = self.asked_for();
            // Its earlier rates are unknown, but its times below are valid.
            learning.level = None;
            self.learn_all(&mut learning, &Sample::default(), new.counts);
            return;
        };
        let Some(in_ns) = now_ns.checked_sub(at_ns).filter(|ns| *ns > 0) else {
            self.sample = Sample { counts: before.counts, lower: before.lower, level: before.level, ..*new };
            return;
        };
        self.at_ns = Some(now_ns);
        let counts = new.counts.since(&before.counts);
        // A writer that asks is using the file, even if an earlier sample already has its last call.
        if counts != Counts::default() || self.is_asked_for() {
            self.used_ns = now_ns;
        }
        self.averages.add(counts, in_ns);
        self.burst = self.look_for_burst(now_ns, (at_ns, before.counts));
        if std::mem::take(&mut self.moved) {
            learning.level = None;
        }
        self.scales.fade(in_ns);
        self.learn_all(&mut learning, &before, counts);
    }

    /// Nanoseconds since its last use, at the last sample.
    pub(crate) fn idle_ns(&self) -> u64 {
        self.at_ns.map_or(0, |at_ns| at_ns.saturating_sub(self.used_ns))
    }

    /// Whether it seems no longer used: unused for 1 s and for 10 of its usual pauses.
    pub(crate) fn has_stopped(&self) -> bool {
        let usual_ns = 1e9 / self.averages.slow.syncs;
        self.idle_ns() as f64 >= (STOPPED_GAPS * usual_ns).max(FAST_NS as f64)
    }

    /// The file has changed its level.
    pub(crate) fn moved(&mut self) {
        self.moved = true;
        self.served = Default::default();
        self.burst = None;
    }

    fn learn_all(&mut self, learning: &mut Learning<'_>, before: &Sample, counts: Counts) {
        for call in Call::ALL {
            self.learn(learning, call, before, bytes_a_call(call, counts));
        }
    }

    fn learn(&mut self, learning: &mut Learning<'_>, call: Call, before: &Sample, bytes_a_call: f64) {
        let mut take = |level, timed: &Histogram| {
            self.scales.learn(learning.costs, level, call, timed, bytes_a_call);
            learning.all.learn(learning.costs, level, call, timed, bytes_a_call);
        };
        let lower = self.sample.lower[call].since(&before.lower[call]);
        take(Level::Pass, &lower);
        self.lower[call.index()].add(&lower);
        let Some(level) = learning.level.filter(|level| *level > Level::Pass) else { return };
        let served = self.sample.level[call].since(&before.level[call]);
        take(level, &served);
        self.served[call.index()].add(&served);
    }

    /// Detects a burst. Samples farther from each other than a burst must contain as many syncs for each burst length.
    fn look_for_burst(&mut self, now_ns: u64, last: (u64, Counts)) -> Option<Burst> {
        let (from_ns, from) = self.burst_from;
        let in_ns = now_ns.saturating_sub(from_ns).max(1);
        let counts = self.sample.counts.since(&from);
        if in_ns >= BURST_NS {
            // The next interval starts at the last sample within a burst's length, so that no burst between samples is missed.
            self.burst_from =
                if now_ns.saturating_sub(last.0) < BURST_NS { last } else { (now_ns, self.sample.counts) };
        }
        if let Some(burst) = self.asked_for() {
            return Some(burst);
        }
        let begins = self.sample.traits.intersects(Traits::APPEND | Traits::TRUNCATED | Traits::CREATED);
        if !begins || self.sample.counts.since(&last.1).syncs == 0 {
            return None;
        }
        let reported = self.sample.three_syncs_in_ns.filter(|ns| *ns <= BURST_NS);
        let stats = counts.syncs >= BURST_SYNCS.saturating_mul(in_ns.div_ceil(BURST_NS));
        let (syncs, in_ns) = reported.map_or((counts.syncs, in_ns), |ns| (BURST_SYNCS, ns));
        (stats || reported.is_some()).then_some(Burst { syncs, in_ns, counts })
    }

    /// The burst for which the writer asks. Samples may fall anywhere, so the calls of each sync are averaged over all.
    fn asked_for(&self) -> Option<Burst> {
        let Sample { counts, traits, three_syncs_in_ns, .. } = &self.sample;
        let in_ns = three_syncs_in_ns.filter(|ns| *ns <= BURST_NS && traits.contains(Traits::ASKED))?;
        let each = |all: u64| all.saturating_mul(BURST_SYNCS) / counts.syncs.max(1);
        let counts = Counts {
            writes: each(counts.writes),
            written_bytes: each(counts.written_bytes),
            syncs: BURST_SYNCS,
            ..Counts::default()
        };
        Some(Burst { syncs: BURST_SYNCS, in_ns, counts })
    }
}

fn bytes_a_call(call: Call, counts: Counts) -> f64 {
    let (calls, bytes) = match call {
        Call::Read => (counts.reads, counts.read_bytes),
        Call::Write => (counts.writes, counts.written_bytes),
        Call::Sync => return 0.0,
    };
    bytes as f64 / calls.max(1) as f64
}
