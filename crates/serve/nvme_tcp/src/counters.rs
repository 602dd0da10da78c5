//! What a target counts, for whoever watches it.
//!
//! Each thread has a part of its own, which nobody else writes: what its connections moved is added up ten times a second, when it
//! looks at all of them anyway. What is rare is counted where it happens.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use byway_fabrics::RefusalKind;

use crate::ended::Ended;

/// What a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Nothing is agreed on, or no Connect has come.
    Connecting,
    /// Its host has not shown yet who it is.
    Authenticating,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// A discovery controller's.
    Discovery,
    /// It is over, and its host is given the time to read why.
    Ending,
}

impl ConnectionState {
    /// Every one, in order.
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Authenticating, Self::Admin, Self::Io, Self::Discovery, Self::Ending];

    /// What it is called in figures.
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

/// Why connections are not accepted, and hosts not connected.
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

/// Why connections end.
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

/// What all threads of a target count together.
#[derive(Debug, Default)]
pub(crate) struct RareEvents {
    accepted: AtomicU64,
    refused: [AtomicU64; REFUSALS.len()],
    ended: [AtomicU64; ENDS.len()],
}

impl RareEvents {
    /// A connection was accepted.
    pub fn accept(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    /// One was not: there are too many.
    pub fn turn_away(&self) {
        self.refused[TOO_MANY].fetch_add(1, Relaxed);
    }

    /// A Connect was refused.
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

    /// A connection ended.
    pub fn end(&self, why: &Ended) {
        let at = match why {
            Ended::Left => 0,
            Ended::Violation(_) => 1,
            Ended::Terminated(_) => 2,
            Ended::Overrun => 3,
            Ended::ControllerGone => 4,
            Ended::Silent => 5,
            Ended::NotAuthenticated { .. } => 6,
            Ended::KeepAlive => 7,
            Ended::Stuck => 8,
            Ended::System(_) => 9,
            Ended::Clear => 10,
            Ended::Tls(_) => 11,
            Ended::Dismissed => 12,
            Ended::Stalled => 13,
            Ended::Crowded => 14,
            Ended::DeviceFailed => 15,
        };
        self.ended[at].fetch_add(1, Relaxed);
    }
}

/// What one thread counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    states: [AtomicU32; ConnectionState::ALL.len()],
}

/// Bytes that a connection received and sent.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Moved {
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

impl ThreadCounters {
    /// Adds what a connection moved. For the thread's own use.
    pub fn add(&self, moved: Moved) {
        let add = |counter: &AtomicU64, bytes| counter.store(counter.load(Relaxed) + bytes, Relaxed);
        add(&self.received_bytes, moved.received_bytes);
        add(&self.sent_bytes, moved.sent_bytes);
    }

    /// The states of the thread's connections.
    pub fn set_states(&self, states: impl Iterator<Item = ConnectionState>) {
        let mut counts = [0; ConnectionState::ALL.len()];
        states.for_each(|state| counts[state as usize] += 1);
        self.states.iter().zip(counts).for_each(|(state, count)| state.store(count, Relaxed));
    }
}

/// What a target has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSnapshot {
    /// Connections now, by state: as they were a tenth of a second ago.
    pub connections: [(ConnectionState, u32); ConnectionState::ALL.len()],
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were not, and hosts that were refused at Connect, by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Connections that ended, by reason.
    pub ended: Vec<(&'static str, u64)>,
    /// Bytes received, of PDUs and all.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Hosts that have controllers, with how many.
    pub hosts: Vec<(String, usize)>,
}

impl TargetSnapshot {
    pub(crate) fn of<'a>(
        rare: &RareEvents,
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
            accepted: rare.accepted.load(Relaxed),
            refused: named(&REFUSALS, &rare.refused),
            ended: named(&ENDS, &rare.ended),
            received_bytes: of_all(|thread| &thread.received_bytes),
            sent_bytes: of_all(|thread| &thread.sent_bytes),
            hosts,
        }
    }
}
