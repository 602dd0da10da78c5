//! Programs of the device. Each is named by a number, and takes two parameters and the ranges of the command, as the README says.

mod aggregate;
mod checksum;
mod crc64;
mod decompress;
mod field;
mod filter;

use crate::fault::Fault;
use crate::program::Progress;

use aggregate::Aggregate;
use checksum::{Checksum, Kind};
use decompress::Decompress;
use filter::Filter;

pub use decompress::DECOMPRESS_MAX_BYTES;

/// A program of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    /// Copies those records of a fixed size for which a comparison of a field with a constant holds.
    Filter,
    /// The sum, the least or the greatest of a field of all records.
    Aggregate,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME (Rocksoft).
    Crc64,
    /// Decompresses a raw Snappy block or Zstandard frames.
    Decompress,
}

impl BuiltIn {
    /// Every one, by identifier.
    pub const ALL: [Self; 5] = [Self::Filter, Self::Aggregate, Self::Crc32c, Self::Crc64, Self::Decompress];

    /// Its identifier, from 1.
    #[must_use]
    pub const fn identifier(self) -> u64 {
        self as u64 + 1
    }

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Aggregate => "aggregate",
            Self::Crc32c => "crc32c",
            Self::Crc64 => "crc64",
            Self::Decompress => "decompress",
        }
    }
}

/// A run of a program of the device.
#[derive(Debug)]
pub(crate) enum Run {
    Filter(Filter),
    Aggregate(Aggregate),
    Checksum(Checksum),
    Decompress(Decompress),
}

impl Run {
    /// A run from the beginning.
    pub fn new(built_in: BuiltIn, parameters: [u64; 2]) -> Self {
        match built_in {
            BuiltIn::Filter => Self::Filter(Filter::new(parameters)),
            BuiltIn::Aggregate => Self::Aggregate(Aggregate::new(parameters)),
            BuiltIn::Crc32c => Self::Checksum(Checksum::new(Kind::Crc32c, parameters)),
            BuiltIn::Crc64 => Self::Checksum(Checksum::new(Kind::Crc64, parameters)),
            BuiltIn::Decompress => Self::Decompress(Decompress::new(parameters)),
        }
    }

    /// Runs about `steps` steps, and takes them off.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn advance(&mut self, ranges: &mut [&mut [u8]], steps: &mut u64) -> Result<Progress, Fault> {
        match self {
            Self::Filter(run) => run.advance(ranges, steps),
            Self::Aggregate(run) => run.advance(ranges, steps),
            Self::Checksum(run) => run.advance(ranges, steps),
            Self::Decompress(run) => run.advance(ranges, steps),
        }
    }
}

/// A source and a room for the result: the first two ranges.
fn source_and_result<'a>(ranges: &'a mut [&mut [u8]]) -> Result<(&'a [u8], &'a mut [u8]), Fault> {
    match ranges {
        [source, result] => Ok((source, result)),
        _ => Err(Fault::Parameter("it takes two ranges")),
    }
}

/// Refuses a source that does not consist of whole records.
fn check_records(source: &[u8], record_bytes: usize) -> Result<(), Fault> {
    match source.len().is_multiple_of(record_bytes) {
        true => Ok(()),
        false => Err(Fault::Parameter("the first range does not consist of whole records")),
    }
}
