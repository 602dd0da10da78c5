//! What a file wants, if it were alone.

use crate::budget::Room;
use crate::file::File;
use crate::level::Level;
use crate::order::Order;
use crate::outlook::Outlook;
use crate::reason::{Reason, Tail};
use crate::sample::Call;
use crate::streaks::PROMOTE_WINDOWS;

/// A wish.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish {
    /// To be where it is.
    Stay(Reason),
    /// To a lower level. What must be done is done however much is being moved.
    Leave { to: Level, why: Reason, must: bool },
    /// To a higher level, before those whose score is lower.
    Enter { to: Level, why: Reason, score: f64 },
}

/// What a wish is formed from.
pub(crate) struct View<'a> {
    pub(crate) now_ns: u64,
    pub(crate) file: &'a File,
    pub(crate) outlook: &'a Outlook,
    /// What the burst of a log that begins would save, if there is one.
    pub(crate) burst_saves_ns: Option<f64>,
}

/// The levels that are open to a file, and why the others are not.
struct Bounds {
    least: Level,
    most: Level,
    why: Option<Reason>,
}

impl View<'_> {
    pub(crate) fn wish(&self) -> Wish {
        let file = self.file;
        if let Some(to) = file.moving {
            return Wish::Stay(Reason::Moving { to: to.to });
        }
        let bounds = self.bounds();
        if file.level > bounds.most {
            let to = self.fallback().min(bounds.most).max(bounds.least);
            return self
                .unless_barred(to, Wish::Leave { to, why: bounds.why.unwrap_or(file.why), must: true });
        }
        if file.level < bounds.least {
            let why = bounds.why.unwrap_or(file.why);
            let pin = Wish::Enter { to: bounds.least, why, score: f64::INFINITY };
            let pin = self.unless_barred(bounds.least, pin);
            return if matches!(why, Reason::Ordered(_)) { pin } else { self.unless_settling(pin) };
        }
        if let (true, Some(why)) = (bounds.least == bounds.most, bounds.why) {
            return Wish::Stay(why);
        }
        self.unless_settling(self.by_merit(&bounds))
    }

    /// Where it goes if it has to leave its level.
    pub(crate) fn fallback(&self) -> Level {
        let absorb = &self.outlook.absorb;
        let open = self.bounds().most >= Level::Absorb && self.bar_left_ns(Level::Absorb) == 0;
        if self.file.level == Level::Dax && open && self.outlook.is_absorbable() && !absorb.is_cold() {
            return Level::Absorb;
        }
        Level::Pass
    }

    fn bounds(&self) -> Bounds {
        let ceiling = self.file.seen.sample.ceiling;
        let most = ceiling.map_or(Level::Dax, |ceiling| ceiling.level);
        let kept = ceiling.map(Reason::Ceiling);
        match self.file.ordered() {
            None => Bounds { least: Level::Pass, most, why: kept },
            Some((Order::Pin(level), _)) if level > most => Bounds { least: most, most, why: kept },
            Some((order, why)) => Bounds { least: order.level(), most: order.level(), why: Some(why) },
        }
    }

    fn unless_settling(&self, wish: Wish) -> Wish {
        let left_ns = self.file.stay_left_ns(self.now_ns);
        if left_ns == 0 || matches!(wish, Wish::Stay(_)) {
            wish
        } else {
            Wish::Stay(Reason::Stay { left_ns })
        }
    }

    fn bar_left_ns(&self, level: Level) -> u64 {
        self.file.bar(level).left_ns(self.now_ns)
    }

    fn unless_barred(&self, level: Level, wish: Wish) -> Wish {
        self.barred(level).map_or(wish, Wish::Stay)
    }

    fn barred(&self, level: Level) -> Option<Reason> {
        let left_ns = self.bar_left_ns(level);
        let strikes = self.file.bar(level).strikes;
        (left_ns > 0).then_some(Reason::BackingOff { left_ns, strikes })
    }

    fn by_merit(&self, bounds: &Bounds) -> Wish {
        if let Some((why, must)) = self.reason_to_leave() {
            let to = self.fallback();
            return self.unless_barred(to, Wish::Leave { to, why, must });
        }
        let absorb = (self.file.level == Level::Pass).then(|| self.entry(bounds, Level::Absorb));
        match (absorb, self.file.level) {
            (Some(enter @ Wish::Enter { .. }), _) => enter,
            // Absorbing comes first where it pays: it is coherent whoever else reads, and takes little room.
            (Some(stay), _) if self.outlook.absorb.pays() && self.bar_left_ns(Level::Absorb) == 0 => stay,
            (Some(stay), _) => match self.entry(bounds, Level::Dax) {
                enter @ Wish::Enter { .. } => enter,
                _ => stay,
            },
            (None, Level::Dax) => Wish::Stay(self.file.why),
            (None, _) => self.entry(bounds, Level::Dax),
        }
    }

    /// Why it should not be where it is; and whether each second there costs.
    fn reason_to_leave(&self) -> Option<(Reason, bool)> {
        let file = self.file;
        if file.level == Level::Pass {
            return None;
        }
        let here = self.outlook.of(file.level);
        if file.streaks.loses() {
            return Some((Reason::CostsMore { more_ns: -here.saves_fast_ns }, true));
        }
        if let Some(slow) = self.slow_tail() {
            return Some((slow, true));
        }
        if let Some(outgrown) = self.outgrown() {
            return Some((outgrown, true));
        }
        let cold = Reason::Cold { saves_ns: here.best_ns(), keeps_ns: here.keeps_ns() };
        file.streaks.is_cold().then_some((cold, false))
    }

    fn outgrown(&self) -> Option<Reason> {
        let has_bytes = self.file.room_bytes;
        let needs_bytes = match self.file.level {
            Level::Pass => return None,
            Level::Dax => self.file.refused_bytes?,
            Level::Absorb => {
                let averages = &self.file.seen.averages;
                let a_sync = averages.fast.bytes_a_sync().min(averages.slow.bytes_a_sync());
                // Without any sync nothing waits for the log.
                let larger = self.outlook.absorb.room_bytes > has_bytes && a_sync.is_finite();
                if larger { a_sync as u64 } else { 0 }
            }
        };
        (needs_bytes > has_bytes).then_some(Reason::Outgrown { needs_bytes, has_bytes })
    }

    /// Whether the slowest hundredth of its calls is slower than it would be below, whichever way buckets are read.
    fn slow_tail(&self) -> Option<Reason> {
        let [read, write, sync] = Call::ALL.map(|call| self.tails(call));
        let reads = read.filter(|_| self.file.level == Level::Dax);
        let slow = |tail, (level_ns, lower_ns): (f64, f64)| {
            (level_ns > lower_ns).then_some(Reason::SlowTail { tail, level_ns, lower_ns })
        };
        reads
            .and_then(|tails| slow(Tail::Reads, tails))
            .or_else(|| self.commit_tails(write, sync).and_then(|tails| slow(Tail::Commits, tails)))
    }

    /// The tails of a write and of the sync behind it, together; of a write alone where nothing is synced. What more writes take is
    /// in the mean.
    fn commit_tails(&self, write: Option<(f64, f64)>, sync: Option<(f64, f64)>) -> Option<(f64, f64)> {
        let rates = &self.file.seen.averages.slow;
        if rates.syncs <= rates.writes / 1000.0 {
            return write.filter(|_| self.file.level == Level::Dax);
        }
        let (sync_level, sync_lower) = sync?;
        let (write_level, write_lower) = write.unwrap_or_default();
        Some((sync_level + write_level, sync_lower + write_lower))
    }

    /// The least that the tail of these calls takes at the level, and the most below.
    fn tails(&self, call: Call) -> Option<(f64, f64)> {
        let seen = &self.file.seen;
        let level_ns = seen.served[call.index()].p99_least_ns()?;
        if self.file.level == Level::Absorb && call == Call::Write {
            // What is timed is what absorbing adds to the same write below.
            return Some((level_ns, 0.0));
        }
        Some((level_ns, seen.lower[call.index()].p99_most_ns()?))
    }

    fn entry(&self, bounds: &Bounds, to: Level) -> Wish {
        if let (true, Some(why)) = (to > bounds.most, bounds.why) {
            return Wish::Stay(why);
        }
        if let Some(why) = self.barred(to) {
            return Wish::Stay(why);
        }
        if to == Level::Absorb && !self.outlook.is_absorbable() {
            let (needs_bytes, most_bytes) = (self.outlook.absorb.room_bytes, self.outlook.log_most_bytes);
            return Wish::Stay(Reason::TooLarge { room: Room::Log, needs_bytes, most_bytes });
        }
        let prospect = self.outlook.of(to);
        let for_ns = self.file.seen.idle_ns();
        match self.reason_to_enter(to) {
            // It may be closed, and room would be kept for nobody: if it is not, it is let in when it is used again.
            Some(_) if for_ns > 0 => Wish::Stay(Reason::Idle { for_ns }),
            Some(why) => Wish::Enter { to, why, score: prospect.score() },
            None => Wish::Stay(self.reason_not_to_enter(to)),
        }
    }

    fn reason_to_enter(&self, to: Level) -> Option<Reason> {
        let prospect = self.outlook.of(to);
        let burst = self.file.seen.burst.filter(|_| to == Level::Absorb);
        if let (Some(burst), true) = (burst, self.burst_saves_ns.is_some_and(|ns| ns >= prospect.needs_ns)) {
            return Some(Reason::FastStart { syncs: burst.syncs, in_ns: burst.in_ns });
        }
        let pays = Reason::Pays { saves_ns: prospect.sure_ns(), needs_ns: prospect.needs_ns };
        (self.file.streaks.pays(to) >= PROMOTE_WINDOWS).then_some(pays)
    }

    fn reason_not_to_enter(&self, to: Level) -> Reason {
        let prospect = self.outlook.of(to);
        if prospect.pays() {
            return Reason::Settling { windows: self.file.streaks.pays(to), of: PROMOTE_WINDOWS };
        }
        if prospect.best_ns() > 0.0 {
            return Reason::TooLittle { saves_ns: prospect.sure_ns(), needs_ns: prospect.needs_ns };
        }
        let slow = &self.file.seen.averages.slow;
        if to == Level::Absorb && slow.syncs > 0.0 && slow.written_bytes > 0.0 {
            return Reason::LongBetweenSyncs {
                bytes: slow.bytes_a_sync(),
                log_ns: self.outlook.log_a_sync_ns,
                sync_ns: self.outlook.lower_sync_ns,
            };
        }
        Reason::NothingToSave
    }
}
