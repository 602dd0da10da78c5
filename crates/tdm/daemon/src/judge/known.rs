//! A file that is judged, as the judge knows it.

use byway_tdm_engine::table::{Counted, Entry, Level, Why};

/// A file that was synced.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) syncs: u64,
    pub(super) synced_ns: u64,
    /// The policy has it.
    pub(super) is_judged: bool,
    /// Its path was told, and the rule for it.
    pub(super) is_named: bool,
    /// It is to be absorbed, or to come home, as soon as it is handed over.
    pub(super) due: Option<Level>,
    /// It was, and is being absorbed.
    pub(super) is_handed_over: bool,
    /// Its size, once it is absorbed.
    pub(super) size_bytes: u64,
    /// Since when the board says so.
    pub(super) wanted_ns: Option<u64>,
    /// Why it could not be absorbed.
    pub(super) refused: Option<Why>,
}

impl Known {
    /// Has its next sync hand it over, to go to that level.
    pub(super) fn want(&mut self, now_ns: u64, entry: &Entry<'_>, to: Level) {
        if self.wanted_ns.is_some() {
            return;
        }
        self.wanted_ns = Some(now_ns);
        let counters = entry.counters();
        if to == Level::Dax {
            counters.set(Counted::HomeAgainNs, 0);
            entry.housed().wish(true);
        } else {
            counters.set(Counted::AskAgainNs, 0);
            counters.set(Counted::Wanted, 1);
        }
    }

    /// Takes that back.
    pub(super) fn unwant(&mut self, entry: &Entry<'_>) {
        if self.wanted_ns.take().is_some() {
            entry.counters().set(Counted::Wanted, 0);
        }
    }
}
