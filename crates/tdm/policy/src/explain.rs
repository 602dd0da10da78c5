//! Explanation of a file's level, for `byway tdm explain FILE`.

use std::fmt;

use crate::averages::Rates;
use crate::estimate::{CostEstimate, LevelEstimate, SECOND_NS};
use crate::file::File;
use crate::history::History;
use crate::level::{FileId, Level};
use crate::order::Order;
use crate::reason::Reason;
use crate::sample::Call;
use crate::scales::Scaled;
use crate::units::{Bytes, Ns, Short};

/// Why a file is at its level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explanation {
    /// The file.
    pub file: FileId,
    /// Its level.
    pub level: Level,
    /// Nanoseconds at this level.
    pub for_ns: u64,
    /// Bytes of device memory that it has.
    pub room_bytes: u64,
    /// Reason of the level.
    pub why: Reason,
    /// Reason why it does not move.
    pub held: Option<Reason>,
    /// Earlier levels.
    pub history: History,
    /// Order in force.
    pub order: Option<Order>,
    /// Averages over 1 s.
    pub fast: Rates,
    /// Averages over 15 s.
    pub slow: Rates,
    /// Time of a sync at each level.
    pub sync_ns: [f64; 3],
    /// Source of that figure: measured, measured of other files, or assumed.
    pub sync_known_from: [&'static str; 3],
    /// Estimate for ABSORB.
    pub absorb: LevelEstimate,
    /// Estimate for DAX.
    pub dax: LevelEstimate,
    /// Backoff left of each level, in ns.
    pub barred_ns: [u64; 3],
}

impl Explanation {
    pub(crate) fn new(
        now_ns: u64,
        id: FileId,
        file: &File,
        estimate: &CostEstimate,
        costs: &Scaled<'_>,
    ) -> Self {
        Self {
            file: id,
            level: file.level(),
            for_ns: file.for_ns(now_ns),
            room_bytes: file.room_bytes(),
            why: file.why(),
            held: file.held(),
            history: *file.history(),
            order: file.ordered().map(|(order, _)| order),
            fast: file.stats().averages().fast,
            slow: file.stats().averages().slow,
            sync_ns: Level::ALL.map(|level| costs.sync_ns(level)),
            sync_known_from: Level::ALL.map(|level| costs.known_from(level, Call::Sync)),
            absorb: estimate.absorb,
            dax: estimate.dax,
            barred_ns: Level::ALL.map(|level| file.bar(level).left_ns(now_ns)),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.level, Ns(self.for_ns as f64))?;
        if self.level > Level::Pass {
            write!(f, ", with {}", Bytes(self.room_bytes as f64))?;
        }
        writeln!(f, ": {}", self.why)?;
        if let Some(held) = self.held.filter(|held| *held != self.why) {
            writeln!(f, "not elsewhere: {held}")?;
        }
        for stay in self.history.stays() {
            writeln!(f, "before that {} for {}: {}", stay.level, Ns(stay.for_ns as f64), stay.why)?;
        }
        write_rates(f, "1 s", &self.fast)?;
        write_rates(f, "15 s", &self.slow)?;
        for level in Level::ALL {
            let (ns, from) = (self.sync_ns[level.index()], self.sync_known_from[level.index()]);
            writeln!(f, "a sync by {level}: {} ({from})", Ns(ns))?;
        }
        for level_estimate in [&self.absorb, &self.dax] {
            write_level_estimate(f, level_estimate, self.barred_ns[level_estimate.level.index()])?;
        }
        Ok(())
    }
}

fn write_rates(f: &mut fmt::Formatter<'_>, window: &str, rates: &Rates) -> fmt::Result {
    writeln!(
        f,
        "each second, over {window}: {} syncs, {} writes of {} in all, {} reads of {}",
        Short(rates.syncs),
        Short(rates.writes),
        Bytes(rates.written_bytes),
        Short(rates.reads),
        Bytes(rates.read_bytes)
    )
}

fn write_level_estimate(
    f: &mut fmt::Formatter<'_>,
    level_estimate: &LevelEstimate,
    barred_ns: u64,
) -> fmt::Result {
    let LevelEstimate { level, saves_fast_ns, saves_slow_ns, needs_ns, room_bytes } = *level_estimate;
    let (fast, slow, needs) = (Ns(saves_fast_ns), Ns(saves_slow_ns), Ns(needs_ns));
    write!(
        f,
        "{level} would save {fast} of waiting a second with the calls of the last 1 s, {slow} with those of the last 15 s; its moves \
         cost {needs} a second"
    )?;
    if barred_ns > 0 {
        write!(f, "; not tried for {}", Ns(barred_ns as f64))?;
    }
    writeln!(f)?;
    if level_estimate.best_ns() > SECOND_NS {
        writeln!(
            f,
            "(more than 1 s a second: so many calls would take longer than that without {level}, or several threads would wait at once)"
        )?;
    }
    let (room, score) = (Bytes(room_bytes as f64), Ns(level_estimate.score()));
    writeln!(
        f,
        "{level} needs {room} of device memory, for which files compete by the lower saving, at most 1 s, for each MiB: here {score}"
    )
}
