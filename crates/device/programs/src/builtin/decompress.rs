//! Decompression into a range.

use super::source_and_result;
use crate::fault::Fault;
use crate::program::Progress;

/// Largest source and largest result in bytes, of one run: it cannot be interrupted.
pub const DECOMPRESS_MAX_BYTES: usize = 1 << 20;

/// Bytes of the source or the result that take the time of one step.
const BYTES_PER_STEP: usize = 8;

/// A run, which is not interrupted.
#[derive(Debug)]
pub(crate) struct Decompress {
    parameters: [u64; 2],
}

impl Decompress {
    pub const fn new(parameters: [u64; 2]) -> Self {
        Self { parameters }
    }

    pub fn advance(&self, ranges: &mut [&mut [u8]], steps: &mut u64) -> Result<Progress, Fault> {
        let [format, taken] = self.parameters;
        let (source, result) = source_and_result(ranges)?;
        let taken = if taken == 0 { source.len() } else { usize::try_from(taken).unwrap_or(usize::MAX) };
        let source = source.get(..taken).ok_or(Fault::Parameter("the source is outside its range"))?;
        if taken > DECOMPRESS_MAX_BYTES {
            return Err(Fault::Parameter("the source is larger than 1 MiB"));
        }
        let room = result.len().min(DECOMPRESS_MAX_BYTES);
        let bytes = match format {
            1 => snappy(source, &mut result[..room])?,
            2 => zstandard(source, &mut result[..room])?,
            _ => return Err(Fault::Parameter("the format is unknown")),
        };
        *steps = steps.saturating_sub((source.len().max(bytes) / BYTES_PER_STEP) as u64);
        Ok(Progress::Done(bytes as u64))
    }
}

fn snappy(source: &[u8], result: &mut [u8]) -> Result<usize, Fault> {
    const DAMAGED: Fault = Fault::Data("no raw Snappy block");
    let bytes = snap::raw::decompress_len(source).map_err(|_| DAMAGED)?;
    let result = result.get_mut(..bytes).ok_or(Fault::ResultTooLarge)?;
    snap::raw::Decoder::new().decompress(source, result).map_err(|_| DAMAGED)
}

fn zstandard(source: &[u8], result: &mut [u8]) -> Result<usize, Fault> {
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(|_| Fault::Limit)?;
    let decompressed = decompressor.decompress_to_buffer(source, result);
    decompressed.map_err(|_| Fault::Data("no Zstandard frames, or the result does not fit its range"))
}
