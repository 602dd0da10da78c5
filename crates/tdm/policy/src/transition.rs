//! The transition that a file would make if device memory were its alone.

use crate::config::Config;
use crate::estimate::{CostEstimate, burst_saves_ns};
use crate::file::File;
use crate::hysteresis::PROMOTE_WINDOWS;
use crate::level::Level;
use crate::order::Order;
use crate::reason::{Reason, Tail};
use crate::room::Room;
use crate::sample::Call;
use crate::scales::Scales;

/// A desired transition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Transition {
    /// No transition, with the reason.
    Stay(Reason),
    /// To a lower level. With `must`, regardless of the cap on moves.
    Leave { to: Level, why: Reason, must: bool },
    /// To a higher level, in the order of scores.
    Enter { to: Level, why: Reason, score: f64 },
}

/// Inputs of the evaluation.
pub(crate) struct View<'a> {
    now_ns: u64,
    file: &'a File,
    estimate: CostEstimate,
    /// Saving of ABSORB during a burst, if there is one.
    burst_saves_ns: Option<f64>,
}

/// Levels open to a file, and why others are not.
struct Bounds {
    least: Level,
    most: Level,
    why: Option<Reason>,
}

impl<'a> View<'a> {
    /// A file at this time, with costs learnt from `all` files.
    pub(crate) fn new(now_ns: u64, file: &'a File, config: &Config, all: &Scales) -> Self {
        let costs = file.costs(config, all);
        let burst_saves_ns = file.stats().burst().map(|burst| burst_saves_ns(&costs, &burst.rates()));
        Self { now_ns, file, estimate: file.estimate(config, all), burst_saves_ns }
    }

    /// The transition that it would make.
    pub(crate) fn transition(&self) -> Transition {
        let file = self.file;
        if let Some(to) = file.moving_to() {
            return Transition::Stay(Reason::Moving { to });
        }
        let bounds = self.bounds();
        if file.level() > bounds.most {
            let to = self.fallback().min(bounds.most).max(bounds.least);
            return self.unless_barred(
                to,
                Transition::Leave { to, why: bounds.why.unwrap_or(file.why()), must: true },
            );
        }
        if file.level() < bounds.least {
            let why = bounds.why.unwrap_or(file.why());
            let pin = Transition::Enter { to: bounds.least, why, score: f64::INFINITY };
            let pin = self.unless_barred(bounds.least, pin);
            return if matches!(why, Reason::Ordered(_)) { pin } else { self.unless_settling(pin) };
        }
        if let (true, Some(why)) = (bounds.least == bounds.most, bounds.why) {
            return Transition::Stay(why);
        }
        self.unless_settling(self.by_benefit(&bounds))
    }

    /// Level to go to when it must leave its own.
    pub(crate) fn fallback(&self) -> Level {
        let absorb = &self.estimate.absorb;
        let open = self.bounds().most >= Level::Absorb && self.barred(Level::Absorb).is_none();
        if self.file.level() == Level::Dax && open && self.estimate.is_absorbable() && !absorb.is_cold() {
            return Level::Absorb;
        }
        Level::Pass
    }

    fn bounds(&self) -> Bounds {
        let cap = self.file.stats().sample().cap;
        let most = cap.map_or(Level::Dax, |cap| cap.level);
        let kept = cap.map(|cap| cap.why);
        match self.file.ordered() {
            None => Bounds { least: Level::Pass, most, why: kept },
            Some((Order::Pin(level), _)) if level > most => Bounds { least: most, most, why: kept },
            Some((order, why)) => Bounds { least: order.level(), most: order.level(), why: Some(why) },
        }
    }

    fn unless_settling(&self, transition: Transition) -> Transition {
        let left_ns = self.file.stay_left_ns(self.now_ns);
        if left_ns == 0 || matches!(transition, Transition::Stay(_)) {
            transition
        } else {
            Transition::Stay(Reason::Stay { left_ns })
        }
    }

    fn unless_barred(&self, level: Level, transition: Transition) -> Transition {
        self.barred(level).map_or(transition, Transition::Stay)
    }

    fn barred(&self, level: Level) -> Option<Reason> {
        self.file.bar(level).reason(self.now_ns)
    }

    fn by_benefit(&self, bounds: &Bounds) -> Transition {
        if let Some((why, must)) = self.reason_to_leave() {
            let to = self.fallback();
            return self.unless_barred(to, Transition::Leave { to, why, must });
        }
        let absorb = (self.file.level() == Level::Pass).then(|| self.entry(bounds, Level::Absorb));
        match (absorb, self.file.level()) {
            (Some(enter @ Transition::Enter { .. }), _) => enter,
            // ABSORB first, if it pays: it is coherent for all readers and takes little room.
            (Some(stay), _) if self.estimate.absorb.pays() && self.barred(Level::Absorb).is_none() => stay,
            (Some(stay), _) => match self.entry(bounds, Level::Dax) {
                enter @ Transition::Enter { .. } => enter,
                _ => stay,
            },
            (None, Level::Dax) => Transition::Stay(self.file.why()),
            (None, _) => self.entry(bounds, Level::Dax),
        }
    }

    /// Why it should leave its level, and whether each second there costs.
    fn reason_to_leave(&self) -> Option<(Reason, bool)> {
        let file = self.file;
        if file.level() == Level::Pass {
            return None;
        }
        let here = self.estimate.of(file.level());
        if file.hysteresis().loses() {
            return Some((Reason::CostsMore { more_ns: -here.saves_fast_ns }, true));
        }
        if let Some(slow) = self.slow_tail() {
            return Some((slow, true));
        }
        if let Some(outgrown) = self.outgrown() {
            return Some((outgrown, true));
        }
        let cold = Reason::Cold { saves_ns: here.best_ns(), keeps_ns: here.keeps_ns() };
        file.hysteresis().is_cold().then_some((cold, false))
    }

    fn outgrown(&self) -> Option<Reason> {
        let has_bytes = self.file.room_bytes();
        let needs_bytes = match self.file.level() {
            Level::Pass => return None,
            Level::Dax => self.file.refused_bytes()?,
            Level::Absorb => {
                let averages = self.file.stats().averages();
                let a_sync = averages.fast.bytes_a_sync().min(averages.slow.bytes_a_sync());
                // Without syncs no call waits for the log.
                let larger = self.estimate.absorb.room_bytes > has_bytes && a_sync.is_finite();
                if larger { a_sync as u64 } else { 0 }
            }
        };
        (needs_bytes > has_bytes).then_some(Reason::NeedsMore { needs_bytes, has_bytes })
    }

    /// Whether the 99th percentile of its calls is worse than below, for any reading of the buckets.
    fn slow_tail(&self) -> Option<Reason> {
        let [read, write, sync] = Call::ALL.map(|call| self.tails(call));
        let reads = read.filter(|_| self.file.level() == Level::Dax);
        let slow = |tail, (level_ns, lower_ns): (f64, f64)| {
            (level_ns > lower_ns).then_some(Reason::SlowTail { tail, level_ns, lower_ns })
        };
        reads
            .and_then(|tails| slow(Tail::Reads, tails))
            .or_else(|| self.commit_tails(write, sync).and_then(|tails| slow(Tail::Commits, tails)))
    }

    /// Percentiles of a write plus the sync that follows; of a write alone if the file is not synced. Further writes count in the mean.
    fn commit_tails(&self, write: Option<(f64, f64)>, sync: Option<(f64, f64)>) -> Option<(f64, f64)> {
        let rates = &self.file.stats().averages().slow;
        if rates.syncs <= rates.writes / 1000.0 {
            return write.filter(|_| self.file.level() == Level::Dax);
        }
        let (sync_level, sync_lower) = sync?;
        let (write_level, write_lower) = write.unwrap_or_default();
        Some((sync_level + write_level, sync_lower + write_lower))
    }

    /// Lower bound of the percentile at the level, upper bound below.
    fn tails(&self, call: Call) -> Option<(f64, f64)> {
        let stats = self.file.stats();
        let level_ns = stats.level_p99_least_ns(call)?;
        if self.file.level() == Level::Absorb && call == Call::Write {
            // Timed is what ABSORB adds to the write below.
            return Some((level_ns, 0.0));
        }
        Some((level_ns, stats.lower_p99_most_ns(call)?))
    }

    fn entry(&self, bounds: &Bounds, to: Level) -> Transition {
        if let (true, Some(why)) = (to > bounds.most, bounds.why) {
            return Transition::Stay(why);
        }
        if let Some(why) = self.barred(to) {
            return Transition::Stay(why);
        }
        if to == Level::Absorb && !self.estimate.is_absorbable() {
            let (needs_bytes, most_bytes) = (self.estimate.absorb.room_bytes, self.estimate.log_most_bytes);
            return Transition::Stay(Reason::TooLarge { room: Room::Log, needs_bytes, most_bytes });
        }
        let level_estimate = self.estimate.of(to);
        let for_ns = self.file.stats().idle_ns();
        match self.reason_to_enter(to) {
            // It may be closed, and its room unused: admit it when it is used again.
            Some(_) if for_ns > 0 => Transition::Stay(Reason::Idle { for_ns }),
            Some(why) => Transition::Enter { to, why, score: level_estimate.score() },
            None => Transition::Stay(self.reason_not_to_enter(to)),
        }
    }

    fn reason_to_enter(&self, to: Level) -> Option<Reason> {
        let level_estimate = self.estimate.of(to);
        let burst = self.file.stats().burst().filter(|_| to == Level::Absorb);
        if let (Some(burst), true) =
            (burst, self.burst_saves_ns.is_some_and(|ns| ns >= level_estimate.needs_ns))
        {
            return Some(burst.reason());
        }
        let pays = Reason::Pays { saves_ns: level_estimate.sure_ns(), needs_ns: level_estimate.needs_ns };
        (self.file.hysteresis().pays(to) >= PROMOTE_WINDOWS).then_some(pays)
    }

    fn reason_not_to_enter(&self, to: Level) -> Reason {
        let level_estimate = self.estimate.of(to);
        if level_estimate.pays() {
            return Reason::Settling { windows: self.file.hysteresis().pays(to), of: PROMOTE_WINDOWS };
        }
        if level_estimate.best_ns() > 0.0 {
            return Reason::TooLittle {
                saves_ns: level_estimate.sure_ns(),
                needs_ns: level_estimate.needs_ns,
            };
        }
        let slow = &self.file.stats().averages().slow;
        if to == Level::Absorb && slow.syncs > 0.0 && slow.written_bytes > 0.0 {
            return Reason::LongBetweenSyncs {
                bytes: slow.bytes_a_sync(),
                log_ns: self.estimate.log_a_sync_ns,
                sync_ns: self.estimate.lower_sync_ns,
            };
        }
        Reason::NothingToSave
    }
}
