//! Texts for regions, files and recoveries.

use std::path::Path;

use byway_console::size::{counted, human};
use byway_console::table::time;

use byway_tdm_daemon::{CacheReport, FileReport, Outcome, RecoveredFile, RegionReport, UserReport};
use byway_tdm_engine::table::Reason;
use byway_tdm_region::Domain;

/// A region with its persistence.
pub fn region(region: &RegionReport) -> String {
    let domain = Domain::ALL.into_iter().find(|domain| domain.name() == region.domain);
    let keeps = match domain {
        None | Some(Domain::Volatile) => "keeps nothing over a loss of power, so that no sync is spared",
        Some(Domain::PageSync) => "keeps what its pages were synced with",
        Some(Domain::LineFlush) => "keeps what has left the processor's caches",
        Some(Domain::CpuCache) => "keeps what was stored, the processor's caches included",
    };
    let (what, len) =
        (if region.is_emulated { "emulated memory" } else { "memory" }, human(region.len_bytes));
    format!("{}: {len} of {what}, {} ({keeps}): {}", region.description, region.domain, region.why)
}

/// Result of a recovery.
pub fn recovered(file: &RecoveredFile) -> String {
    let path = file.path.display();
    match &file.outcome {
        Outcome::Adopted => format!("{path}: programs may still write it, and it goes on being absorbed"),
        Outcome::Synced => format!("{path}: it was synced below, and nothing of it is left in the region"),
        Outcome::Replayed { records, data_bytes } => {
            format!("{path}: {}, {}", written_back(*records), human(*data_bytes))
        }
        Outcome::Returned { data_bytes } => {
            format!("{path}: it was DAX-resident, and all of it was written back, {}", human(*data_bytes))
        }
        Outcome::Damaged { records } => format!(
            "{path}: DAMAGED: {} up to a broken one, and what was acknowledged behind it is gone; its log is left",
            written_back(*records)
        ),
        Outcome::DamagedSlot { slot, is_freed: false } => format!(
            "{path}: DAMAGED: what slot {slot} of its table says cannot be read, so that its log's owner is unknown; it is left, and \
             nothing is served (`byway tdm recover --force` gives its room back)"
        ),
        Outcome::DamagedSlot { slot, is_freed: true } => {
            format!(
                "{path}: DAMAGED: slot {slot} of its table is given back, and what was acknowledged by it is gone"
            )
        }
        Outcome::Missing => format!(
            "{path}: it is not there, nor under another name in that folder; its log is left until it is \
             (`byway tdm recover --forget` gives its room back)"
        ),
        Outcome::Forgotten => {
            format!("{path}: its log could not be written back, and its room is given back")
        }
        Outcome::WrittenSince => format!(
            "{path}: it was written since the system was started, so its records may be older than it is; its log is left \
             (`byway tdm recover --force` writes them over it)"
        ),
        Outcome::Failed { why } => {
            format!("{path}: its records could not be written back, and its log is left: {why}")
        }
    }
}

fn written_back(records: u64) -> String {
    let verb = if records == 1 { "was" } else { "were" };
    format!("{} {verb} written back", counted(records, "record"))
}

/// A file's path, or its number if the path is unknown.
pub fn name(file: &FileReport) -> String {
    let number = || {
        let [device, inode, _] = file.key;
        format!("inode {inode} of device {}:{}", device >> 32, device & 0xffff_ffff)
    };
    file.path.as_deref().map_or_else(number, |path| path.display().to_string())
}

/// Statistics of a device's cache.
pub fn cache(cache: &CacheReport) -> String {
    let CacheReport { hits, waits, .. } = cache;
    let ([resident, room], pages) =
        ([cache.resident_bytes, cache.bytes].map(human), counted(cache.evictions, "page"));
    format!(
        "{resident} of {room} resident; touches: {hits} found their page, {waits} waited for flash; {pages} evicted"
    )
}

/// Reason of a file's level; the policy's, with figures, if it was evaluated.
pub fn reason(file: &FileReport) -> &str {
    file.reason.as_deref().unwrap_or(&file.why)
}

/// A file's level and what that saved, a sentence each.
pub fn explained(path: &Path, file: &FileReport, user: &UserReport) -> Vec<String> {
    let mut said = vec![format!("{} is at {}: {}.", path.display(), file.level, reason(file))];
    if file.is_pinned {
        said.push("It is pinned: it stays where it is however seldom it is synced.".to_owned());
    }
    if file.is_barred {
        let until = if file.why == Reason::ByHand.sentence() {
            "`byway tdm unpin` takes that back"
        } else {
            "it is made anew"
        };
        said.push(format!("It stays with the kernel until {until}."));
    }
    if let Some(error) = file.error {
        let error = std::io::Error::from_raw_os_error(error);
        said.push(format!("A sync of it failed below, and every one does since: {error}."));
    }
    said.push(written(file));
    said.extend(synced(file));
    said.extend(logged(file, user));
    // The first line repeats level and reason.
    said.extend(file.judged.iter().skip(1).cloned());
    said
}

fn written(file: &FileReport) -> String {
    match file.writes {
        0 => "Nothing was written to it yet by programs that are served.".to_owned(),
        writes => {
            let mean = human(file.written_bytes / writes);
            let calls = counted(writes, "call");
            format!("{calls} wrote {} to it, {mean} each on the average.", human(file.written_bytes))
        }
    }
}

fn synced(file: &FileReport) -> Option<String> {
    if file.syncs == 0 {
        return Some("It was never synced by them.".to_owned());
    }
    let (syncs, saved) = (counted(file.syncs, "sync"), file.saved_syncs);
    let below = lower_sync_ns(file).map(|ns| format!(", {} each", time(Some(ns)))).unwrap_or_default();
    let spared = spared_ns(file).filter(|ns| *ns > 0.0);
    let spared =
        spared.map(|ns| format!(": about {} of waiting was spared", duration(ns))).unwrap_or_default();
    Some(format!(
        "Of {syncs}, {saved} were answered from device memory and {} went below{below}{spared}.",
        file.lower_syncs
    ))
}

fn logged(file: &FileReport, user: &UserReport) -> Option<String> {
    let stops = match file.suspended {
        0 => String::new(),
        times => format!(" It was stopped {} until a real sync.", counted(times, "time")),
    };
    (file.level == "ABSORB").then(|| {
        let (kept, room) = (human(file.kept_bytes), human(user.ring_bytes));
        format!("Its log holds {kept} of {room} that are not synced below yet.{stops}")
    })
}

/// Mean time of a real sync, if there was one.
pub fn lower_sync_ns(file: &FileReport) -> Option<f64> {
    (file.lower_syncs > 0).then(|| file.lower_sync_ns as f64 / file.lower_syncs as f64)
}

/// Time that the saved syncs would have taken.
pub fn spared_ns(file: &FileReport) -> Option<f64> {
    Some(lower_sync_ns(file)? * file.saved_syncs as f64)
}

/// A duration for people.
pub fn duration(ns: f64) -> String {
    if ns >= 1e9 { format!("{:.1} s", ns / 1e9) } else { time(Some(ns)) }
}
