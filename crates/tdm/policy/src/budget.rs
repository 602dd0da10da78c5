//! Room in device memory, and how much may be moved.

use std::fmt;

use crate::config::Config;
use crate::level::Level;

/// What device memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Redo records of absorbed files.
    Log,
    /// Chunks of files whose home it is.
    Pinned,
}

impl Room {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Log, Self::Pinned];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// What a level needs.
    pub(crate) const fn of(level: Level) -> Option<Self> {
        match level {
            Level::Pass => None,
            Level::Absorb => Some(Self::Log),
            Level::Dax => Some(Self::Pinned),
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Log => "log",
            Self::Pinned => "pinned",
        })
    }
}

/// How much of a room is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// By files there, and by files that are on their way there or away.
    pub used_bytes: u64,
    /// What there is.
    pub budget_bytes: u64,
}

impl Usage {
    /// What is left of it.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.used_bytes)
    }
}

/// Both rooms while decisions are made: what is free, and what will be when moves under way have ended.
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

    /// Free now or soon.
    pub(crate) const fn expected_bytes(&self, room: Room) -> u64 {
        self.free_bytes[room.index()].saturating_add(self.leaving_bytes[room.index()])
    }

    /// Takes room that is free, if it is.
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

    /// Keeps room for one who waits until others have left: first what they leave, so that others may have what is free.
    pub(crate) fn keep(&mut self, room: Room, bytes: u64) {
        let of_leaving = bytes.min(self.leaving_bytes[room.index()]);
        self.leaving_bytes[room.index()] -= of_leaving;
        let free = &mut self.free_bytes[room.index()];
        *free = free.saturating_sub(bytes - of_leaving);
    }
}

/// One part in so many of the device's bandwidth is for moves.
const MOVING_ONE_IN: u64 = 10;

/// How much may be moved: so much a second, and a second's worth at once.
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

    /// Time has come this far; says how long it was since the last time.
    pub(crate) fn tick(&mut self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        let earned = elapsed_ns as f64 * self.bytes_per_s / 1e9;
        self.balance_bytes = (self.balance_bytes + earned).min(self.bytes_per_s);
        self.at_ns = self.at_ns.max(now_ns);
        elapsed_ns
    }

    /// How long a move of that size has to wait. One that is more than a second's worth is begun on a full balance, and nothing
    /// moves until it is paid for.
    pub(crate) fn wait_ns(&self, bytes: u64) -> u64 {
        let missing = (bytes as f64).min(self.bytes_per_s) - self.balance_bytes;
        if missing <= 0.0 { 0 } else { (missing * 1e9 / self.bytes_per_s).ceil() as u64 }
    }

    pub(crate) fn take(&mut self, bytes: u64) {
        self.balance_bytes -= bytes as f64;
    }
}
