//! A device's figures for its operator: capacity, wear, write amplification, data age, engines.

use byway_flash::{Ages, BlockCounts, Flash, FlashCounters, FlashHealth, PowerHistory, Recovery, WearBucket};
use byway_kv::{FILL_CLASSES, KvStats};

use crate::embedded::device::EmbeddedDevice;

/// Ranges of the histogram of erases, at most.
const WEAR_BUCKETS: u32 = 8;

/// Figures of the flash and of every engine of a device.
#[derive(Debug, Clone)]
pub struct Details {
    /// Bytes that namespaces may hold, all together.
    pub capacity_bytes: u64,
    /// Bytes of the whole array, over-provisioning included.
    pub raw_bytes: u64,
    /// Bytes of flash that hold live data.
    pub live_bytes: u64,
    /// Bytes that can be written before garbage has to be collected.
    pub free_bytes: u64,
    /// Length of the image, holes included; 0 for a device in memory.
    pub image_bytes: u64,
    /// Bytes that the image takes on its disk.
    pub disk_bytes: u64,
    /// Bytes that the disk which holds the image has left for its owner; `None` for a device in memory.
    pub disk_free_bytes: Option<u64>,
    /// Why the device takes no writes, if it does not: opened for reading, without spares, after a failed write.
    pub refuses_writes: Option<String>,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceDetails>,
    /// Blocks by what they are used for.
    pub blocks: BlockCounts,
    /// Spares, wear, bad blocks.
    pub health: FlashHealth,
    /// Blocks by erases.
    pub erases: Vec<WearBucket>,
    /// What was done, by cause, since the image was made.
    pub counters: FlashCounters,
    /// How old the data in full blocks is.
    pub ages: Option<Ages>,
    /// What this opening found.
    pub recovery: Recovery,
    /// Time that it took, in nanoseconds, recovery of the flash and of all engines included.
    pub opened_in_ns: u64,
    /// Openings, and unsafe shutdowns.
    pub power: PowerHistory,
    /// Entries lost to a media error and not written since.
    pub lost_entries: u64,
}

/// A namespace's share.
#[derive(Debug, Clone)]
pub struct NamespaceDetails {
    /// Its number.
    pub nsid: u32,
    /// Its size.
    pub size_bytes: u64,
    /// Flash that holds live data of it.
    pub live_bytes: u64,
    /// Its engine, if it has one.
    pub engine: Option<EngineDetails>,
}

/// A key-value engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineDetails {
    /// Counts and sizes.
    pub stats: KvStats,
    /// Segments of its log by how much of them is alive: below a tenth, below two, and so on.
    pub segments_by_fill: [u32; FILL_CLASSES],
}

impl EmbeddedDevice {
    /// Figures of the flash and of every engine.
    #[must_use]
    pub fn details(&self) -> Details {
        self.with_subsystem(|subsystem| {
            let mut details = details_of(subsystem.flash(), self.opened_in_ns);
            for namespace in &mut details.namespaces {
                let found = subsystem.namespace_mut(namespace.nsid);
                namespace.engine = found
                    .and_then(|(namespace, _)| namespace.kv().ok())
                    .map(|kv| EngineDetails { stats: kv.stats(), segments_by_fill: kv.segments_by_fill() });
            }
            details
        })
    }
}

fn details_of(flash: &Flash, opened_in_ns: u64) -> Details {
    let namespaces = flash.namespaces().map(|record| NamespaceDetails {
        nsid: record.nsid,
        size_bytes: record.size_bytes,
        live_bytes: flash.live_bytes_of(record.nsid),
        engine: None,
    });
    Details {
        capacity_bytes: flash.total_bytes(),
        raw_bytes: flash.geometry().raw_bytes(),
        live_bytes: flash.used_bytes(),
        free_bytes: flash.free_bytes(),
        image_bytes: flash.path().map_or(0, |_| flash.image_bytes()),
        disk_bytes: flash.disk_bytes().unwrap_or(0),
        disk_free_bytes: flash.disk_free_bytes(),
        refuses_writes: flash.check_takes_writes().err().map(|why| why.to_string()),
        namespaces: namespaces.collect(),
        blocks: flash.block_counts(),
        health: flash.health(),
        erases: flash.erase_histogram(WEAR_BUCKETS),
        counters: *flash.counters(),
        ages: flash.ages(),
        recovery: flash.recovery(),
        opened_in_ns,
        power: flash.power_history(),
        lost_entries: flash.lost_entries(),
    }
}
