//! Device memory's capacity, and bandwidth for moves.

use crate::config::Config;
use crate::room::Room;

/// Use of a capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of files there, and of files moving there or away.
    pub used_bytes: u64,
    /// Bytes in all.
    pub budget_bytes: u64,
}

impl Usage {
    /// Bytes left.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.used_bytes)
    }
}

/// Free bytes during a round of decisions, now and once moves have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Floor {
    free_bytes: [u64; 2],
    leaving_bytes: [u64; 2],
}

impl Floor {
    pub(crate) fn new(usage: impl Fn(Room) -> Usage) -> Self {
        Self { free_bytes: Room::ALL.map(|room| usage(room).free_bytes()), leaving_bytes: [0; 2] }
    }

    pub(crate) const fn free_bytes(&self, room: Room) -> u64 {
        self.free_bytes[room.index()]
    }

    /// Bytes free now or soon.
    pub(crate) const fn expected_bytes(&self, room: Room) -> u64 {
        self.free_bytes[room.index()].saturating_add(self.leaving_bytes[room.index()])
    }

    /// Takes free bytes, if there are enough.
    pub(crate) const fn take(&mut self, room: Room, bytes: u64) -> bool {
        let free = &mut self.free_bytes[room.index()];
        if *free < bytes {
            return false;
        }
        *free -= bytes;
        true
    }

    /// A file is leaving.
    pub(crate) const fn leaving(&mut self, room: Room, bytes: u64) {
        let leaving = &mut self.leaving_bytes[room.index()];
        *leaving = leaving.saturating_add(bytes);
    }

    /// Reserves bytes for a waiting file: first those that leaving files free.
    pub(crate) fn keep(&mut self, room: Room, bytes: u64) {
        let of_leaving = bytes.min(self.leaving_bytes[room.index()]);
        self.leaving_bytes[room.index()] -= of_leaving;
        let free = &mut self.free_bytes[room.index()];
        *free = free.saturating_sub(bytes - of_leaving);
    }
}

/// Share of the device's bandwidth for moves: 1/10.
const MOVING_ONE_IN: u64 = 10;

/// A token bucket of bytes to be moved, with a second's worth at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    bytes_per_s: f64,
    balance_bytes: f64,
    at_ns: u64,
}

impl Migration {
    pub(crate) fn new(config: &Config) -> Self {
        let bytes_per_s = (config.device_bytes_per_s / MOVING_ONE_IN).max(1) as f64;
        Self { bytes_per_s, balance_bytes: bytes_per_s, at_ns: 0 }
    }

    /// Advances the time; returns the nanoseconds since the last call.
    pub(crate) fn tick(&mut self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        let earned = elapsed_ns as f64 * self.bytes_per_s / 1e9;
        self.balance_bytes = (self.balance_bytes + earned).min(self.bytes_per_s);
        self.at_ns = self.at_ns.max(now_ns);
        elapsed_ns
    }

    /// Wait of a move of that size. A larger one than the bucket starts when it is full, and the next ones wait until it is paid for.
    pub(crate) fn wait_ns(&self, bytes: u64) -> u64 {
        let missing = (bytes as f64).min(self.bytes_per_s) - self.balance_bytes;
        if missing <= 0.0 { 0 } else { (missing * 1e9 / self.bytes_per_s).ceil() as u64 }
    }

    pub(crate) fn take(&mut self, bytes: u64) {
        self.balance_bytes -= bytes as f64;
    }
}
