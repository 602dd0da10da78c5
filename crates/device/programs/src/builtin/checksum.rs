//! Checksums of ranges, one after the other.

use byway_sys::checksum::crc32c_append;

use super::crc64::crc64_append;
use crate::fault::Fault;
use crate::program::Progress;

/// Which checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Crc32c,
    Crc64,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Checksum {
    kind: Kind,
    sum: u64,
    /// Range and position in it.
    at: (usize, usize),
}

impl Checksum {
    pub const fn new(kind: Kind, [seed, _]: [u64; 2]) -> Self {
        Self { kind, sum: seed, at: (0, 0) }
    }

    pub fn advance(&mut self, ranges: &mut [&mut [u8]], steps: &mut u64) -> Result<Progress, Fault> {
        while let Some(range) = ranges.get(self.at.0) {
            let rest = range.get(self.at.1..).unwrap_or_default();
            let affordable =
                usize::try_from(*steps).unwrap_or(usize::MAX).saturating_mul(self.kind.bytes_per_step());
            let piece = &rest[..rest.len().min(affordable)];
            self.sum = self.kind.append(self.sum, piece);
            *steps -= piece.len().div_ceil(self.kind.bytes_per_step()) as u64;
            if piece.len() < rest.len() {
                self.at.1 += piece.len();
                return Ok(Progress::Pending);
            }
            self.at = (self.at.0 + 1, 0);
        }
        Ok(Progress::Done(self.sum))
    }
}

impl Kind {
    /// Bytes that take the time of one step: CRC-32C has an instruction of the processor.
    const fn bytes_per_step(self) -> usize {
        match self {
            Self::Crc32c => 64,
            Self::Crc64 => 8,
        }
    }

    fn append(self, sum: u64, bytes: &[u8]) -> u64 {
        match self {
            Self::Crc32c => crc32c_append(sum as u32, bytes).into(),
            Self::Crc64 => crc64_append(sum, bytes),
        }
    }
}
