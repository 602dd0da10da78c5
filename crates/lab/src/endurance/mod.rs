//! A device that is filled and then overwritten at random: what it writes itself, how it wears, how fast it stays.

pub mod greedy;
mod idle;
mod run;
pub mod skew;

use byway::{KvStats, Stall, UpkeepTimes, Work};
use serde::Serialize;
use skew::Skew;

pub use run::Run;

/// Command set of the namespace, and so the unit of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Units of a namespace of blocks.
    Nvm,
    /// Pairs of a key-value namespace.
    Kv,
}

/// Device, load and seed of an endurance run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Capacity of the device.
    pub size_bytes: u64,
    /// Profile of the device.
    pub profile: String,
    /// Flash on top, in percent.
    pub over_provisioning_percent: u32,
    /// Policy of garbage collection.
    pub gc: String,
    /// Threads that do upkeep ahead of writes.
    pub upkeep: String,
    /// Queues that are polled without commands.
    pub idle_queues: u32,
    /// Command set of the namespace that is written.
    pub kind: Kind,
    /// Bytes of a value, of a key-value namespace.
    pub value_bytes: u32,
    /// Part of the capacity that is filled, in percent.
    pub fill_percent: u32,
    /// Times that as much as was filled is overwritten.
    pub overwrites: u32,
    /// Which share of the places takes which share of the overwrites.
    pub skew: Skew,
    /// Decides the order.
    pub seed: u64,
}

/// One pass over as many writes as fill the device.
#[derive(Clone, Debug, Serialize)]
pub struct Pass {
    /// `fill`, `fill 2` and `fill 3` (after everything was trimmed) or the number of the overwrite.
    pub pass: String,
    /// Payload, in megabytes (1e6) a second of wall time.
    pub mb_per_s: f64,
    /// Processor time of a write, the kernel's included: what does not change with the load of the machine.
    pub cpu_us_per_write: f64,
    /// Wall time of single writes: median, and so many of a thousand are not longer.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Bytes programmed for each byte of payload.
    pub write_amplification: f64,
    /// The same by cause, those that are not 0.
    pub by_cause: Vec<(&'static str, f64)>,
    /// What the model of greedy garbage collection has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_write_amplification: Option<f64>,
    /// Blocks erased.
    pub erases: u64,
}

/// Erases of blocks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Wear {
    /// Of the block erased least often.
    pub min: u32,
    /// Over all blocks.
    pub mean: f64,
    /// Of the block erased most often.
    pub max: u32,
    /// Standard deviation in parts of the mean.
    pub variation: f64,
}

impl Wear {
    /// Distance of most and least, in parts of the mean.
    pub fn spread(&self) -> f64 {
        if self.mean > 0.0 { f64::from(self.max - self.min) / self.mean } else { 0.0 }
    }
}

/// The whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Capacity.
    pub size_bytes: u64,
    /// Part filled, in percent.
    pub fill_percent: u32,
    /// Over-provisioning asked for, in percent.
    pub over_provisioning_percent: u32,
    /// All of the array beyond the capacity, open blocks and reserve included, in percent.
    pub raw_beyond_percent: f64,
    /// Policy.
    pub gc: String,
    /// Payload rate of the empty device: the fastest of the first fill and of two after everything was trimmed.
    pub empty_mb_per_s: f64,
    /// Payload rate of the last overwrite.
    pub last_mb_per_s: f64,
    /// The second in parts of the first.
    pub kept: f64,
    /// The same by processor time.
    pub kept_by_cpu: f64,
    /// Amplification of the last overwrite.
    pub write_amplification: f64,
    /// The model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_write_amplification: Option<f64>,
    /// How far the device is from the model, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_percent: Option<f64>,
    /// Erases of the device's blocks.
    pub wear: Wear,
    /// Most and least worn, their distance in parts of the mean.
    pub wear_spread: f64,
    /// Standard deviation of erases, in parts of the mean.
    pub wear_variation: f64,
    /// Erases of the model's blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_wear: Option<Wear>,
    /// What one put did at most, of key-value pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_put: Option<LongestPut>,
    /// Upkeep that other threads did, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<UpkeepDone>,
}

/// Upkeep by threads that had nothing to write.
#[derive(Clone, Debug, Serialize)]
pub struct UpkeepDone {
    /// Times that a thread took the device for it.
    pub quanta: u64,
    /// Time of all of them.
    pub seconds: f64,
    /// The longest of them.
    pub longest_us: f64,
    /// Seconds by cause, those that are not 0.
    pub by_cause: Vec<(&'static str, f64)>,
}

impl UpkeepDone {
    /// What a device counted; `None` if that is nothing.
    pub fn of(times: &UpkeepTimes) -> Option<Self> {
        let UpkeepTimes { quanta, by_cause } = times;
        let seconds = |stall: &Stall| stall.total_ns as f64 / 1e9;
        let causes = by_cause.rows().filter(|(_, stall)| stall.count > 0);
        (quanta.count > 0).then(|| Self {
            quanta: quanta.count,
            seconds: seconds(quanta),
            longest_us: quanta.longest_ns as f64 / 1e3,
            by_cause: causes.map(|(cause, stall)| (cause.name(), seconds(stall))).collect(),
        })
    }
}

/// The most that one put did of each kind of work, and how many had to wait for room.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LongestPut {
    /// Pages read, of the log and of the index.
    pub pages_read: u32,
    /// Pages written.
    pub pages_written: u32,
    /// Pages given back.
    pub pages_trimmed: u32,
    /// Entries of the index looked for, written or merged.
    pub entries: u32,
    /// Records that compaction looked at.
    pub records: u32,
    /// Puts that had to wait for a segment, or for a memtable to be written out.
    pub waited: u64,
}

impl LongestPut {
    /// What an engine counted.
    pub fn of(stats: &KvStats) -> Self {
        let Work { pages_read, pages_written, pages_trimmed, entries, records, .. } = stats.most_work;
        let waited = stats.index.stalls + stats.compaction.stalls;
        Self { pages_read, pages_written, pages_trimmed, entries, records, waited }
    }
}
