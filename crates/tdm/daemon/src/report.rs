//! The daemon's report.

use std::path::{Path, PathBuf};

use byway_tdm_engine::table::{Counted, Entry, Level, LevelState};
use byway_tdm_policy::{Explanation, Order, Reason};
use byway_tdm_region::DeviceRegion;
use serde::{Deserialize, Serialize};

use crate::tenant::Tenant;

/// State of a daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Start of the daemon, and so of its counters, in seconds since 1970; 0 from a daemon that does not say.
    #[serde(default)]
    pub since_unix_s: u64,
    /// Seconds since then, rounded up, regardless of changes of the clock.
    #[serde(default)]
    pub counting_s: u64,
    /// Its region.
    pub region: RegionReport,
    /// Users with a partition.
    pub users: Vec<UserReport>,
    /// Connections refused from other PID namespaces.
    pub turned_away: u64,
    /// Users who cannot be served.
    pub unserved: Vec<UnservedReport>,
}

/// A user who cannot be served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnservedReport {
    /// User number.
    pub uid: u32,
    /// Number of the user's programs that connected.
    pub programs: u64,
    /// Reason of the last refusal.
    pub why: String,
}

/// The daemon's region.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegionReport {
    /// Its description, as opened.
    pub description: String,
    /// Its bytes.
    pub len_bytes: u64,
    /// Its persistence domain.
    pub domain: String,
    /// The reason for that domain.
    pub why: String,
    /// It is emulated memory.
    pub is_emulated: bool,
    /// Its cache, if it is known.
    pub cache: Option<CacheReport>,
}

/// A device's cache in front of its flash.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CacheReport {
    /// Its bytes.
    pub bytes: u64,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Touches of resident pages.
    pub hits: u64,
    /// Pages loaded or created.
    pub misses: u64,
    /// Touches that waited for flash.
    pub waits: u64,
    /// Pages evicted.
    pub evictions: u64,
}

impl CacheReport {
    /// The cache of a region.
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
    /// User number.
    pub uid: u32,
    /// Places for logs.
    pub rings: usize,
    /// Places in use.
    pub rings_taken: usize,
    /// Bytes of each.
    pub ring_bytes: u64,
    /// Files in the filter: opened without an entry.
    pub unlisted: u64,
    /// Opens of files that can have no entry.
    pub unserved: Vec<UnservedOpens>,
    /// Files that were opened for writing.
    pub files: Vec<FileReport>,
}

/// Opens of files that cannot be served, for one reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnservedOpens {
    /// Opens for writing.
    pub opens: u64,
    /// The reason.
    pub why: String,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileReport {
    /// Its path; unknown for a file at PASS.
    pub path: Option<PathBuf>,
    /// Device, inode and birth time.
    pub key: [u64; 3],
    /// Its level.
    pub level: String,
    /// Reason of the level.
    pub why: String,
    /// Reason of the policy, with figures.
    pub reason: Option<String>,
    /// Everything that the policy knows of it, line by line.
    pub judged: Vec<String>,
    /// Barred: something may write it without records.
    pub is_barred: bool,
    /// Pinned.
    pub is_pinned: bool,
    /// Writing calls.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Syncs a second, averaged over 1 s; zero for a file that is not evaluated.
    pub syncs_a_second: f64,
    /// Syncs done by a fence.
    pub saved_syncs: u64,
    /// Real syncs.
    pub lower_syncs: u64,
    /// Nanoseconds in real syncs.
    pub lower_sync_ns: u64,
    /// Bytes of records not retired.
    pub kept_bytes: u64,
    /// Times that the log was suspended.
    pub suspended: u64,
    /// Error number of every sync.
    pub error: Option<i32>,
}

impl Tenant {
    /// Reports this user.
    pub(crate) fn report(&self) -> UserReport {
        let (absorbed, promoted_files) = (self.all_absorbed(), self.promoted_files().all());
        let file = |entry: Entry<'_>| {
            let absorbed = absorbed.iter().find(|absorbed| absorbed.entry() == entry.index());
            let promoted = promoted_files.iter().find(|promoted| promoted.entry() == entry.index());
            let path = absorbed.map(|absorbed| absorbed.path()).or(promoted.map(|promoted| promoted.path()));
            file_report(
                entry,
                path.map(Path::to_path_buf),
                self.evaluator().explain(self.now_ns(), entry.index()),
            )
        };
        let reports = self.file_table().entries().filter_map(file).collect();
        let files = self.files();
        let (places, taken) = files.rings().places();
        UserReport {
            uid: self.uid(),
            rings: places,
            rings_taken: taken,
            ring_bytes: files.rings().ring_bytes(),
            unlisted: self.file_table().unlisted(),
            unserved: self.file_table().unserved().map(UnservedOpens::of).collect(),
            files: reports,
        }
    }
}

impl UnservedOpens {
    fn of((why, opens): (Reason, u64)) -> Self {
        Self { opens, why: why.sentence().to_owned() }
    }
}

fn file_report(entry: Entry<'_>, path: Option<PathBuf>, reported: Option<Explanation>) -> Option<FileReport> {
    let (key, level_state, counters) = (entry.key()?, entry.level_state(), entry.counters());
    let judged = reported.map(|reported| reported.to_string()).unwrap_or_default();
    Some(FileReport {
        path,
        key: [key.device, key.inode, key.born_ns],
        level: level_state.level.name().to_owned(),
        why: level_state.why.sentence().to_owned(),
        reason: match &reported {
            Some(reported) => reason(reported, level_state),
            None => (level_state == LevelState::NEW && counters.get(Counted::Syncs) == 0)
                .then(|| "no program has synced it".to_owned()),
        },
        judged: judged.lines().map(str::to_owned).collect(),
        syncs_a_second: reported.as_ref().map_or(0.0, |reported| reported.fast.syncs),
        is_barred: level_state.is_barred,
        is_pinned: entry.resident_state().is_promotion_requested()
            || reported.is_some_and(|reported| matches!(reported.order, Some(Order::Pin(_)))),
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

/// Reason of the policy for the current level. Why a file could not be absorbed is in the shared file table only.
fn reason(reported: &Explanation, level_state: LevelState) -> Option<String> {
    if reported.level > Level::Pass {
        return Some(reported.why.to_string());
    }
    match reported.held.unwrap_or(reported.why) {
        Reason::MoveFailed { .. } => None,
        Reason::BackingOff { .. } if level_state.why != Reason::Slower => None,
        reason => (!reason.is_stored()).then(|| reason.to_string()),
    }
}
