//! Device memory that a file needs.

use crate::averages::Averages;
use crate::config::Config;
use crate::room::Room;
use crate::sample::{Sample, Traits};

/// Bytes of a chunk.
const CHUNK_BYTES: u64 = 2 << 20;

/// Chunks of an appended file: the current one and the next two.
const APPEND_CHUNKS: u64 = 3;

/// Least bytes of a log.
const LOG_LEAST_BYTES: u64 = 64 << 10;

/// Bytes that suffice for a file that writes little.
const LOG_ENOUGH_BYTES: u64 = 4 << 20;

/// Logs that must fit.
const LOGS: u64 = 64;

/// Real syncs during which a log must take writes: absorbed files are written faster.
const LOG_SYNCS: f64 = 16.0;

/// Sync intervals whose bytes a log must hold.
const LOG_COMMITS: f64 = 2.0;

/// Bytes of the chunks in use; or of places for the file and its growth.
pub(crate) fn pinned_bytes(config: &Config, sample: &Sample) -> u64 {
    if let Some(place_bytes) = config.place_bytes {
        let places = |bytes: u64| bytes.div_ceil(place_bytes).max(1).saturating_mul(place_bytes);
        // A place also has a header.
        let least_bytes = sample.size_bytes.saturating_add(4096);
        let most_bytes = config.budget_bytes(Room::Resident);
        return places(least_bytes.saturating_mul(2)).min(most_bytes).max(places(least_bytes));
    }
    if sample.traits.contains(Traits::APPEND) {
        return APPEND_CHUNKS * CHUNK_BYTES;
    }
    let used_bytes = sample.hot_bytes.unwrap_or(sample.size_bytes);
    used_bytes.div_ceil(CHUNK_BYTES).max(1).saturating_mul(CHUNK_BYTES)
}

/// Bytes copied by a promotion and a demotion.
pub(crate) fn moved_bytes(config: &Config, sample: &Sample, pinned_bytes: u64) -> u64 {
    match config.place_bytes {
        Some(_) => sample.size_bytes.saturating_mul(2),
        None => pinned_bytes.saturating_add(pinned_bytes.min(sample.size_bytes)),
    }
}

/// Bytes of a log that holds the writes between two syncs and during a real one; a power of two. More than [`log_most_bytes`] if it does not
/// fit.
pub(crate) fn log_bytes(config: &Config, averages: &Averages, lower_sync_ns: f64) -> u64 {
    if let Some(log_bytes) = config.log_bytes {
        return log_bytes;
    }
    let a_sync = if averages.slow.syncs > 0.0 { averages.slow.bytes_a_sync() } else { 0.0 };
    let a_second = averages.fast.written_bytes.max(averages.slow.written_bytes);
    let wanted = (a_sync * LOG_COMMITS).max(a_second * lower_sync_ns / 1e9 * LOG_SYNCS);
    let most = log_most_bytes(config);
    let least = power_below(config.budget_bytes(Room::Log) / LOGS).clamp(LOG_LEAST_BYTES, LOG_ENOUGH_BYTES);
    (wanted.min(most as f64) as u64).max(least).next_power_of_two().min(most).max(LOG_LEAST_BYTES)
}

/// Largest log of one file: half of the room.
pub(crate) const fn log_most_bytes(config: &Config) -> u64 {
    let logs_bytes = config.budget_bytes(Room::Log);
    if config.log_bytes.is_some() { logs_bytes } else { power_below(logs_bytes / 2) }
}

const fn power_below(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { 1 << bytes.ilog2() }
}
