//! What is counted of a file: by every client in shared memory, since the file was opened.

use std::ops::{Index, IndexMut};

use bitflags::bitflags;

use crate::ceiling::Ceiling;
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

/// Calls and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read calls.
    pub reads: u64,
    /// What they read.
    pub read_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// What they wrote.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
}

/// Times of each kind of call. Not every call has to be timed.
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
        /// It is written at its end alone, or was opened with O_APPEND.
        const APPEND = 1;
        /// It was opened with O_TRUNC.
        const TRUNCATED = 2;
        /// It was created by who writes it: the next file of a log that begins a new one now and then.
        const CREATED = 4;
        /// Its writer has it open and asks for a log just now: whatever file it is, three syncs in a burst are enough.
        const ASKED = 8;
    }
}

/// A file as of now. Counters only grow; who counts may be anybody's process, so nothing here is believed to be sane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// What was called.
    pub counts: Counts,
    /// What took the lower way: at [`crate::Level::Pass`] every sync, and reads and writes now and then; at other levels the one
    /// in [`crate::SHADOW_ONE_IN`]. Of a shadowed sync, the one before was a real one too, and is not timed here: so
    /// it has its own bytes to bring down, and not those of a thousand others.
    pub lower: Timings,
    /// What its level took. At [`crate::Level::Absorb`] a write is timed for what absorbing adds to it, and a sync as a whole,
    /// a real one included; at [`crate::Level::Dax`] each call as a whole.
    pub level: Timings,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of the chunks in use, if they are counted; the whole file if not.
    pub hot_bytes: Option<u64>,
    /// Writes that have begun and not ended.
    pub writes_in_flight: u32,
    /// How it is used.
    pub traits: Traits,
    /// What keeps it from a level.
    pub ceiling: Option<Ceiling>,
    /// The time in which its last three syncs were, where clients keep that: so a log that begins is seen between two samples.
    pub three_syncs_in_ns: Option<u64>,
}
