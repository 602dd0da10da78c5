//! Everything that is known of a file, for `byway tdm explain FILE`.

use std::fmt;

use crate::averages::Rates;
use crate::file::File;
use crate::level::{FileId, Level};
use crate::order::Order;
use crate::outlook::{Outlook, Prospect};
use crate::past::Past;
use crate::reason::Reason;
use crate::sample::Call;
use crate::scales::Scaled;
use crate::units::{Bytes, Ns, Short};

/// Why a file is where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explanation {
    /// The file.
    pub file: FileId,
    /// Where it is.
    pub level: Level,
    /// For how long.
    pub for_ns: u64,
    /// Room that it has there.
    pub room_bytes: u64,
    /// Why it is there.
    pub why: Reason,
    /// Why it is nowhere else.
    pub held: Option<Reason>,
    /// Where it was before.
    pub past: Past,
    /// What was said of it.
    pub order: Option<Order>,
    /// Averages over a second.
    pub fast: Rates,
    /// Averages over fifteen.
    pub slow: Rates,
    /// What a sync takes: below, and by each other level.
    pub sync_ns: [f64; 3],
    /// Where that is known from: `measured`, `of other files`, `assumed`.
    pub sync_known_from: [&'static str; 3],
    /// What absorbing would do.
    pub absorb: Prospect,
    /// What device memory would do.
    pub dax: Prospect,
    /// For how long a level is not tried, in the order of levels, since it was worse or could not be reached.
    pub barred_ns: [u64; 3],
}

impl Explanation {
    pub(crate) fn new(now_ns: u64, id: FileId, file: &File, outlook: &Outlook, costs: &Scaled<'_>) -> Self {
        Self {
            file: id,
            level: file.level,
            for_ns: now_ns.saturating_sub(file.since_ns),
            room_bytes: file.room_bytes,
            why: file.why,
            held: file.held,
            past: file.past,
            order: file.ordered().map(|(order, _)| order),
            fast: file.seen.averages.fast,
            slow: file.seen.averages.slow,
            sync_ns: Level::ALL.map(|level| costs.sync_ns(level)),
            sync_known_from: Level::ALL.map(|level| costs.known_from(level, Call::Sync)),
            absorb: outlook.absorb,
            dax: outlook.dax,
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
        for stay in self.past.stays() {
            writeln!(f, "before that {} for {}: {}", stay.level, Ns(stay.for_ns as f64), stay.why)?;
        }
        write_rates(f, "1 s", &self.fast)?;
        write_rates(f, "15 s", &self.slow)?;
        for level in Level::ALL {
            let (ns, from) = (self.sync_ns[level.index()], self.sync_known_from[level.index()]);
            writeln!(f, "a sync by {level}: {} ({from})", Ns(ns))?;
        }
        for prospect in [&self.absorb, &self.dax] {
            write_prospect(f, prospect, self.barred_ns[prospect.level.index()])?;
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

fn write_prospect(f: &mut fmt::Formatter<'_>, prospect: &Prospect, barred_ns: u64) -> fmt::Result {
    write!(
        f,
        "{} would save {} (1 s) and {} (15 s) of each second, needs {} of it and {} of room; {} for each MiB",
        prospect.level,
        Ns(prospect.saves_fast_ns),
        Ns(prospect.saves_slow_ns),
        Ns(prospect.needs_ns),
        Bytes(prospect.room_bytes as f64),
        Ns(prospect.score())
    )?;
    if barred_ns > 0 {
        write!(f, "; not tried for {}", Ns(barred_ns as f64))?;
    }
    writeln!(f)
}
