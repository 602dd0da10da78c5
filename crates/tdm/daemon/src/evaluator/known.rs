//! What the evaluator knows of a file.

use byway_tdm_engine::table::{Counted, Entry, Level, Reason};

/// Time limit for handing over a wanted file.
const HANDOVER_NS: u64 = 5_000_000_000;

/// A file not synced for 10 min (the longest wait after a loss) is no longer evaluated.
const FORGOTTEN_NS: u64 = 600_000_000_000;

/// Progress of a file that was synced.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum State {
    /// The policy does not have it.
    #[default]
    Forgotten,
    /// The policy has it at its level.
    Evaluated,
    /// It moves to this level once it is handed over.
    Due(Level),
    /// Handed over, and being absorbed.
    HandedOver,
}

/// A file that was synced.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    state: State,
    syncs: u64,
    synced_ns: u64,
    /// Its path and the rule for it are known.
    is_named: bool,
    /// Its size in bytes, once absorbed.
    size_bytes: u64,
    /// When it was flagged as wanted, in ns; `None` while it is not.
    wanted_ns: Option<u64>,
    /// Why it could not be absorbed.
    refused: Option<Reason>,
}

impl Known {
    /// The policy has the file, and it was synced now.
    pub(super) fn evaluate(&mut self, now_ns: u64, syncs: u64) {
        self.state = State::Evaluated;
        self.note_syncs(now_ns, syncs);
    }

    /// The policy does not have the file any more, until a sync after these.
    pub(super) const fn forget(&mut self, syncs: u64) {
        self.state = State::Forgotten;
        self.syncs = syncs;
    }

    /// Whether the policy has the file.
    pub(super) fn is_evaluated(&self) -> bool {
        self.state != State::Forgotten
    }

    /// Syncs counted at the last evaluation.
    pub(super) const fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Notes syncs counted now.
    pub(super) const fn note_syncs(&mut self, now_ns: u64, syncs: u64) {
        (self.syncs, self.synced_ns) = (syncs, now_ns);
    }

    /// Whether it was not synced for so long that it need not be evaluated.
    pub(super) const fn is_out_of_use(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.synced_ns) > FORGOTTEN_NS
    }

    /// Notes that its path and the rule for it are known.
    pub(super) const fn set_named(&mut self) {
        self.is_named = true;
    }

    /// Whether its path and the rule for it are known.
    pub(super) const fn is_named(&self) -> bool {
        self.is_named
    }

    /// Its size in bytes, once absorbed.
    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Sets its size in bytes.
    pub(super) const fn set_size(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
    }

    /// Why it could not be absorbed.
    pub(super) const fn refused(&self) -> Option<Reason> {
        self.refused
    }

    /// Level to which it moves once it is handed over, or is being moved.
    pub(super) const fn due(&self) -> Option<Level> {
        match self.state {
            State::Forgotten | State::Evaluated => None,
            State::Due(level) => Some(level),
            State::HandedOver => Some(Level::Absorb),
        }
    }

    /// A move was decided: one to a higher level is due.
    pub(super) fn decide(&mut self, from: Level, to: Level) {
        self.state = if to > from { State::Due(to) } else { State::Evaluated };
    }

    /// No move is due any more; returns the level of the one that was.
    pub(super) const fn take_due(&mut self) -> Option<Level> {
        let due = self.due();
        if due.is_some() {
            self.state = State::Evaluated;
        }
        due
    }

    /// Its program hands it over. `false` if it is not to be absorbed.
    pub(super) fn hand_over(&mut self) -> bool {
        let is_due = self.due() == Some(Level::Absorb);
        if is_due {
            self.state = State::HandedOver;
        }
        is_due
    }

    /// The move to that level has ended, as `refused` says. `false` if it was not due.
    pub(super) fn answer(&mut self, to: Level, refused: Option<Reason>) -> bool {
        self.refused = refused;
        self.due() == Some(to) && self.take_due().is_some()
    }

    /// When a file due to be absorbed was flagged as wanted, in ns; `u64::MAX` if it is not flagged yet, `None` if it is not due or was handed
    /// over.
    pub(super) fn waits_since_ns(&self) -> Option<u64> {
        (self.state == State::Due(Level::Absorb)).then(|| self.wanted_ns.unwrap_or(u64::MAX))
    }

    /// Whether it is wanted and was not handed over in time.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        self.wanted_ns.is_some_and(|since| now_ns.saturating_sub(since) > HANDOVER_NS)
    }

    /// Flags the file as wanted at that level: its next sync hands it over.
    pub(super) fn want(&mut self, now_ns: u64, entry: &Entry<'_>, to: Level) {
        if self.wanted_ns.is_some() {
            return;
        }
        self.wanted_ns = Some(now_ns);
        let counters = entry.counters();
        if to == Level::Dax {
            counters.set(Counted::PromotionRetryNs, 0);
            entry.resident_state().request_promotion(true);
        } else {
            counters.set(Counted::AskAgainNs, 0);
            counters.set(Counted::Wanted, 1);
        }
    }

    /// Clears that flag.
    pub(super) fn unwant(&mut self, entry: &Entry<'_>) {
        if self.wanted_ns.take().is_some() {
            entry.counters().set(Counted::Wanted, 0);
        }
    }
}
