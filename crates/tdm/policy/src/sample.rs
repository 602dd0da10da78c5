//! Samples: what clients count and time of a file in shared memory.

use std::ops::{Index, IndexMut};

use bitflags::bitflags;

use crate::cap::Cap;
use crate::histogram::Histogram;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Any read.
    Read,
    /// Any write.
    Write,
    /// fsync, fdatasync, and writes that sync.
    Sync,
}

impl Call {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Sync];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Counts of calls and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reading calls.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writing calls.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
}

/// Times of each kind of call. Calls are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings([Histogram; 3]);

impl Index<Call> for Timings {
    type Output = Histogram;

    fn index(&self, call: Call) -> &Histogram {
        &self.0[call.index()]
    }
}

impl IndexMut<Call> for Timings {
    fn index_mut(&mut self, call: Call) -> &mut Histogram {
        &mut self.0[call.index()]
    }
}

bitflags! {
    /// How a file is used.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Traits: u8 {
        /// Written at its end only, or opened with O_APPEND.
        const APPEND = 1;
        /// It was opened with O_TRUNC.
        const TRUNCATED = 2;
        /// Created by its writer, like the next segment of a log.
        const CREATED = 4;
        /// Its writer asks to have it absorbed: three syncs in a burst suffice, whatever the file.
        const ASKED = 8;
    }
}

/// The current state of a file. Counters only grow; clients may spoil them, so nothing is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Calls counted.
    pub counts: Counts,
    /// Times below: at [`crate::Level::Pass`] every sync and some reads and writes, at other levels shadow syncs, one in [`crate::SHADOW_ONE_IN`]. The
    /// real sync before a shadow sync is not timed here, so that the latter writes back its own bytes only.
    pub lower: Timings,
    /// Times at its level: at [`crate::Level::Absorb`] what ABSORB adds to a write, and whole syncs, also real ones; at [`crate::Level::Dax`] whole calls.
    pub level: Timings,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of the chunks in use, if counted; otherwise the whole file counts.
    pub hot_bytes: Option<u64>,
    /// Writes in flight.
    pub writes_in_flight: u32,
    /// How it is used.
    pub traits: Traits,
    /// Its cap.
    pub cap: Option<Cap>,
    /// Time in which its last three syncs began, if known: shows a burst between two samples.
    pub three_syncs_in_ns: Option<u64>,
}
