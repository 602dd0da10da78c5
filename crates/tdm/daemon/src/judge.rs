//! One user's files before the policy: samples from the board in, decisions out, and what became of these back again.
//!
//! A file that is to be absorbed has to be handed over by a program that has it open. One that asks by itself, in a burst of syncs,
//! is judged there and then; of others the board says that they are wanted, and the next sync asks.

mod known;
mod why;

use std::collections::BTreeMap;
use std::path::Path;

use byway_tdm_engine::table::{Board, Counted, Counters, Entry, EntryIndex, Timed, Why};
use byway_tdm_policy::{
    Call, Ceiling, Config, Counts, Decision, Explanation, FileId, Level, Order, Policy, Reason, Room, Rules,
    Sample, Traits,
};

use known::Known;
use why::why_of;

#[cfg(test)]
mod tests;

/// Between two looks at all files, while one that is not served is synced.
const NEW_NS: u64 = 100_000_000;

/// Between two looks at other times.
const QUIET_NS: u64 = 1_000_000_000;

/// How long a file that is wanted has to be handed over.
const HANDOVER_NS: u64 = 5_000_000_000;

/// A file that was not synced for as long as the longest wait after a loss is nobody's to judge.
const FORGOTTEN_NS: u64 = 600_000_000_000;

/// Where nobody goes there by merit.
const NO_HOME: Ceiling =
    Ceiling { level: Level::Absorb, why: "device memory is a file's home by order alone" };

/// What its calls cost absorbed has to be known before.
const ABSORBED_FIRST: Ceiling = Ceiling { level: Level::Absorb, why: "only an absorbed file comes home" };

/// Device memory that files are judged for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rooms {
    /// For logs.
    pub(crate) logs_bytes: u64,
    /// Each of them.
    pub(crate) log_bytes: u64,
    /// For files whose home it is by merit: none where that is by order alone.
    pub(crate) homes_bytes: u64,
}

/// Who judges.
#[derive(Debug)]
pub(crate) struct Judge {
    policy: Policy,
    rules: Rules,
    /// Device memory keeps what is stored.
    is_persistent: bool,
    /// It may be a file's home by merit.
    has_homes: bool,
    /// Of each log.
    log_bytes: u64,
    files: BTreeMap<EntryIndex, Known>,
    /// What was decided and not begun.
    decided: Vec<Decision>,
    looked_ns: Option<u64>,
    is_new: bool,
}

/// What the daemon is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Leave {
    pub(crate) entry: EntryIndex,
    pub(crate) why: Why,
}

impl Judge {
    /// With so much room, for logs of one length.
    pub(crate) fn new(rooms: Rooms, rules: Rules, is_persistent: bool) -> Self {
        let config = Config {
            pinned_bytes: rooms.homes_bytes,
            logs_bytes: rooms.logs_bytes,
            log_bytes: Some(rooms.log_bytes),
            place_bytes: Some(rooms.log_bytes),
            ..Config::new(rooms.logs_bytes, ASSUMED_BYTES_PER_S)
        };
        Self {
            policy: Policy::new(config),
            rules,
            is_persistent,
            has_homes: rooms.homes_bytes > 0,
            log_bytes: rooms.log_bytes,
            files: BTreeMap::new(),
            decided: Vec::new(),
            looked_ns: None,
            is_new: false,
        }
    }

    /// A file that was absorbed by a daemon before this one.
    pub(crate) fn adopt(&mut self, now_ns: u64, entry: &Entry<'_>, path: &Path, log_bytes: u64) {
        let rule = self.rules.order(path);
        self.policy.adopt(now_ns, id(entry.index()), rule, Level::Absorb, log_bytes);
        self.pin_again(entry);
        let syncs = entry.counters().get(Counted::Syncs);
        let known = Known { syncs, synced_ns: now_ns, is_judged: true, is_named: true, ..Known::default() };
        self.files.insert(entry.index(), known);
    }

    /// Looks at all files, if it is time to; which are to leave device memory. `size_of` tells the size of one that is absorbed.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        board: &Board,
        size_of: impl Fn(EntryIndex) -> Option<u64>,
    ) -> Vec<Leave> {
        let every_ns = if self.is_new { NEW_NS } else { QUIET_NS };
        if self.looked_ns.is_none_or(|last| now_ns.saturating_sub(last) >= every_ns) {
            self.is_new = false;
            board.entries().for_each(|entry| self.observe(now_ns, &entry, &size_of));
            self.looked_ns = Some(now_ns);
            self.decide(now_ns);
        }
        self.begin_decided(now_ns, board)
    }

    /// A program asks for its file to be absorbed, and hands it over.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn asked(
        &mut self,
        now_ns: u64,
        board: &Board,
        entry: &Entry<'_>,
        path: &Path,
    ) -> Result<(), Why> {
        self.track(now_ns, entry);
        let file = id(entry.index());
        self.policy.rule(file, self.rules.order(path));
        let sample = Sample { traits: Traits::ASKED, ..self.sample(entry) };
        self.policy.observe(now_ns, file, &sample);
        self.make_room(entry.index());
        self.look_at_absorbed(now_ns, board);
        self.decide(now_ns);
        self.decided.retain(|decision| decision.file != file || decision.to != Level::Absorb);
        let why = self.why_not(now_ns, entry);
        let known = self.files.entry(entry.index()).or_default();
        known.is_named = true;
        if known.due == Some(Level::Absorb) {
            known.is_handed_over = true;
            return Ok(());
        }
        known.unwant(entry);
        Err(why)
    }

    /// What became of a file that was handed over to go to that level.
    pub(crate) fn answered(&mut self, now_ns: u64, entry: &Entry<'_>, to: Level, result: Result<(), Why>) {
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        known.unwant(entry);
        known.is_handed_over = false;
        known.refused = result.err();
        let was_due = known.due.take_if(|due| *due == to).is_some();
        let is_outgrown = to == Level::Dax && self.is_home_by_merit(entry.index());
        match result {
            Ok(()) if was_due => self.policy.moved(now_ns, id(entry.index())),
            Err(_) if was_due => self.fail(now_ns, entry, to),
            Err(why) if is_outgrown => self.left(now_ns, entry, why),
            _ => {}
        }
    }

    /// A file that outgrew its home is to have one of that length; whether it may.
    pub(crate) fn may_return(&mut self, entry: EntryIndex, room_bytes: u64) -> bool {
        !self.is_home_by_merit(entry) || self.policy.resize(id(entry), room_bytes)
    }

    /// Whether device memory is its home as the policy has it so.
    pub(crate) fn is_home_by_merit(&self, entry: EntryIndex) -> bool {
        self.policy.level(id(entry)) == Some(Level::Dax)
    }

    /// A file has no log any more, or is not at home any more, whoever wanted that.
    pub(crate) fn left(&mut self, now_ns: u64, entry: &Entry<'_>, why: Why) {
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        let due = known.due;
        match (why, due) {
            // It is on its way home.
            (Why::LevelIsHome, Some(Level::Dax)) => return,
            // With its next sync it comes to a larger one.
            (Why::Outgrown, _) if self.policy.level(id(entry.index())) == Some(Level::Dax) => {
                return known.want(now_ns, entry, Level::Dax);
            }
            _ => {}
        }
        known.unwant(entry);
        if self.has_homes && (due == Some(Level::Dax) || self.is_home_by_merit(entry.index())) {
            entry.housed().wish(false);
        }
        self.forget_due(entry.index());
        self.policy.left(now_ns, id(entry.index()), why.sentence());
        if why == Why::Unlinked {
            self.forget_gone(entry);
        }
    }

    /// A file has no name any more: what it did would have room kept for it that nobody hands it over for. If it is synced again it is judged anew.
    fn forget_gone(&mut self, entry: &Entry<'_>) {
        let is_ordered = self.policy.ordered(id(entry.index())).is_some();
        let Some(known) = self.files.get_mut(&entry.index()).filter(|_| !is_ordered) else { return };
        known.is_judged = false;
        known.syncs = entry.counters().get(Counted::Syncs);
        self.policy.forget(id(entry.index()));
    }

    /// A file that was to leave could not.
    pub(crate) fn kept(&mut self, now_ns: u64, entry: EntryIndex) {
        self.policy.failed(now_ns, id(entry));
    }

    /// A file's entry was given back: nothing is known of it any more.
    pub(crate) fn forget(&mut self, entry: EntryIndex) {
        self.files.remove(&entry);
        self.policy.forget(id(entry));
    }

    /// Somebody gives an order, or takes it back.
    pub(crate) fn order(&mut self, now_ns: u64, entry: &Entry<'_>, order: Option<Order>) {
        self.track(now_ns, entry);
        entry.counters().set(Counted::Pinned, u64::from(matches!(order, Some(Order::Pin(_)))));
        self.policy.order(id(entry.index()), order);
    }

    /// A file that was pinned at a daemon before this one is still.
    fn pin_again(&mut self, entry: &Entry<'_>) {
        if entry.counters().get(Counted::Pinned) != 0 {
            self.policy.order(id(entry.index()), Some(Order::Pin(Level::Absorb)));
        }
    }

    /// Whether somebody said that a file is to be served whatever it does.
    pub(crate) fn is_pinned(&self, entry: EntryIndex) -> bool {
        matches!(self.policy.ordered(id(entry)), Some(Order::Pin(_)))
    }

    /// Whether somebody said that a file is not to be served at all.
    pub(crate) fn is_kept_out(&self, entry: EntryIndex) -> bool {
        self.policy.ordered(id(entry)) == Some(Order::Never)
    }

    /// Whether device memory is to be its home: by hand it is wished for at once, by a rule as soon as its path is known.
    pub(crate) fn is_home_ordered(&self, entry: EntryIndex) -> bool {
        self.policy.ordered(id(entry)) == Some(Order::Pin(Level::Dax))
    }

    /// Everything that is known of a file.
    pub(crate) fn explain(&self, now_ns: u64, entry: EntryIndex) -> Option<Explanation> {
        self.policy.explain(now_ns, id(entry))
    }

    /// A file could not go where it was to.
    fn fail(&mut self, now_ns: u64, entry: &Entry<'_>, to: Level) {
        if to == Level::Dax {
            entry.housed().wish(false);
        }
        self.policy.failed(now_ns, id(entry.index()));
    }

    fn forget_due(&mut self, entry: EntryIndex) {
        if let Some(known) = self.files.get_mut(&entry) {
            known.due = None;
        }
    }

    /// Takes a file in that is not judged yet, or not any more.
    fn track(&mut self, now_ns: u64, entry: &Entry<'_>) {
        let syncs = entry.counters().get(Counted::Syncs);
        let was = self.files.get(&entry.index()).copied();
        if was.is_some_and(|known| known.is_judged) {
            return;
        }
        match (was, self.looked_ns) {
            // It was opened since the last look.
            (None, Some(looked_ns)) => self.policy.open(looked_ns, id(entry.index()), None),
            _ => self.policy.adopt(now_ns, id(entry.index()), None, Level::Pass, 0),
        }
        self.pin_again(entry);
        let known = Known { syncs, synced_ns: now_ns, is_judged: true, ..was.unwrap_or_default() };
        self.files.insert(entry.index(), known);
    }

    fn observe(&mut self, now_ns: u64, entry: &Entry<'_>, size_of: impl Fn(EntryIndex) -> Option<u64>) {
        let syncs = entry.counters().get(Counted::Syncs);
        let is_judged = self.files.get(&entry.index()).is_some_and(|known| known.is_judged);
        let before = self.files.get(&entry.index()).map_or(0, |known| known.syncs);
        if !is_judged && syncs == before {
            return;
        }
        self.track(now_ns, entry);
        self.measure(entry, size_of);
        let sample = self.sample(entry);
        self.policy.observe(now_ns, id(entry.index()), &sample);
        let is_at_pass = entry.standing().level == Level::Pass;
        if is_at_pass && self.policy.level(id(entry.index())) > Some(Level::Pass) {
            // Two were at it at once.
            self.left(now_ns, entry, entry.standing().why);
        }
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        if syncs != before {
            (known.syncs, known.synced_ns) = (syncs, now_ns);
            self.is_new |= is_at_pass;
        }
        if !known.is_named && !self.rules.is_empty() {
            known.want(now_ns, entry, Level::Absorb);
        }
        self.end_waiting(now_ns, entry, is_at_pass);
    }

    /// Keeps the size of a file that may come home, or is there.
    fn measure(&mut self, entry: &Entry<'_>, size_of: impl Fn(EntryIndex) -> Option<u64>) {
        let size_bytes = match entry.standing().level {
            Level::Absorb if self.has_homes => size_of(entry.index()),
            Level::Dax => Some(entry.home_words().size_bytes()),
            Level::Pass | Level::Absorb => None,
        };
        if let (Some(known), Some(size_bytes)) = (self.files.get_mut(&entry.index()), size_bytes) {
            known.size_bytes = size_bytes;
        }
    }

    /// Gives up on a file that nobody handed over, and on one that nobody uses.
    fn end_waiting(&mut self, now_ns: u64, entry: &Entry<'_>, is_at_pass: bool) {
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        if known.wanted_ns.is_some_and(|since| now_ns.saturating_sub(since) > HANDOVER_NS) {
            known.unwant(entry);
            match known.due.take() {
                Some(to) => self.fail(now_ns, entry, to),
                // It did not come to a larger home.
                None if is_at_pass && self.is_home_by_merit(entry.index()) => {
                    self.left(now_ns, entry, Why::NoRoom);
                }
                None => {}
            }
        }
        let Some(known) = self.files.get_mut(&entry.index()) else { return };
        let is_ordered = self.policy.ordered(id(entry.index())).is_some();
        if is_at_pass && !is_ordered && now_ns.saturating_sub(known.synced_ns) > FORGOTTEN_NS {
            known.is_judged = false;
            self.policy.forget(id(entry.index()));
        }
    }

    /// Takes room back that is kept for files which were not handed over, where one that is has none: those that were wanted first, as nobody
    /// has them open any more perhaps. Whoever hands one over all the same is judged then.
    fn make_room(&mut self, asks: EntryIndex) {
        if self.files.get(&asks).is_some_and(|known| known.due == Some(Level::Absorb)) {
            return;
        }
        while self.policy.usage(Room::Log).free_bytes() < self.log_bytes {
            let Some(longest) = self.longest_wanted() else { return };
            self.policy.withdraw(id(longest));
            self.forget_due(longest);
        }
    }

    /// Who has stopped is known by who was used since, which the last look may be too old to say.
    fn look_at_absorbed(&mut self, now_ns: u64, board: &Board) {
        if self.policy.usage(Room::Log).free_bytes() >= self.log_bytes {
            return;
        }
        let absorbed: Vec<_> =
            self.policy.files().filter(|(_, level)| *level == Level::Absorb).map(|(file, _)| file).collect();
        for entry in absorbed.into_iter().filter_map(|file| board.entry(entry_of(file))) {
            let sample = self.sample(&entry);
            self.policy.observe(now_ns, id(entry.index()), &sample);
        }
    }

    /// Of the files that have room for a log and were not handed over, the one that is wanted for the longest time; none that is by order.
    fn longest_wanted(&self) -> Option<EntryIndex> {
        let is_awaited = |known: &Known| known.due == Some(Level::Absorb) && !known.is_handed_over;
        let awaited = self.files.iter().filter(|(_, known)| is_awaited(known));
        let by_merit = awaited.filter(|(index, _)| self.policy.ordered(id(**index)).is_none());
        // One that the board does not say so of yet was decided last.
        let longest = by_merit.min_by_key(|(_, known)| known.wanted_ns.unwrap_or(u64::MAX));
        longest.map(|(index, _)| *index)
    }

    fn decide(&mut self, now_ns: u64) {
        for decision in self.policy.decide(now_ns) {
            if let Some(known) = self.files.get_mut(&entry_of(decision.file)) {
                known.due = Some(decision.to).filter(|to| *to > decision.from);
                self.decided.push(decision);
            }
        }
    }

    /// Has the board say which files are wanted; the others are to leave.
    pub(crate) fn begin_decided(&mut self, now_ns: u64, board: &Board) -> Vec<Leave> {
        let mut leave = Vec::new();
        for decision in std::mem::take(&mut self.decided) {
            let index = entry_of(decision.file);
            // From home a file goes below first, whatever comes then.
            if decision.to < decision.from {
                leave.push(Leave { entry: index, why: why_of(decision.why) });
            } else if let (Some(known), Some(entry)) = (self.files.get_mut(&index), board.entry(index)) {
                known.want(now_ns, &entry, decision.to);
            }
        }
        leave
    }

    fn sample(&self, entry: &Entry<'_>) -> Sample {
        let (counters, times) = (entry.counters(), entry.times());
        let get = |what| counters.get(what);
        let mut sample = Sample {
            counts: Counts {
                reads: get(Counted::Reads),
                read_bytes: get(Counted::ReadBytes),
                writes: get(Counted::Writes),
                written_bytes: get(Counted::WrittenBytes),
                syncs: get(Counted::Syncs),
            },
            size_bytes: self.files.get(&entry.index()).map_or(0, |known| known.size_bytes),
            ceiling: self.ceiling(entry),
            three_syncs_in_ns: three_syncs_in_ns(counters),
            ..Sample::default()
        };
        sample.lower[Call::Read] = times.get(Timed::LowerRead);
        sample.level[Call::Read] = times.get(Timed::LevelRead);
        sample.lower[Call::Write] = times.get(Timed::LowerWrite);
        sample.lower[Call::Sync] = times.get(Timed::LowerSync);
        sample.level[Call::Write] = times.get(Timed::LevelWrite);
        sample.level[Call::Sync] = times.get(Timed::LevelSync);
        sample
    }

    fn ceiling(&self, entry: &Entry<'_>) -> Option<Ceiling> {
        if let Some(why) = self.hindrance(entry) {
            return Some(Ceiling { level: Level::Pass, why: why.sentence() });
        }
        if !self.has_homes {
            return Some(NO_HOME);
        }
        if let Some(why) = entry.housed().excluded() {
            return Some(Ceiling { level: Level::Absorb, why: why.sentence() });
        }
        (self.policy.level(id(entry.index())) <= Some(Level::Pass)).then_some(ABSORBED_FIRST)
    }

    /// What keeps a file with the kernel, whatever it would save.
    fn hindrance(&self, entry: &Entry<'_>) -> Option<Why> {
        let standing = entry.standing();
        if standing.is_barred {
            return Some(standing.why);
        }
        if standing.level == Level::Dax && !self.is_home_by_merit(entry.index()) {
            return Some(Why::LevelIsHome);
        }
        (!self.is_persistent).then_some(Why::VolatileMemory)
    }

    fn why_not(&self, now_ns: u64, entry: &Entry<'_>) -> Why {
        let refused = self.files.get(&entry.index()).and_then(|known| known.refused);
        let held = self.policy.explain(now_ns, id(entry.index())).and_then(|told| told.held);
        match (held, refused) {
            (Some(Reason::Ceiling(_)), _) => self.hindrance(entry).unwrap_or(Why::TooFewSyncs),
            (Some(Reason::BackingOff { .. } | Reason::MoveFailed { .. }), refused) => {
                refused.unwrap_or(Why::Slower)
            }
            (Some(reason), _) => why_of(reason),
            (None, _) => Why::TooFewSyncs,
        }
    }
}

/// How fast device memory is taken to be until it is measured: as the study's.
const ASSUMED_BYTES_PER_S: u64 = 4_000_000_000;

const fn id(entry: EntryIndex) -> FileId {
    FileId(entry.0 as u64)
}

const fn entry_of(file: FileId) -> EntryIndex {
    EntryIndex(file.0 as u32)
}

/// The time in which the last three syncs began, once there were as many.
fn three_syncs_in_ns(counters: Counters<'_>) -> Option<u64> {
    let first = counters.get(Counted::ThirdLastSyncNs);
    (first != 0).then(|| counters.get(Counted::LastSyncNs).saturating_sub(first))
}
