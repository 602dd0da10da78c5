//! The policy: decides over all files.

use std::collections::BTreeMap;

use crate::budget::{Floor, Migration, Usage};
use crate::config::Config;
use crate::explain::Explanation;
use crate::file::File;
use crate::level::{FileId, Level};
use crate::order::Order;
use crate::reason::Reason;
use crate::room::Room;
use crate::sample::Sample;
use crate::scales::Scales;
use crate::transition::{Transition, View};

/// Factor by which a newcomer's score must exceed that of a file it displaces.
const BEAT: f64 = 1.5;

/// A decision to carry out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// The file.
    pub file: FileId,
    /// Its level.
    pub from: Level,
    /// Its next level.
    pub to: Level,
    /// Bytes of device memory there, for the log or the chunks. Zero at [`Level::Pass`].
    pub room_bytes: u64,
    /// The reason.
    pub why: Reason,
}

/// The policy. It has no clock: callers pass the time, in ns that only grow.
#[derive(Debug)]
pub struct Policy {
    config: Config,
    files: BTreeMap<FileId, File>,
    scales: Scales,
    migration: Migration,
}

/// A file that wants to enter a level.
struct Newcomer {
    file: FileId,
    to: Level,
    why: Reason,
    score: f64,
    /// Its program has handed it over, or it was ordered: it is certain to move.
    is_sure: bool,
}

/// Bytes missing, and the score offered for them.
struct Wanted {
    room: Room,
    bytes: u64,
    score: f64,
    move_score: f64,
}

impl Policy {
    /// A policy for this device.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let migration = Migration::new(&config);
        Self { config, files: BTreeMap::new(), scales: Scales::default(), migration }
    }

    /// Adds a file that was just opened, with counters at zero. `rule` is the order of its path.
    pub fn open(&mut self, now_ns: u64, file: FileId, rule: Option<Order>) {
        self.files.insert(file, File::opened(now_ns, rule));
    }

    /// Adds a file found at a level, at the daemon's start or when it is used again. Its counters continue.
    pub fn adopt(&mut self, now_ns: u64, file: FileId, rule: Option<Order>, level: Level, room_bytes: u64) {
        self.files.insert(file, File::adopted(now_ns, level, room_bytes, rule));
    }

    /// Forgets a file that all programs have closed, or that is gone. It has left device memory.
    pub fn forget(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// Changes the order of a file's path.
    pub fn rule(&mut self, file: FileId, rule: Option<Order>) {
        if let Some(file) = self.files.get_mut(&file) {
            file.set_rule(rule);
        }
    }

    /// Gives or ends an order by hand. `false` if the file is unknown.
    pub fn order(&mut self, file: FileId, order: Option<Order>) -> bool {
        let Some(file) = self.files.get_mut(&file) else { return false };
        file.set_order(order);
        true
    }

    /// Adds a sample of a file: at least once a second, or ten times to detect bursts.
    pub fn observe(&mut self, now_ns: u64, file: FileId, sample: &Sample) {
        if let Some(file) = self.files.get_mut(&file) {
            file.observe(now_ns, sample, &self.config, &mut self.scales);
        }
    }

    /// Decides. Answer each decision by [`Policy::moved`] or [`Policy::failed`].
    pub fn decide(&mut self, now_ns: u64) -> Vec<Decision> {
        self.scales.fade(self.migration.tick(now_ns));
        let mut floor = self.floor();
        let mut decisions = Vec::new();
        let mut newcomers = Vec::new();
        for id in self.files.keys().copied().collect::<Vec<_>>() {
            match self.files.get(&id).map(|file| self.view(now_ns, file).transition()) {
                Some(Transition::Enter { to, why, score }) => {
                    let is_sure = score.is_infinite() || self.is_asked_for(id);
                    newcomers.push(Newcomer { file: id, to, why, score, is_sure });
                }
                Some(Transition::Leave { to, why, must }) => {
                    decisions.extend(self.leave(now_ns, &mut floor, id, (to, why), must));
                }
                Some(Transition::Stay(why)) => self.hold(id, why),
                None => {}
            }
        }
        newcomers.sort_by(|a, b| {
            let by_score = b.score.total_cmp(&a.score).then(a.file.cmp(&b.file));
            b.is_sure.cmp(&a.is_sure).then(by_score)
        });
        for newcomer in newcomers {
            self.admit(now_ns, &mut floor, &newcomer, &mut decisions);
        }
        decisions
    }

    /// A move has ended.
    pub fn moved(&mut self, now_ns: u64, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.arrive(now_ns);
        }
    }

    /// A move has failed: the file stays. It is tried again, later each time.
    pub fn failed(&mut self, now_ns: u64, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.fail(now_ns);
        }
    }

    /// A move was not begun: the file stays, its bytes are free, and there is no backoff.
    pub fn withdraw(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.withdraw();
        }
    }

    /// A file was demoted to PASS by something else than a decision. It may be absorbed again at once, but promoted to DAX later each time, as the
    /// cause may return.
    pub fn note_demotion(&mut self, now_ns: u64, file: FileId, why: Reason) {
        if let Some(file) = self.files.get_mut(&file) {
            file.fall(now_ns, why);
        }
    }

    /// Changes the bytes that a file has at its level. `false` if they are not free: demote the file.
    #[must_use]
    pub fn resize(&mut self, file: FileId, room_bytes: u64) -> bool {
        let Some(room) = self.level(file).and_then(Room::of) else { return false };
        let free_bytes = self.usage(room).free_bytes();
        self.files.get_mut(&file).is_some_and(|file| file.resize(room_bytes, free_bytes))
    }

    /// Level of a file.
    #[must_use]
    pub fn level(&self, file: FileId) -> Option<Level> {
        self.files.get(&file).map(File::level)
    }

    /// Order of a file.
    #[must_use]
    pub fn ordered(&self, file: FileId) -> Option<Order> {
        self.files.get(&file)?.ordered().map(|(order, _)| order)
    }

    /// All files with their levels.
    pub fn files(&self) -> impl Iterator<Item = (FileId, Level)> {
        self.files.iter().map(|(id, file)| (*id, file.level()))
    }

    /// Use of a capacity.
    #[must_use]
    pub fn usage(&self, room: Room) -> Usage {
        let used_bytes =
            self.files.values().fold(0, |sum: u64, file| sum.saturating_add(file.uses_bytes(room)));
        Usage { used_bytes, budget_bytes: self.config.budget_bytes(room) }
    }

    /// Explanation of a file's level.
    #[must_use]
    pub fn explain(&self, now_ns: u64, id: FileId) -> Option<Explanation> {
        let file = self.files.get(&id)?;
        let estimate = file.estimate(&self.config, &self.scales);
        let costs = file.costs(&self.config, &self.scales);
        Some(Explanation::new(now_ns, id, file, &estimate, &costs))
    }

    fn is_asked_for(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| file.stats().is_asked_for())
    }

    fn view<'a>(&'a self, now_ns: u64, file: &'a File) -> View<'a> {
        View::new(now_ns, file, &self.config, &self.scales)
    }

    /// Free bytes before decisions.
    fn floor(&self) -> Floor {
        let mut floor = Floor::new(|room| self.usage(room));
        for (room, bytes) in self.files.values().filter_map(File::freed_by_move) {
            floor.leaving(room, bytes);
        }
        floor
    }

    fn hold(&mut self, id: FileId, why: Reason) {
        if let Some(file) = self.files.get_mut(&id) {
            file.hold(why);
        }
    }

    /// Decides a demotion, unless the file is being written or moves are capped.
    fn leave(
        &mut self,
        now_ns: u64,
        floor: &mut Floor,
        id: FileId,
        (to, why): (Level, Reason),
        must: bool,
    ) -> Option<Decision> {
        let file = self.files.get_mut(&id)?;
        if file.stats().is_being_written() {
            file.hold(Reason::InFlight { to });
            return None;
        }
        let (from, bytes) = (file.level(), file.drained_bytes());
        let wait_ns = self.migration.wait_ns(bytes);
        if !must && wait_ns > 0 {
            file.hold(Reason::MovesAreCapped { bytes, wait_ns });
            return None;
        }
        let estimate = file.estimate(&self.config, &self.scales);
        let wanted = if to == Level::Absorb { estimate.absorb.room_bytes } else { 0 };
        let fits = to == Level::Pass || floor.take(Room::Log, wanted);
        let (to, room_bytes) = if fits { (to, wanted) } else { (Level::Pass, 0) };
        if let Some((room, bytes)) = file.frees() {
            floor.leaving(room, bytes);
        }
        self.migration.take(bytes);
        file.begin(now_ns, to, room_bytes, why);
        Some(Decision { file: id, from, to, room_bytes, why })
    }

    /// Decides a promotion, displaces others for it, or sets the reason against it.
    fn admit(&mut self, now_ns: u64, floor: &mut Floor, new: &Newcomer, decisions: &mut Vec<Decision>) {
        let Some(file) = self.files.get(&new.file) else { return };
        let Some(room) = Room::of(new.to) else { return };
        let estimate = file.estimate(&self.config, &self.scales);
        let needs_bytes = estimate.of(new.to).room_bytes;
        let most_bytes = self.config.budget_bytes(room);
        if needs_bytes > most_bytes {
            return self.hold(new.file, Reason::TooLarge { room, needs_bytes, most_bytes });
        }
        if needs_bytes <= floor.free_bytes(room) {
            decisions.extend(self.enter(now_ns, floor, new, (room, needs_bytes)));
            return;
        }
        if needs_bytes > floor.expected_bytes(room) {
            let wanted = needs_bytes - floor.expected_bytes(room);
            let wanted = Wanted {
                room,
                bytes: wanted,
                score: new.score,
                move_score: estimate.of(new.to).score_of_move(),
            };
            match self.victims(now_ns, &wanted) {
                Ok(victims) => self.displace(now_ns, floor, new, victims, decisions),
                Err(to_beat) => {
                    let (score, free_bytes) = (new.score, floor.free_bytes(room));
                    return self.hold(
                        new.file,
                        Reason::OthersSaveMore { room, needs_bytes, free_bytes, score, to_beat },
                    );
                }
            }
        }
        floor.keep(room, needs_bytes);
        self.hold(new.file, Reason::WaitsForRoom { room, needs_bytes });
    }

    fn enter(
        &mut self,
        now_ns: u64,
        floor: &mut Floor,
        new: &Newcomer,
        (room, room_bytes): (Room, u64),
    ) -> Option<Decision> {
        let file = self.files.get_mut(&new.file)?;
        let bytes = if room == Room::Resident { room_bytes.min(file.stats().sample().size_bytes) } else { 0 };
        let wait_ns = self.migration.wait_ns(bytes);
        if wait_ns > 0 {
            floor.keep(room, room_bytes);
            file.hold(Reason::MovesAreCapped { bytes, wait_ns });
            return None;
        }
        floor.take(room, room_bytes);
        self.migration.take(bytes);
        let from = file.level();
        if let Some((left, bytes)) = file.frees() {
            floor.leaving(left, bytes);
        }
        file.begin(now_ns, new.to, room_bytes, new.why);
        Some(Decision { file: new.file, from, to: new.to, room_bytes, why: new.why })
    }

    /// Files to displace, stopped logs first and then the worst; or the score needed.
    fn victims(&self, now_ns: u64, wanted: &Wanted) -> Result<Vec<(FileId, f64)>, f64> {
        let mut residents: Vec<_> =
            self.files.iter().filter(|(_, file)| file.may_be_displaced(now_ns, wanted.room)).collect();
        let score_of = |file: &File| {
            // Moves of resident files cost: for them pauses are part of the score.
            if wanted.room == Room::Log && file.stats().has_stopped() {
                return f64::NEG_INFINITY;
            }
            file.estimate(&self.config, &self.scales).of(file.level()).score_of_resident(file.room_bytes())
        };
        residents.sort_by(|(a_id, a), (b_id, b)| score_of(a).total_cmp(&score_of(b)).then(a_id.cmp(b_id)));
        let mut found_bytes: u64 = 0;
        let mut victims = Vec::new();
        for (id, file) in residents {
            let theirs = score_of(file);
            let to_beat = theirs * BEAT + wanted.move_score;
            if wanted.score < to_beat {
                return Err(to_beat);
            }
            victims.push((*id, theirs));
            found_bytes = found_bytes.saturating_add(file.room_bytes());
            if found_bytes >= wanted.bytes {
                return Ok(victims);
            }
        }
        Err(f64::INFINITY)
    }

    fn displace(
        &mut self,
        now_ns: u64,
        floor: &mut Floor,
        new: &Newcomer,
        victims: Vec<(FileId, f64)>,
        decisions: &mut Vec<Decision>,
    ) {
        for (victim, score) in victims {
            let Some(file) = self.files.get(&victim) else { continue };
            let to = self.view(now_ns, file).fallback();
            let why = match score {
                f64::NEG_INFINITY => Reason::Stopped { by: new.file, for_ns: file.stats().idle_ns() },
                score => Reason::DisplacedBy { by: new.file, score, by_score: new.score },
            };
            decisions.extend(self.leave(now_ns, floor, victim, (to, why), false));
        }
    }
}
