//! The evaluator of one user's files: gives samples from the shared file table to the policy and carries out its decisions.
//!
//! A program hands over each file that is to be absorbed. One that asks by itself, in a burst of syncs, is answered at once; other wanted files are
//! flagged in the table, and their next sync asks.

mod caps;
mod known;
mod rooms;
mod sample;

use std::collections::BTreeMap;
use std::path::Path;

use byway_tdm_engine::table::{Counted, Entry, EntryIndex, FileTable};
use byway_tdm_policy::{
    Decision, Explanation, FileId, Level, Order, Policy, Reason, Room, Rules, Sample, Traits,
};

use caps::Caps;
use known::Known;
pub(crate) use rooms::Rooms;

#[cfg(test)]
mod tests;

/// Interval of evaluations while a file at PASS is synced.
const NEW_NS: u64 = 100_000_000;

/// Interval otherwise.
const QUIET_NS: u64 = 1_000_000_000;

/// The evaluator.
#[derive(Debug)]
pub(crate) struct Evaluator {
    policy: Policy,
    rules: Rules,
    caps: Caps,
    /// Bytes of each log.
    log_bytes: u64,
    files: BTreeMap<EntryIndex, Known>,
    /// Decisions not begun.
    decided: Vec<Decision>,
    /// Time of the last evaluation.
    looked_ns: Option<u64>,
    /// A file at PASS was synced before it: the next is due soon.
    is_new: bool,
}

/// A demotion that the daemon must carry out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Leave {
    pub(crate) entry: EntryIndex,
    pub(crate) why: Reason,
}

impl Evaluator {
    /// An evaluator for this memory, with logs of one length.
    pub(crate) fn new(rooms: Rooms, rules: Rules, is_persistent: bool) -> Self {
        Self {
            policy: Policy::new(rooms.config()),
            rules,
            caps: Caps::new(is_persistent, rooms.resident_bytes > 0),
            log_bytes: rooms.log_bytes,
            files: BTreeMap::new(),
            decided: Vec::new(),
            looked_ns: None,
            is_new: false,
        }
    }

    /// Adds a file that an earlier daemon absorbed.
    pub(crate) fn adopt(&mut self, now_ns: u64, entry: &Entry<'_>, path: &Path, log_bytes: u64) {
        let rule = self.rules.order(path);
        self.policy.adopt(now_ns, id(entry.index()), rule, Level::Absorb, log_bytes);
        self.pin_again(entry);
        let syncs = entry.counters().get(Counted::Syncs);
        let mut known = Known::default();
        known.evaluate(now_ns, syncs);
        known.set_named();
        self.files.insert(entry.index(), known);
    }

    /// Evaluates all files, if due; returns the demotions. `size_of` returns the size of an absorbed file.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        file_table: &FileTable,
        size_of: impl Fn(EntryIndex) -> Option<u64>,
    ) -> Vec<Leave> {
        let every_ns = if self.is_new { NEW_NS } else { QUIET_NS };
        if self.looked_ns.is_none_or(|last| now_ns.saturating_sub(last) >= every_ns) {
            self.is_new = false;
            file_table.entries().for_each(|entry| self.observe(now_ns, &entry, &size_of));
            self.looked_ns = Some(now_ns);
            self.decide(now_ns);
        }
        self.begin_decided(now_ns, file_table)
    }

    /// A program asks for its file to be absorbed, and hands it over.
    ///
    /// # Errors
    /// The reason, if it is not absorbed.
    pub(crate) fn asked(
        &mut self,
        now_ns: u64,
        file_table: &FileTable,
        entry: &Entry<'_>,
        path: &Path,
    ) -> Result<(), Reason> {
        self.track(now_ns, entry);
        let file = id(entry.index());
        self.policy.rule(file, self.rules.order(path));
        let sample = Sample { traits: Traits::ASKED, ..self.sample(entry) };
        self.policy.observe(now_ns, file, &sample);
        self.make_room(entry.index());
        self.look_at_absorbed(now_ns, file_table);
        self.decide(now_ns);
        self.decided.retain(|decision| decision.file != file || decision.to != Level::Absorb);
        let why = self.why_not(now_ns, entry);
        let known = self.files.entry(entry.index()).or_default();
        known.set_named();
        if known.hand_over() {
            return Ok(());
        }
        known.unwant(entry);
        Err(why)
    }

    /// Result of moving a file that was handed over.
    pub(crate) fn answered(&mut self, now_ns: u64, entry: &Entry<'_>, to: Level, result: Result<(), Reason>) {
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        known.unwant(entry);
        let was_due = known.answer(to, result.err());
        let is_outgrown = to == Level::Dax && self.is_dax_by_benefit(entry.index());
        match result {
            Ok(()) if was_due => self.policy.moved(now_ns, id(entry.index())),
            Err(_) if was_due => self.fail(now_ns, entry, to),
            Err(why) if is_outgrown => self.note_demotion(now_ns, entry, why),
            _ => {}
        }
    }

    /// Whether a file that outgrew its place may have one of that length.
    pub(crate) fn may_return(&mut self, entry: EntryIndex, room_bytes: u64) -> bool {
        !self.is_dax_by_benefit(entry) || self.policy.resize(id(entry), room_bytes)
    }

    /// Whether the policy has promoted the file.
    pub(crate) fn is_dax_by_benefit(&self, entry: EntryIndex) -> bool {
        self.policy.level(id(entry)) == Some(Level::Dax)
    }

    /// A file was demoted, for any reason.
    pub(crate) fn note_demotion(&mut self, now_ns: u64, entry: &Entry<'_>, why: Reason) {
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        let due = known.due();
        match (why, due) {
            // Absorbed before, it is being promoted.
            (Reason::InDeviceMemory, Some(Level::Dax)) => return,
            // Its next sync asks for a larger place.
            (Reason::Outgrown, _) if self.policy.level(id(entry.index())) == Some(Level::Dax) => {
                return known.want(now_ns, entry, Level::Dax);
            }
            _ => {}
        }
        known.unwant(entry);
        known.take_due();
        if self.caps.promotes_by_benefit()
            && (due == Some(Level::Dax) || self.is_dax_by_benefit(entry.index()))
        {
            entry.resident_state().request_promotion(false);
        }
        self.policy.note_demotion(now_ns, id(entry.index()), why);
        if why == Reason::Unlinked {
            self.forget_gone(entry);
        }
    }

    /// Forgets a file without a name, whose room would wait for a handover. A later sync adds it again.
    fn forget_gone(&mut self, entry: &Entry<'_>) {
        let is_ordered = self.ordered(entry.index()).is_some();
        let Some(known) = self.files.get_mut(&entry.index()).filter(|_| !is_ordered) else { return };
        known.forget(entry.counters().get(Counted::Syncs));
        self.policy.forget(id(entry.index()));
    }

    /// A demotion failed.
    pub(crate) fn kept(&mut self, now_ns: u64, entry: EntryIndex) {
        self.policy.failed(now_ns, id(entry));
    }

    /// Forgets a file whose entry was reclaimed.
    pub(crate) fn forget(&mut self, entry: EntryIndex) {
        self.files.remove(&entry);
        self.policy.forget(id(entry));
    }

    /// A user's order, or its end.
    pub(crate) fn order(&mut self, now_ns: u64, entry: &Entry<'_>, order: Option<Order>) {
        self.track(now_ns, entry);
        entry.counters().set(Counted::Pinned, u64::from(matches!(order, Some(Order::Pin(_)))));
        self.policy.order(id(entry.index()), order);
    }

    /// Restores a pin of an earlier daemon.
    fn pin_again(&mut self, entry: &Entry<'_>) {
        if entry.counters().get(Counted::Pinned) != 0 {
            self.policy.order(id(entry.index()), Some(Order::Pin(Level::Absorb)));
        }
    }

    /// The order in force for a file; one by a rule is known once its path is.
    pub(crate) fn ordered(&self, entry: EntryIndex) -> Option<Order> {
        self.policy.ordered(id(entry))
    }

    /// What the policy knows of a file.
    pub(crate) fn explain(&self, now_ns: u64, entry: EntryIndex) -> Option<Explanation> {
        self.policy.explain(now_ns, id(entry))
    }

    /// A move failed.
    fn fail(&mut self, now_ns: u64, entry: &Entry<'_>, to: Level) {
        if to == Level::Dax {
            entry.resident_state().request_promotion(false);
        }
        self.policy.failed(now_ns, id(entry.index()));
    }

    /// Adds a file to the policy, if it is not there.
    fn track(&mut self, now_ns: u64, entry: &Entry<'_>) {
        let syncs = entry.counters().get(Counted::Syncs);
        let was = self.files.get(&entry.index());
        if was.is_some_and(Known::is_evaluated) {
            return;
        }
        match (was, self.looked_ns) {
            // Opened since the last evaluation.
            (None, Some(looked_ns)) => self.policy.open(looked_ns, id(entry.index()), None),
            _ => self.policy.adopt(now_ns, id(entry.index()), None, Level::Pass, 0),
        }
        self.pin_again(entry);
        self.files.entry(entry.index()).or_default().evaluate(now_ns, syncs);
    }

    fn observe(&mut self, now_ns: u64, entry: &Entry<'_>, size_of: impl Fn(EntryIndex) -> Option<u64>) {
        let syncs = entry.counters().get(Counted::Syncs);
        let known = self.files.get(&entry.index()).copied().unwrap_or_default();
        let is_synced = syncs != known.syncs();
        if !known.is_evaluated() && !is_synced {
            return;
        }
        self.track(now_ns, entry);
        self.measure(entry, size_of);
        let sample = self.sample(entry);
        self.policy.observe(now_ns, id(entry.index()), &sample);
        let is_at_pass = entry.level() == Level::Pass;
        if is_at_pass && self.policy.level(id(entry.index())) > Some(Level::Pass) {
            // Two requests for one file at once.
            self.note_demotion(now_ns, entry, entry.level_state().why);
        }
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        if is_synced {
            known.note_syncs(now_ns, syncs);
            self.is_new |= is_at_pass;
        }
        if !known.is_named() && !self.rules.is_empty() {
            known.want(now_ns, entry, Level::Absorb);
        }
        self.end_waiting(now_ns, entry, is_at_pass);
    }

    /// Updates the size of an absorbed or resident file.
    fn measure(&mut self, entry: &Entry<'_>, size_of: impl Fn(EntryIndex) -> Option<u64>) {
        let size_bytes = match entry.level() {
            Level::Absorb if self.caps.promotes_by_benefit() => size_of(entry.index()),
            Level::Dax => Some(entry.resident_words().size_bytes()),
            Level::Pass | Level::Absorb => None,
        };
        if let (Some(known), Some(size_bytes)) = (self.files.get_mut(&entry.index()), size_bytes) {
            known.set_size(size_bytes);
        }
    }

    /// Drops a wanted file that was not handed over in time, and a file out of use.
    fn end_waiting(&mut self, now_ns: u64, entry: &Entry<'_>, is_at_pass: bool) {
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        if known.is_overdue(now_ns) {
            known.unwant(entry);
            match known.take_due() {
                Some(to) => self.fail(now_ns, entry, to),
                // It did not move to a larger place.
                None if is_at_pass && self.is_dax_by_benefit(entry.index()) => {
                    self.note_demotion(now_ns, entry, Reason::NoRoom);
                }
                None => {}
            }
        }
        let is_ordered = self.ordered(entry.index()).is_some();
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        if is_at_pass && !is_ordered && known.is_out_of_use(now_ns) {
            known.forget(known.syncs());
            self.policy.forget(id(entry.index()));
        }
    }

    /// Frees the room kept for wanted files that were not handed over, the longest wanted first. If one is handed over later, it is evaluated then.
    fn make_room(&mut self, asks: EntryIndex) {
        if self.files.get(&asks).is_some_and(|known| known.due() == Some(Level::Absorb)) {
            return;
        }
        while self.policy.usage(Room::Log).free_bytes() < self.log_bytes {
            let Some(longest) = self.longest_wanted() else { return };
            self.policy.withdraw(id(longest));
            self.files.get_mut(&longest).and_then(Known::take_due);
        }
    }

    /// Updates the absorbed files, as the last evaluation may be too old to show which have stopped.
    fn look_at_absorbed(&mut self, now_ns: u64, file_table: &FileTable) {
        if self.policy.usage(Room::Log).free_bytes() >= self.log_bytes {
            return;
        }
        let absorbed: Vec<_> =
            self.policy.files().filter(|(_, level)| *level == Level::Absorb).map(|(file, _)| file).collect();
        for entry in absorbed.into_iter().filter_map(|file| file_table.entry(entry_of(file))) {
            let sample = self.sample(&entry);
            self.policy.observe(now_ns, id(entry.index()), &sample);
        }
    }

    /// Of the wanted files that were not handed over, the one wanted longest; none that is ordered.
    fn longest_wanted(&self) -> Option<EntryIndex> {
        let is_ordered = |index: EntryIndex| self.ordered(index).is_some();
        let waiting = self.files.iter().filter_map(|(index, known)| Some((known.waits_since_ns()?, *index)));
        let longest = waiting.filter(|(_, index)| !is_ordered(*index)).min_by_key(|(since_ns, _)| *since_ns);
        longest.map(|(_, index)| index)
    }

    fn decide(&mut self, now_ns: u64) {
        for decision in self.policy.decide(now_ns) {
            if let Some(known) = self.files.get_mut(&entry_of(decision.file)) {
                known.decide(decision.from, decision.to);
                self.decided.push(decision);
            }
        }
    }

    /// Flags the wanted files in the table; returns the demotions.
    pub(crate) fn begin_decided(&mut self, now_ns: u64, file_table: &FileTable) -> Vec<Leave> {
        let mut leaving = Vec::new();
        for decision in std::mem::take(&mut self.decided) {
            let index = entry_of(decision.file);
            // A DAX-resident file is demoted to PASS first.
            if decision.to < decision.from {
                leaving.push(Leave { entry: index, why: decision.why.stored() });
            } else if let (Some(known), Some(entry)) = (self.files.get_mut(&index), file_table.entry(index)) {
                known.want(now_ns, &entry, decision.to);
            }
        }
        leaving
    }

    fn sample(&self, entry: &Entry<'_>) -> Sample {
        let size_bytes = self.files.get(&entry.index()).map_or(0, Known::size_bytes);
        let level = self.policy.level(id(entry.index()));
        sample::sample(entry, size_bytes, self.caps.of(entry, level))
    }

    /// Why the file is not absorbed, if it is not.
    fn why_not(&self, now_ns: u64, entry: &Entry<'_>) -> Reason {
        let file = id(entry.index());
        let held = self.policy.explain(now_ns, file).and_then(|reported| reported.held);
        match held {
            Some(Reason::BackingOff { .. } | Reason::MoveFailed { .. }) => {
                self.files.get(&entry.index()).and_then(Known::refused).unwrap_or(Reason::Slower)
            }
            Some(cap) if cap.is_stored() => {
                self.caps.hindrance(entry, self.policy.level(file)).unwrap_or(Reason::TooFewSyncs)
            }
            held => held.map_or(Reason::TooFewSyncs, Reason::stored),
        }
    }
}

const fn id(entry: EntryIndex) -> FileId {
    FileId(entry.0 as u64)
}

const fn entry_of(file: FileId) -> EntryIndex {
    EntryIndex(file.0 as u32)
}
