//! What the evaluator knows of a file.

use byway_tdm_engine::table::{Counted, Entry, Level, Reason};

/// A file that was synced.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) syncs: u64,
    pub(super) synced_ns: u64,
    /// The policy has the file.
    pub(super) is_evaluated: bool,
    /// Its path and the rule for it are known.
    pub(super) is_named: bool,
    /// Level to which it moves once it is handed over.
    pub(super) due: Option<Level>,
    /// Handed over, and being absorbed.
    pub(super) is_handed_over: bool,
    /// Its size in bytes, once absorbed.
    pub(super) size_bytes: u64,
    /// Since when it is flagged as wanted, in ns.
    pub(super) wanted_ns: Option<u64>,
    /// Why it could not be absorbed.
    pub(super) refused: Option<Reason>,
}

impl Known {
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
