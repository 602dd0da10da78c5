//! Counters of a target, for metrics.
//!
//! Bytes and connection states are counted by thread: each thread writes its own counters at every tick, ten times a second.
//! Rare events are counted in shared atomics where they happen.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use byway_fabrics::RefusalKind;

use crate::close_reason::CloseReason;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// Before a successful Connect.
    Connecting,
    /// Connected, and its host must authenticate.
    Authenticating,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// A discovery controller's.
    Discovery,
    /// Closing: the host may still read the last response.
    Ending,
}

impl ConnectionState {
    /// All states, in the order of their values.
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Authenticating, Self::Admin, Self::Io, Self::Discovery, Self::Ending];

    /// The label value in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Authenticating => "authenticating",
            Self::Admin => "admin",
            Self::Io => "io",
            Self::Discovery => "discovery",
            Self::Ending => "ending",
        }
    }
}

/// Labels of refused connections and Connects.
const REFUSALS: [&str; 8] = [
    "too_many_connections",
    "incompatible_format",
    "busy",
    "invalid_parameter",
    "restart_discovery",
    "invalid_host",
    "authentication_required",
    "other",
];
const TOO_MANY: usize = 0;

/// Labels of closed connections.
const ENDS: [&str; 16] = [
    "left",
    "protocol_violation",
    "terminated_by_host",
    "queue_overrun",
    "controller_gone",
    "no_connect",
    "not_authenticated",
    "keep_alive",
    "stuck",
    "system",
    "not_encrypted",
    "tls",
    "dismissed",
    "stalled",
    "crowded",
    "device_failed",
];

/// Counters of events events, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct EventCounters {
    accepted: AtomicU64,
    refused: [AtomicU64; REFUSALS.len()],
    ended: [AtomicU64; ENDS.len()],
}

impl EventCounters {
    /// Counts an accepted connection.
    pub fn accept(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    /// Counts a connection refused because too many are open.
    pub fn turn_away(&self) {
        self.refused[TOO_MANY].fetch_add(1, Relaxed);
    }

    /// Counts a refused Connect.
    pub fn refuse(&self, kind: RefusalKind) {
        let at = match kind {
            RefusalKind::IncompatibleFormat => 1,
            RefusalKind::Busy => 2,
            RefusalKind::Invalid(_) => 3,
            RefusalKind::RestartDiscovery => 4,
            RefusalKind::InvalidHost => 5,
            RefusalKind::AuthenticationRequired => 6,
            _ => 7,
        };
        self.refused[at].fetch_add(1, Relaxed);
    }

    /// Counts a closed connection.
    pub fn end(&self, why: &CloseReason) {
        let at = match why {
            CloseReason::Left => 0,
            CloseReason::Violation(_) => 1,
            CloseReason::Terminated(_) => 2,
            CloseReason::Overrun => 3,
            CloseReason::ControllerGone => 4,
            CloseReason::Silent => 5,
            CloseReason::NotAuthenticated { .. } => 6,
            CloseReason::KeepAlive => 7,
            CloseReason::Stuck => 8,
            CloseReason::System(_) => 9,
            CloseReason::Clear => 10,
            CloseReason::Tls(_) => 11,
            CloseReason::Dismissed => 12,
            CloseReason::Stalled => 13,
            CloseReason::Crowded => 14,
            CloseReason::DeviceFailed => 15,
        };
        self.ended[at].fetch_add(1, Relaxed);
    }
}

/// Counters of one thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    states: [AtomicU32; ConnectionState::ALL.len()],
}

/// Bytes received and sent by a connection.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Moved {
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

impl ThreadCounters {
    /// Adds bytes. Only the owning thread calls this.
    pub fn add(&self, moved: Moved) {
        let add = |counter: &AtomicU64, bytes| counter.store(counter.load(Relaxed) + bytes, Relaxed);
        add(&self.received_bytes, moved.received_bytes);
        add(&self.sent_bytes, moved.sent_bytes);
    }

    /// Sets the number of connections in each state.
    pub fn set_states(&self, states: impl Iterator<Item = ConnectionState>) {
        let mut counts = [0; ConnectionState::ALL.len()];
        states.for_each(|state| counts[state as usize] += 1);
        self.states.iter().zip(counts).for_each(|(state, count)| state.store(count, Relaxed));
    }
}

/// Counters of a target at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSnapshot {
    /// Open connections by state, up to 100 ms old.
    pub connections: [(ConnectionState, u32); ConnectionState::ALL.len()],
    /// Accepted connections.
    pub accepted: u64,
    /// Refused connections and Connects, by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Closed connections, by reason.
    pub ended: Vec<(&'static str, u64)>,
    /// Bytes received, PDU headers included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Hosts with controllers, and how many each has.
    pub hosts: Vec<(String, usize)>,
}

impl TargetSnapshot {
    pub(crate) fn of<'a>(
        events: &EventCounters,
        threads: impl Iterator<Item = &'a ThreadCounters> + Clone,
        hosts: Vec<(String, usize)>,
    ) -> Self {
        let named = |names: &[&'static str], counts: &[AtomicU64]| {
            names.iter().zip(counts).map(|(name, count)| (*name, count.load(Relaxed))).collect()
        };
        let of_all = |of: fn(&ThreadCounters) -> &AtomicU64| {
            threads.clone().map(|thread| of(thread).load(Relaxed)).sum()
        };
        let in_state = |state: ConnectionState| {
            threads.clone().map(|thread| thread.states[state as usize].load(Relaxed)).sum()
        };
        Self {
            connections: ConnectionState::ALL.map(|state| (state, in_state(state))),
            accepted: events.accepted.load(Relaxed),
            refused: named(&REFUSALS, &events.refused),
            ended: named(&ENDS, &events.ended),
            received_bytes: of_all(|thread| &thread.received_bytes),
            sent_bytes: of_all(|thread| &thread.sent_bytes),
            hosts,
        }
    }
}
