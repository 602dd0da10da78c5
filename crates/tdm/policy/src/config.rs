//! The device and the assumed costs of calls.

use crate::cost::Costs;
use crate::room::Room;

/// Share of device memory for DAX-resident files, in per cent.
const PINNED_PERCENT: u64 = 80;

/// Share for redo logs, in per cent. The rest is for moves and for the device's cache.
const LOGS_PERCENT: u64 = 10;

/// The device. It has no thresholds: these follow from measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Bytes for DAX-resident files.
    pub pinned_bytes: u64,
    /// Bytes for redo logs.
    pub logs_bytes: u64,
    /// Bytes of each log, if all are equal; otherwise each file's need.
    pub log_bytes: Option<u64>,
    /// Bytes of a place, if whole files take adjacent places with room to grow; otherwise the chunks in use count.
    pub place_bytes: Option<u64>,
    /// Bandwidth of copying to it.
    pub device_bytes_per_s: u64,
    /// Costs of calls, measured or assumed.
    pub costs: Costs,
}

impl Config {
    /// A device of this bandwidth and fast memory: with a cache, the cache's size.
    #[must_use]
    pub fn new(device_bytes: u64, device_bytes_per_s: u64) -> Self {
        let mut costs = Costs::default();
        // A byte costs no less than the device's bandwidth.
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

    /// Bytes for DAX-resident files.
    #[must_use]
    pub const fn pinned_bytes(mut self, pinned_bytes: u64) -> Self {
        self.pinned_bytes = pinned_bytes;
        self
    }

    /// Bytes for redo logs.
    #[must_use]
    pub const fn logs_bytes(mut self, logs_bytes: u64) -> Self {
        self.logs_bytes = logs_bytes;
        self
    }

    /// Bytes of each log: all are equal.
    #[must_use]
    pub const fn log_bytes(mut self, log_bytes: u64) -> Self {
        self.log_bytes = Some(log_bytes);
        self
    }

    /// Bytes of a place: whole files take adjacent places with room to grow.
    #[must_use]
    pub const fn place_bytes(mut self, place_bytes: u64) -> Self {
        self.place_bytes = Some(place_bytes);
        self
    }

    /// Capacity of a purpose.
    #[must_use]
    pub const fn budget_bytes(&self, room: Room) -> u64 {
        match room {
            Room::Log => self.logs_bytes,
            Room::Resident => self.pinned_bytes,
        }
    }

    /// Nanoseconds that the device needs to move `bytes`.
    pub(crate) fn moving_ns(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.device_bytes_per_s.max(1) as f64
    }
}

const fn percent(bytes: u64, percent: u64) -> u64 {
    bytes / 100 * percent + bytes % 100 * percent / 100
}
