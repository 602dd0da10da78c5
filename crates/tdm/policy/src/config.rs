//! What the device is, and what is assumed of its calls.

use crate::budget::Room;
use crate::cost::Costs;

/// The largest part of device memory that is home to files.
const PINNED_PERCENT: u64 = 80;

/// The largest part that redo logs take. What is left is for moves, and for a device's own cache to err.
const LOG_PERCENT: u64 = 10;

/// The device. Nothing here is a threshold: these follow from what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Device memory that is fast: where a device has a cache in front of something slower, the cache.
    pub device_bytes: u64,
    /// How fast it is filled.
    pub device_bytes_per_s: u64,
    /// What calls cost, as measured at the start or as assumed.
    pub costs: Costs,
}

impl Config {
    /// A device of which nothing but its size and speed is known.
    #[must_use]
    pub fn new(device_bytes: u64, device_bytes_per_s: u64) -> Self {
        let mut costs = Costs::default();
        // No byte gets there faster than the device takes it.
        let byte_ns = 1e9 / device_bytes_per_s.max(1) as f64;
        for cost in [&mut costs.absorb.write, &mut costs.dax.write, &mut costs.dax.read] {
            cost.byte_ns = cost.byte_ns.max(byte_ns);
        }
        Self { device_bytes, device_bytes_per_s, costs }
    }

    /// How much of the device may be used for that.
    #[must_use]
    pub const fn budget_bytes(&self, room: Room) -> u64 {
        let percent = match room {
            Room::Log => LOG_PERCENT,
            Room::Pinned => PINNED_PERCENT,
        };
        self.device_bytes / 100 * percent + self.device_bytes % 100 * percent / 100
    }

    /// How long the device takes to move so many bytes, if it does nothing else.
    pub(crate) fn moving_ns(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.device_bytes_per_s.max(1) as f64
    }
}
