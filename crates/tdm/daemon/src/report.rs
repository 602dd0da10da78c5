//! All that there is to tell.

use std::path::PathBuf;

use byway_tdm_engine::table::{Counted, Entry, Level, Standing, Why};
use byway_tdm_policy::{Explanation, Order, Reason};
use byway_tdm_region::DeviceRegion;
use serde::{Deserialize, Serialize};

use crate::estate::Estate;

/// What a daemon has and does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The memory.
    pub region: RegionReport,
    /// Users that came.
    pub users: Vec<UserReport>,
    /// Times that a program of another PID namespace came, which is not served.
    pub turned_away: u64,
    /// Users who cannot be served, whose programs the kernel serves alone.
    pub unserved: Vec<UnservedReport>,
}

/// A user who cannot be served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnservedReport {
    /// Who.
    pub uid: u32,
    /// Times that a program of his came.
    pub programs: u64,
    /// Why the last one was not served.
    pub why: String,
}

/// The memory that a daemon owns.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegionReport {
    /// As it was asked for.
    pub description: String,
    /// Its length.
    pub len_bytes: u64,
    /// From where on it keeps what is stored.
    pub domain: String,
    /// Why that is so.
    pub why: String,
    /// It only stands for a device.
    pub is_emulated: bool,
    /// Its cache, if it has one that is told of.
    pub cache: Option<CacheReport>,
}

/// The cache of a device in front of its flash.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CacheReport {
    /// Its room.
    pub bytes: u64,
    /// What is in it.
    pub resident_bytes: u64,
    /// Touches that found their page.
    pub hits: u64,
    /// Pages that were brought or made.
    pub misses: u64,
    /// Touches that waited for flash.
    pub waits: u64,
    /// Pages that it let go of.
    pub evictions: u64,
}

impl CacheReport {
    /// What a region tells of its own.
    pub(crate) fn of(region: &dyn DeviceRegion) -> Option<Self> {
        let stats = region.stats();
        Some(Self {
            bytes: stats.cache_bytes?,
            resident_bytes: stats.resident_bytes,
            hits: stats.hits,
            misses: stats.misses,
            waits: stats.blocking_touches,
            evictions: stats.evictions,
        })
    }
}

/// One user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UserReport {
    /// Who.
    pub uid: u32,
    /// Places for logs.
    pub rings: usize,
    /// Those that are taken.
    pub rings_taken: usize,
    /// Bytes of each.
    pub ring_bytes: u64,
    /// Files that were opened and have no entry.
    pub unlisted: u64,
    /// How often files were opened for writing that can have no entry.
    pub unserved: Vec<UnservedOpens>,
    /// Files that were opened for writing.
    pub files: Vec<FileReport>,
}

/// Files that cannot be served, for one reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnservedOpens {
    /// How often one was opened for writing.
    pub opens: u64,
    /// Why it cannot be.
    pub why: String,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileReport {
    /// Where it is; nobody has told of one that is not absorbed.
    pub path: Option<PathBuf>,
    /// Device, inode and birth time.
    pub key: [u64; 3],
    /// How it is served.
    pub level: String,
    /// Why.
    pub why: String,
    /// Why the policy has it there, with the numbers that led to it.
    pub reason: Option<String>,
    /// Everything that the policy knows of it, line by line.
    pub judged: Vec<String>,
    /// Something unseen may write it, so it is not promoted.
    pub is_barred: bool,
    /// Somebody wants it served.
    pub is_pinned: bool,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Calls that synced.
    pub syncs: u64,
    /// How many there are a second now, by the average over one; none of a file that is not judged.
    pub syncs_a_second: f64,
    /// Those that a fence answered.
    pub saved_syncs: u64,
    /// Those that went below.
    pub lower_syncs: u64,
    /// What these took, in nanoseconds.
    pub lower_sync_ns: u64,
    /// Bytes of its log that are not retired.
    pub kept_bytes: u64,
    /// How often something made its log stop until a real sync.
    pub suspended: u64,
    /// Every sync fails with this error number.
    pub error: Option<i32>,
}

impl Estate {
    /// What is told of this user.
    pub(crate) fn report(&self) -> UserReport {
        let (held, homes) = (self.all_held(), self.homes.all());
        let file = |entry: Entry<'_>| {
            let held = held.iter().find(|held| held.entry == entry.index());
            let housed = homes.iter().find(|housed| housed.entry == entry.index());
            let path = held.map(|held| &held.path).or(housed.map(|housed| &housed.path)).cloned();
            file_report(entry, path, self.judge().explain(self.now_ns(), entry.index()))
        };
        let files = self.board.entries().filter_map(file).collect();
        let rings = &self.files().rings;
        let (places, taken) = rings.places();
        UserReport {
            uid: self.uid,
            rings: places,
            rings_taken: taken,
            ring_bytes: rings.ring_bytes(),
            unlisted: self.board.unlisted(),
            unserved: self.board.unserved().map(UnservedOpens::of).collect(),
            files,
        }
    }
}

impl UnservedOpens {
    fn of((why, opens): (Why, u64)) -> Self {
        Self { opens, why: why.sentence().to_owned() }
    }
}

fn file_report(entry: Entry<'_>, path: Option<PathBuf>, told: Option<Explanation>) -> Option<FileReport> {
    let (key, standing, counters) = (entry.key()?, entry.standing(), entry.counters());
    let judged = told.map(|told| told.to_string()).unwrap_or_default();
    Some(FileReport {
        path,
        key: [key.device, key.inode, key.born_ns],
        level: standing.level.name().to_owned(),
        why: standing.why.sentence().to_owned(),
        reason: match &told {
            Some(told) => reason(told, standing),
            None => (standing == Standing::NEW && counters.get(Counted::Syncs) == 0)
                .then(|| "nobody has synced it".to_owned()),
        },
        judged: judged.lines().map(str::to_owned).collect(),
        syncs_a_second: told.as_ref().map_or(0.0, |told| told.fast.syncs),
        is_barred: standing.is_barred,
        is_pinned: entry.housed().is_wished()
            || told.is_some_and(|told| matches!(told.order, Some(Order::Pin(_)))),
        writes: counters.get(Counted::Writes),
        written_bytes: counters.get(Counted::WrittenBytes),
        syncs: counters.get(Counted::Syncs),
        saved_syncs: counters.get(Counted::SavedSyncs),
        lower_syncs: counters.get(Counted::LowerSyncs),
        lower_sync_ns: counters.get(Counted::LowerSyncNs),
        kept_bytes: entry.cursor().kept_bytes(),
        suspended: counters.get(Counted::Suspended),
        error: entry.cursor().error(),
    })
}

/// What the policy says of a file where it is. The board alone knows why one could not be absorbed.
fn reason(told: &Explanation, standing: Standing) -> Option<String> {
    if told.level > Level::Pass {
        return Some(told.why.to_string());
    }
    match told.held.unwrap_or(told.why) {
        Reason::Ceiling(_) | Reason::MoveFailed { .. } | Reason::TakenDown(_) => None,
        Reason::BackingOff { .. } if standing.why != Why::Slower => None,
        reason => Some(reason.to_string()),
    }
}
