//! The log as a host reads it: header, entries, header again.

use byway_spec::fabrics::{DISCOVERY_RECORD_BYTES, DiscoveryHeader};
use zerocopy::FromBytes;

use super::entry::record;
use crate::{Entry, EntryError};

/// Most entries that are read of a log: 64 MiB of it. A controller that says it has more is not believed.
pub const MAX_LOG_ENTRIES: u64 = 65_536;

/// How often a log is read again because it changed meanwhile.
const TRIES: u32 = 10;

const RECORD_BYTES: u64 = DISCOVERY_RECORD_BYTES as u64;

/// The host's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads this part of the log, and gives it to [`LogReading::take`].
    Read {
        /// First byte: a multiple of 1024.
        offset: u64,
        /// How much: a multiple of 4.
        bytes: u32,
    },
    /// Nothing: these are the entries.
    Done(Vec<Entry>),
}

/// Why a log cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Less data than requested.
    #[error("{bytes} bytes of the discovery log came, {expected} were asked for")]
    Short {
        /// Bytes received.
        bytes: usize,
        /// Bytes requested.
        expected: usize,
    },
    /// RECFMT is not 0.
    #[error("record format {0} of a discovery log is not known")]
    Format(u16),
    /// More entries than are taken.
    #[error("a discovery log says it has {0} entries, at most {MAX_LOG_ENTRIES} are taken")]
    TooLong(u64),
    /// It changed each time that it was read.
    #[error("a discovery log changed {TRIES} times while it was read")]
    Unsteady,
}

/// Part of the log that the next command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Header,
    Entries,
    /// The header once more: entries that were read while the log changed may be of two logs.
    Check,
    Done,
}

/// A log that is being read, in parts that a command can carry.
///
/// Entries that cannot be used are left out, and counted: one that a later revision made is not to hide the others.
#[derive(Clone, Debug)]
pub struct LogReading {
    part_bytes: u32,
    phase: Phase,
    tries: u32,
    generation: u64,
    records: u64,
    read: u64,
    entries: Vec<Entry>,
    skipped: Vec<EntryError>,
}

impl LogReading {
    /// Reads in parts of at most `part_bytes`, at least 1024.
    pub const fn new(part_bytes: u32) -> Self {
        let whole_records = part_bytes - part_bytes % DISCOVERY_RECORD_BYTES as u32;
        let least = DISCOVERY_RECORD_BYTES as u32;
        Self {
            part_bytes: if whole_records < least { least } else { whole_records },
            phase: Phase::Header,
            tries: 0,
            generation: 0,
            records: 0,
            read: 0,
            entries: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// The next step.
    pub fn step(&self) -> Step {
        match self.phase {
            Phase::Header | Phase::Check => Step::Read { offset: 0, bytes: RECORD_BYTES as u32 },
            Phase::Entries => Step::Read { offset: (self.read + 1) * RECORD_BYTES, bytes: self.next_bytes() },
            Phase::Done => Step::Done(self.entries.clone()),
        }
    }

    /// Takes a part that was read. Bytes beyond the requested ones are ignored.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn take(&mut self, part: &[u8]) -> Result<(), LogError> {
        match self.phase {
            Phase::Header => self.begin(header(part)?),
            Phase::Entries => self.take_entries(part),
            Phase::Check => {
                let header = header(part)?;
                if header.genctr == self.generation {
                    self.phase = Phase::Done;
                    return Ok(());
                }
                self.tries += 1;
                if self.tries == TRIES { Err(LogError::Unsteady) } else { self.begin(header) }
            }
            Phase::Done => Ok(()),
        }
    }

    /// Why entries were left out.
    pub fn skipped(&self) -> &[EntryError] {
        &self.skipped
    }

    fn begin(&mut self, header: DiscoveryHeader) -> Result<(), LogError> {
        if header.recfmt != 0 {
            return Err(LogError::Format(header.recfmt));
        }
        if header.numrec > MAX_LOG_ENTRIES {
            return Err(LogError::TooLong(header.numrec));
        }
        (self.generation, self.records, self.read) = (header.genctr, header.numrec, 0);
        self.entries.clear();
        self.skipped.clear();
        self.phase = if self.records == 0 { Phase::Done } else { Phase::Entries };
        Ok(())
    }

    fn next_bytes(&self) -> u32 {
        let left = (self.records - self.read) * RECORD_BYTES;
        left.min(u64::from(self.part_bytes)) as u32
    }

    fn take_entries(&mut self, part: &[u8]) -> Result<(), LogError> {
        let expected = self.next_bytes() as usize;
        let mut rest = part.get(..expected).ok_or(LogError::Short { bytes: part.len(), expected })?;
        while let Some((bytes, after)) = record(rest) {
            match Entry::parse(bytes) {
                Ok(entry) => self.entries.push(entry),
                Err(why) => self.skipped.push(why),
            }
            self.read += 1;
            rest = after;
        }
        if self.read == self.records {
            self.phase = Phase::Check;
        }
        Ok(())
    }
}

fn header(part: &[u8]) -> Result<DiscoveryHeader, LogError> {
    let short = LogError::Short { bytes: part.len(), expected: DISCOVERY_RECORD_BYTES };
    DiscoveryHeader::read_from_prefix(part).map(|(header, _)| header).map_err(|_| short)
}
