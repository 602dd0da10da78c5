//! What was seen of a file.

use crate::averages::{Averages, FAST_NS};
use crate::cost::Costs;
use crate::histogram::{Histogram, Recent};
use crate::level::Level;
use crate::sample::{Call, Counts, Sample, Traits};
use crate::scales::Scales;

/// In how long a time a log that begins
const BURST_NS: u64 = 100_000_000;

/// syncs so many times.
const BURST_SYNCS: u64 = 3;

/// Who was not used for so many of its usual pauses has stopped.
const STOPPED_GAPS: f64 = 10.0;

/// A file that begins to sync.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub(crate) syncs: u64,
    pub(crate) in_ns: u64,
    /// What was done meanwhile, and maybe before.
    pub(crate) counts: Counts,
}

/// Everything that samples told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) sample: Sample,
    pub(crate) averages: Averages,
    pub(crate) scales: Scales,
    pub(crate) lower: [Recent; 3],
    pub(crate) served: [Recent; 3],
    pub(crate) burst: Option<Burst>,
    at_ns: Option<u64>,
    /// When it was last found to have been used.
    used_ns: u64,
    burst_from: (u64, Counts),
    /// The level changed since the last sample: whose times the next one brings is not known.
    moved: bool,
}

/// Whom times are learnt for.
pub(crate) struct Learning<'a> {
    pub(crate) costs: &'a Costs,
    pub(crate) all: &'a mut Scales,
    /// The level that the file was at all the time, if it was.
    pub(crate) level: Option<Level>,
}

impl Seen {
    /// A file that was opened just now: its counters begin with nothing.
    pub(crate) fn opened(now_ns: u64) -> Self {
        let burst_from = (now_ns, Counts::default());
        Self { at_ns: Some(now_ns), used_ns: now_ns, burst_from, ..Self::default() }
    }

    /// Takes in a sample.
    pub(crate) fn observe(&mut self, now_ns: u64, new: &Sample, mut learning: Learning<'_>) {
        let before = std::mem::replace(&mut self.sample, *new);
        let Some(at_ns) = self.at_ns else {
            self.at_ns = Some(now_ns);
            self.used_ns = now_ns;
            self.burst_from = (now_ns, new.counts);
            self.burst = self.asked_for();
            // Its rates are not known from before, but what its calls took below is.
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
        if counts != Counts::default() {
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

    /// For how long it was not used, as of the last sample; none if it was since the one before.
    pub(crate) fn idle_ns(&self) -> u64 {
        self.at_ns.map_or(0, |at_ns| at_ns.saturating_sub(self.used_ns))
    }

    /// Whether it is not used any more, as far as can be said: not for a second, nor for ten times as long as there is between two of its
    /// syncs.
    pub(crate) fn has_stopped(&self) -> bool {
        let usual_ns = 1e9 / self.averages.slow.syncs;
        self.idle_ns() as f64 >= (STOPPED_GAPS * usual_ns).max(FAST_NS as f64)
    }

    /// The file is at another level from here on.
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

    /// Whether a log begins to sync. Samples that are further apart than a burst is long must have seen as many in each part.
    fn look_for_burst(&mut self, now_ns: u64, last: (u64, Counts)) -> Option<Burst> {
        let (from_ns, from) = self.burst_from;
        let in_ns = now_ns.saturating_sub(from_ns).max(1);
        let counts = self.sample.counts.since(&from);
        if in_ns >= BURST_NS {
            // The next time begins with the last sample that is less than a burst old, so none is overlooked between two.
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
        let told = self.sample.three_syncs_in_ns.filter(|ns| *ns <= BURST_NS);
        let seen = counts.syncs >= BURST_SYNCS.saturating_mul(in_ns.div_ceil(BURST_NS));
        let (syncs, in_ns) = told.map_or((counts.syncs, in_ns), |ns| (BURST_SYNCS, ns));
        (seen || told.is_some()).then_some(Burst { syncs, in_ns, counts })
    }

    /// The burst for which its writer asks. Samples may lie anywhere between those syncs, so what was done for each is taken from
    /// all that it ever did.
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
