//! What the flash did, by cause.

use std::ops::{Index, IndexMut};

/// Why a flash operation was done. Not `non_exhaustive`: the log page of the ledger has a number for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Cause {
    /// A host asked for these bytes.
    Host,
    /// Bytes left empty so that values are aligned. Its bytes are of pages that other causes programmed.
    Packing,
    /// The value log made room.
    LogCompaction,
    /// The translation layer made room.
    Gc,
    /// Erases were spread over blocks.
    WearLevelling,
    /// The key index.
    Index,
    /// What the device keeps for itself.
    Metadata,
    /// Data left blocks that failed, were read too often or held it too long.
    Refresh,
}

impl Cause {
    /// Every cause, in the order counters are kept.
    pub const ALL: [Self; 8] = [
        Self::Host,
        Self::Packing,
        Self::LogCompaction,
        Self::Gc,
        Self::WearLevelling,
        Self::Index,
        Self::Metadata,
        Self::Refresh,
    ];

    /// The name reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Packing => "packing",
            Self::LogCompaction => "log compaction",
            Self::Gc => "gc",
            Self::WearLevelling => "wear levelling",
            Self::Index => "index",
            Self::Metadata => "metadata",
            Self::Refresh => "refresh",
        }
    }
}

/// Operations of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CauseCounters {
    /// NAND pages read.
    pub reads: u64,
    /// Bytes that crossed the channel for those reads.
    pub read_bytes: u64,
    /// NAND pages programmed.
    pub programs: u64,
    /// Data bytes programmed.
    pub program_bytes: u64,
    /// NAND blocks erased.
    pub erases: u64,
}

impl CauseCounters {
    pub(crate) const WORDS: usize = 5;

    pub(crate) const fn words(&self) -> [u64; Self::WORDS] {
        [self.reads, self.read_bytes, self.programs, self.program_bytes, self.erases]
    }

    pub(crate) const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [reads, read_bytes, programs, program_bytes, erases] = words;
        Self { reads, read_bytes, programs, program_bytes, erases }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            programs: self.programs.saturating_add(other.programs),
            program_bytes: self.program_bytes.saturating_add(other.program_bytes),
            erases: self.erases.saturating_add(other.erases),
        }
    }
}

/// Which way a host's I/O command goes, as SMART counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostIo {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// I/O commands of hosts that were completed, and the bytes of data that those which succeeded moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Read commands.
    pub reads: u64,
    /// Bytes that hosts read.
    pub read_bytes: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes that hosts wrote.
    pub written_bytes: u64,
}

impl HostCounters {
    pub(crate) const WORDS: usize = 4;

    pub(crate) const fn words(&self) -> [u64; Self::WORDS] {
        [self.reads, self.read_bytes, self.writes, self.written_bytes]
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Self, by: fn(u64, u64) -> u64) -> Self {
        let (mine, others) = (self.words(), other.words());
        Self::from_words(std::array::from_fn(|at| by(mine[at], others[at])))
    }

    pub(crate) const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [reads, read_bytes, writes, written_bytes] = words;
        Self { reads, read_bytes, writes, written_bytes }
    }
}

/// Everything counted since the image was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashCounters {
    by_cause: [CauseCounters; Cause::ALL.len()],
    /// What hosts did. An image that was made before these were counted begins at zero.
    pub host: HostCounters,
    /// Entries that the error log has had, of all controllers.
    pub error_entries: u64,
    /// Bytes that hosts handed in to be kept, keys and values or blocks: the denominator of write amplification.
    pub accepted_bytes: u64,
    /// Units or pages that could not be read back as they were written.
    pub media_errors: u64,
}

impl FlashCounters {
    /// Sum over all causes.
    #[must_use]
    pub fn total(&self) -> CauseCounters {
        self.by_cause.iter().fold(CauseCounters::default(), |sum, one| sum.plus(*one))
    }

    /// Causes with their counters, in the order of [`Cause::ALL`].
    pub fn rows(&self) -> impl Iterator<Item = (Cause, &CauseCounters)> {
        Cause::ALL.into_iter().zip(&self.by_cause)
    }

    /// Bytes programmed for each byte accepted; nothing accepted gives `None`.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        self.for_each_accepted(self.total().program_bytes)
    }

    /// The part of [`write_amplification`](Self::write_amplification) that has this cause. The parts add up to it.
    #[must_use]
    pub fn write_amplification_of(&self, cause: Cause) -> Option<f64> {
        self.for_each_accepted(self[cause].program_bytes)
    }

    fn for_each_accepted(&self, bytes: u64) -> Option<f64> {
        (self.accepted_bytes > 0).then(|| bytes as f64 / self.accepted_bytes as f64)
    }
}

impl Index<Cause> for FlashCounters {
    type Output = CauseCounters;

    fn index(&self, cause: Cause) -> &CauseCounters {
        &self.by_cause[cause as usize]
    }
}

impl IndexMut<Cause> for FlashCounters {
    fn index_mut(&mut self, cause: Cause) -> &mut CauseCounters {
        &mut self.by_cause[cause as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_is_bytes_programmed_per_byte_accepted() {
        let mut counters = FlashCounters::default();
        assert_eq!(counters.write_amplification(), None);
        counters.accepted_bytes = 100;
        counters[Cause::Host].program_bytes = 100;
        counters[Cause::Gc].program_bytes = 50;
        assert_eq!(counters.write_amplification(), Some(1.5));
        assert_eq!(counters.write_amplification_of(Cause::Gc), Some(0.5));
    }

    #[test]
    fn causes_stand_in_the_order_of_their_counters() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
        }
    }
}
