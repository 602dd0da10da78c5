//! All files together: who gets the room there is.

use std::collections::BTreeMap;

use crate::averages::{FAST_NS, Rates};
use crate::budget::{Floor, Migration, Room, Usage};
use crate::config::Config;
use crate::explain::Explanation;
use crate::file::{File, Move};
use crate::level::{FileId, Level};
use crate::order::Order;
use crate::outlook::{self, Outlook};
use crate::reason::Reason;
use crate::sample::{Sample, Traits};
use crate::scales::{Scaled, Scales};
use crate::seen::{Learning, Seen};
use crate::wish::{View, Wish};

/// How much more a newcomer has to save than one whose room it takes.
const BEAT: f64 = 1.5;

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// With that file.
    pub file: FileId,
    /// Where it is.
    pub from: Level,
    /// Where it goes.
    pub to: Level,
    /// Room that it has there: its log, or its chunks. None at [`Level::Pass`].
    pub room_bytes: u64,
    /// Why.
    pub why: Reason,
}

/// The policy. It knows no clock: whoever calls says what time it is, in nanoseconds that only grow.
#[derive(Debug)]
pub struct Policy {
    config: Config,
    files: BTreeMap<FileId, File>,
    scales: Scales,
    migration: Migration,
}

/// One who wants to enter.
struct Newcomer {
    file: FileId,
    to: Level,
    why: Reason,
    score: f64,
    /// Its writer has handed it over, or somebody ordered it: it is sure to come.
    is_sure: bool,
}

/// Room that is missing, and what is offered for it.
struct Wanted {
    room: Room,
    bytes: u64,
    score: f64,
    move_score: f64,
}

impl Policy {
    /// A policy for that device.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let migration = Migration::new(&config);
        Self { config, files: BTreeMap::new(), scales: Scales::default(), migration }
    }

    /// A file was opened first by anybody; its counters begin with nothing. `rule` is what is ordered of its path.
    pub fn open(&mut self, now_ns: u64, file: FileId, rule: Option<Order>) {
        self.files.insert(file, File::new(now_ns, Seen::opened(now_ns), rule));
    }

    /// A file was found at a level when the daemon began anew, or when somebody used it again. Its counters go on from the first sample.
    pub fn adopt(&mut self, now_ns: u64, file: FileId, rule: Option<Order>, level: Level, room_bytes: u64) {
        self.files.insert(file, File::adopted(now_ns, level, room_bytes, rule));
    }

    /// A file was closed by all, or is gone. What it had in device memory has been taken out.
    pub fn forget(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// Another order holds for the path of a file: rules have changed, or its name.
    pub fn rule(&mut self, file: FileId, rule: Option<Order>) {
        if let Some(file) = self.files.get_mut(&file) {
            file.rule = rule;
        }
    }

    /// Gives an order by hand, or takes it back. Tells whether there is such a file.
    pub fn order(&mut self, file: FileId, order: Option<Order>) -> bool {
        let Some(file) = self.files.get_mut(&file) else { return false };
        // Nothing has to be evicted from the lowest level.
        file.order =
            order.filter(|order| *order != Order::Evict || file.level > Level::Pass || file.moving.is_some());
        true
    }

    /// Takes in a sample of a file: of each at least once a second; ten times, for logs that begin to be absorbed at once.
    pub fn observe(&mut self, now_ns: u64, file: FileId, sample: &Sample) {
        let Some(file) = self.files.get_mut(&file) else { return };
        let level = file.moving.is_none().then_some(file.level);
        let learning = Learning { costs: &self.config.costs, all: &mut self.scales, level };
        file.seen.observe(now_ns, sample, learning);
        let outlook = outlook(&self.config, &self.scales, file);
        file.streaks.judge(now_ns, file.level, &outlook);
    }

    /// What is to be done now. Each decision is answered by [`Policy::moved`] or [`Policy::failed`], once it is done or could not be.
    pub fn decide(&mut self, now_ns: u64) -> Vec<Decision> {
        self.scales.fade(self.migration.tick(now_ns));
        let mut floor = self.floor();
        let mut decisions = Vec::new();
        let mut newcomers = Vec::new();
        for id in self.files.keys().copied().collect::<Vec<_>>() {
            match self.wish(now_ns, id) {
                Some(Wish::Enter { to, why, score }) => {
                    let is_sure = score.is_infinite() || self.is_asked_for(id);
                    newcomers.push(Newcomer { file: id, to, why, score, is_sure });
                }
                Some(Wish::Leave { to, why, must }) => {
                    decisions.extend(self.leave(now_ns, &mut floor, id, (to, why), must));
                }
                Some(Wish::Stay(why)) => self.hold(id, why),
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

    /// A move was done: the file is where it was to go.
    pub fn moved(&mut self, now_ns: u64, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.arrive(now_ns);
        }
    }

    /// A move could not be done: the file is where it was. It is tried again, later each time.
    pub fn failed(&mut self, now_ns: u64, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.fail(now_ns);
        }
    }

    /// A move has not begun and is not to: the file is where it was, its room is another's to take, and nothing has failed.
    pub fn withdraw(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.moving = None;
        }
    }

    /// A file is at the lowest level, decided or not: it got another name, say, or somebody took it down. It may be absorbed again at
    /// once; from device memory somebody drove it who may do so again, so it comes back there later each time.
    pub fn left(&mut self, now_ns: u64, file: FileId, why: &'static str) {
        let Some(file) = self.files.get_mut(&file) else { return };
        match file.moving {
            Some(to) if to.to == Level::Pass => file.arrive(now_ns),
            Some(to) if to.to < file.level => file.stop_over(now_ns, to),
            _ => file.fall(now_ns, why),
        }
    }

    /// Changes how much room a file has that needs more, or less, where it is. Tells whether it may: who may not is drained soon.
    #[must_use]
    pub fn resize(&mut self, file: FileId, room_bytes: u64) -> bool {
        let Some(room) = self.files.get(&file).and_then(|file| Room::of(file.level)) else { return false };
        let free_bytes = self.usage(room).free_bytes();
        let Some(file) = self.files.get_mut(&file) else { return false };
        let more_bytes = room_bytes.saturating_sub(file.room_bytes);
        if more_bytes > free_bytes {
            file.refused_bytes = Some(room_bytes);
            return false;
        }
        file.room_bytes = room_bytes;
        file.refused_bytes = None;
        true
    }

    /// Where a file is.
    #[must_use]
    pub fn level(&self, file: FileId) -> Option<Level> {
        self.files.get(&file).map(|file| file.level)
    }

    /// What is ordered of a file, by hand or for its path.
    #[must_use]
    pub fn ordered(&self, file: FileId) -> Option<Order> {
        self.files.get(&file)?.ordered().map(|(order, _)| order)
    }

    /// All files, and where they are.
    pub fn files(&self) -> impl Iterator<Item = (FileId, Level)> {
        self.files.iter().map(|(id, file)| (*id, file.level))
    }

    /// How much of a room is used.
    #[must_use]
    pub fn usage(&self, room: Room) -> Usage {
        let used_bytes =
            self.files.values().fold(0, |sum: u64, file| sum.saturating_add(file.uses_bytes(room)));
        Usage { used_bytes, budget_bytes: self.config.budget_bytes(room) }
    }

    /// Why a file is where it is, and every number that led to it.
    #[must_use]
    pub fn explain(&self, now_ns: u64, id: FileId) -> Option<Explanation> {
        let file = self.files.get(&id)?;
        let outlook = outlook(&self.config, &self.scales, file);
        let costs = scaled(&self.config, &self.scales, file);
        Some(Explanation::new(now_ns, id, file, &outlook, &costs))
    }

    fn is_asked_for(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| file.seen.sample.traits.contains(Traits::ASKED))
    }

    fn wish(&self, now_ns: u64, id: FileId) -> Option<Wish> {
        let file = self.files.get(&id)?;
        Some(self.view(now_ns, file, |view| view.wish()))
    }

    fn view<T>(&self, now_ns: u64, file: &File, look: impl FnOnce(&View<'_>) -> T) -> T {
        let costs = scaled(&self.config, &self.scales, file);
        let outlook = outlook(&self.config, &self.scales, file);
        // As if one such came each second: how often one does is not known yet.
        let burst = file.seen.burst.map(|burst| Rates::of(burst.counts, burst.in_ns.max(FAST_NS)));
        let burst_saves_ns = burst.map(|rates| outlook::burst_saves_ns(&costs, &rates));
        look(&View { now_ns, file, outlook: &outlook, burst_saves_ns })
    }

    /// Room as decisions begin.
    fn floor(&self) -> Floor {
        let mut floor = Floor::new(|room| self.usage(room));
        for file in self.files.values().filter(|file| file.moving.is_some()) {
            if let Some(room) = Room::of(file.level) {
                floor.leaving(room, file.room_bytes);
            }
        }
        floor
    }

    fn hold(&mut self, id: FileId, why: Reason) {
        if let Some(file) = self.files.get_mut(&id) {
            file.held = Some(why);
        }
    }

    /// Has a file leave its level, unless it is being written, or enough is being moved.
    fn leave(
        &mut self,
        now_ns: u64,
        floor: &mut Floor,
        id: FileId,
        (to, why): (Level, Reason),
        must: bool,
    ) -> Option<Decision> {
        let file = self.files.get_mut(&id)?;
        if file.seen.sample.writes_in_flight > 0 {
            file.held = Some(Reason::InFlight { to });
            return None;
        }
        let (from, bytes) = (file.level, drained_bytes(file));
        let wait_ns = self.migration.wait_ns(bytes);
        if !must && wait_ns > 0 {
            file.held = Some(Reason::MovesAreCapped { bytes, wait_ns });
            return None;
        }
        let outlook = outlook(&self.config, &self.scales, file);
        let wanted = if to == Level::Absorb { outlook.absorb.room_bytes } else { 0 };
        let fits = to == Level::Pass || floor.take(Room::Log, wanted);
        let (to, room_bytes) = if fits { (to, wanted) } else { (Level::Pass, 0) };
        if let Some(room) = Room::of(from) {
            floor.leaving(room, file.room_bytes);
        }
        self.migration.take(bytes);
        file.begin(now_ns, Move { to, room_bytes, why });
        Some(Decision { file: id, from, to, room_bytes, why })
    }

    /// Lets a file in, or has others make room for it, or says why not.
    fn admit(&mut self, now_ns: u64, floor: &mut Floor, new: &Newcomer, decisions: &mut Vec<Decision>) {
        let Some(file) = self.files.get(&new.file) else { return };
        let Some(room) = Room::of(new.to) else { return };
        let outlook = outlook(&self.config, &self.scales, file);
        let needs_bytes = outlook.of(new.to).room_bytes;
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
                move_score: outlook.of(new.to).score_of_move(),
            };
            match self.victims(now_ns, &wanted) {
                Ok(victims) => self.displace(now_ns, floor, new, victims, decisions),
                Err(to_beat) => {
                    let (score, free_bytes) = (new.score, floor.free_bytes(room));
                    return self
                        .hold(new.file, Reason::NoRoom { room, needs_bytes, free_bytes, score, to_beat });
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
        let bytes = if room == Room::Pinned { room_bytes.min(file.seen.sample.size_bytes) } else { 0 };
        let wait_ns = self.migration.wait_ns(bytes);
        if wait_ns > 0 {
            floor.keep(room, room_bytes);
            file.held = Some(Reason::MovesAreCapped { bytes, wait_ns });
            return None;
        }
        floor.take(room, room_bytes);
        self.migration.take(bytes);
        let from = file.level;
        if let Some(left) = Room::of(from) {
            floor.leaving(left, file.room_bytes);
        }
        file.begin(now_ns, Move { to: new.to, room_bytes, why: new.why });
        Some(Decision { file: new.file, from, to: new.to, room_bytes, why: new.why })
    }

    /// Who could leave that room, logs that have stopped first and then the worst; or what the score would have to be.
    fn victims(&self, now_ns: u64, wanted: &Wanted) -> Result<Vec<(FileId, f64)>, f64> {
        let mut residents: Vec<_> =
            self.files.iter().filter(|(_, file)| may_leave(now_ns, wanted.room, file)).collect();
        let score_of = |file: &File| {
            // A home is filled and drained by every move: there pauses are part of the score.
            if wanted.room == Room::Log && file.seen.has_stopped() {
                return f64::NEG_INFINITY;
            }
            outlook(&self.config, &self.scales, file).of(file.level).score_of_resident(file.room_bytes)
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
            found_bytes = found_bytes.saturating_add(file.room_bytes);
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
            let to = self.view(now_ns, file, |view| view.fallback());
            let why = match score {
                f64::NEG_INFINITY => Reason::Stopped { by: new.file, for_ns: file.seen.idle_ns() },
                score => Reason::Displaced { by: new.file, score, by_score: new.score },
            };
            decisions.extend(self.leave(now_ns, floor, victim, (to, why), false));
        }
    }
}

/// Whether a file may have to leave for another.
fn may_leave(now_ns: u64, room: Room, file: &File) -> bool {
    Room::of(file.level) == Some(room)
        && file.moving.is_none()
        && !file.is_pinned()
        && file.stay_left_ns(now_ns) == 0
        && file.seen.sample.writes_in_flight == 0
}

/// What has to be moved when a file leaves.
fn drained_bytes(file: &File) -> u64 {
    if file.level == Level::Dax { file.room_bytes } else { 0 }
}

fn scaled<'a>(config: &'a Config, all: &'a Scales, file: &'a File) -> Scaled<'a> {
    Scaled { costs: &config.costs, own: &file.seen.scales, all }
}

fn outlook(config: &Config, all: &Scales, file: &File) -> Outlook {
    Outlook::new(config, &scaled(config, all, file), &file.seen.averages, &file.seen.sample)
}
