//! What the device is, and what is assumed of its calls.

use crate::budget::Room;
use crate::cost::Costs;

/// The largest part of device memory that is home to files.
const PINNED_PERCENT: u64 = 80;

/// The largest part that redo logs take. What is left is for moves, and for a device's own cache to err.
const LOGS_PERCENT: u64 = 10;

/// The device. Nothing here is a threshold: these follow from what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Device memory that may be home to files.
    pub pinned_bytes: u64,
    /// Device memory that redo logs may take.
    pub logs_bytes: u64,
    /// What each log has, where all have the same; else they are as large as each file needs.
    pub log_bytes: Option<u64>,
    /// Where whole files live in device memory, with room to grow, in places of that size one behind the other; else the chunks in use do.
    pub place_bytes: Option<u64>,
    /// How fast it is filled.
    pub device_bytes_per_s: u64,
    /// What calls cost, as measured at the start or as assumed.
    pub costs: Costs,
}

impl Config {
    /// A device of which nothing is known but its speed and how much of its memory is fast: where there is a cache in front of
    /// something slower, the cache.
    #[must_use]
    pub fn new(device_bytes: u64, device_bytes_per_s: u64) -> Self {
        let mut costs = Costs::default();
        // No byte gets there faster than the device takes it.
        let byte_ns = 1e9 / device_bytes_per_s.max(1) as f64;
        for cost in [&mut costs.absorb.write, &mut costs.dax.write, &mut costs.dax.read] {
            cost.byte_ns = cost.byte_ns.max(byte_ns);
        }
        Self {
            pinned_bytes: percent(device_bytes, PINNED_PERCENT),
            logs_bytes: percent(device_bytes, LOGS_PERCENT),
            log_bytes: None,
            place_bytes: None,
            device_bytes_per_s,
            costs,
        }
    }

    /// How much there is of a room.
    #[must_use]
    pub const fn budget_bytes(&self, room: Room) -> u64 {
        match room {
            Room::Log => self.logs_bytes,
            Room::Pinned => self.pinned_bytes,
        }
    }

    /// How long the device takes to move so many bytes, if it does nothing else.
    pub(crate) fn moving_ns(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.device_bytes_per_s.max(1) as f64
    }
}

const fn percent(bytes: u64, percent: u64) -> u64 {
    bytes / 100 * percent + bytes % 100 * percent / 100
}
