//! What a module imports. Accesses to ranges leave the interpreter: the run serves them and resumes the module.

use std::fmt;

use wasmi::errors::{HostError, LinkerError};
use wasmi::{Caller, Engine, Error, Linker, ResourceLimiter, StoreLimits, StoreLimitsBuilder};

use super::WASM_MEMORY_MAX_BYTES;

/// The module of the imports.
const MODULE: &str = "byway";

/// Most elements of a module's table.
const TABLE_MAX: usize = 4096;

/// State beside an instance.
#[derive(Debug)]
pub(super) struct Host {
    /// Bytes of each range.
    pub lengths: Vec<u32>,
    limits: StoreLimits,
}

/// A direction of a copy between memory and a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToMemory,
    ToRange,
}

/// A copy that the module asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub direction: Direction,
    pub range: u32,
    pub position: u32,
    pub address: u32,
    pub bytes: u32,
}

impl Default for Host {
    fn default() -> Self {
        let limits = StoreLimitsBuilder::new()
            .memory_size(WASM_MEMORY_MAX_BYTES)
            .memories(1)
            .tables(1)
            .table_elements(TABLE_MAX)
            .instances(1);
        Self { lengths: Vec::new(), limits: limits.build() }
    }
}

impl Host {
    /// Beside an instance that runs over ranges of these lengths in bytes.
    pub fn new(lengths: Vec<u32>) -> Self {
        Self { lengths, ..Self::default() }
    }

    /// What bounds the instance's memory.
    pub fn limits(&mut self) -> &mut dyn ResourceLimiter {
        &mut self.limits
    }
}

impl Request {
    /// What it takes: as 32 instructions, and one more for each 64 bytes.
    pub fn fuel(&self) -> u64 {
        32 + u64::from(self.bytes) / 64
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "copy of {} bytes at {} of range {}", self.bytes, self.position, self.range)
    }
}

impl HostError for Request {}

/// The functions of the device.
pub(super) fn linker(engine: &Engine) -> Result<Linker<Host>, LinkerError> {
    let mut linker = Linker::new(engine);
    linker
        .func_wrap(MODULE, "count", |caller: Caller<'_, Host>| caller.data().lengths.len() as u32)?
        .func_wrap(MODULE, "length", |caller: Caller<'_, Host>, range: u32| {
            caller.data().lengths.get(range as usize).copied().unwrap_or(0)
        })?
        .func_wrap(MODULE, "read", |range: u32, position: u32, address: u32, bytes: u32| {
            ask(Request { direction: Direction::ToMemory, range, position, address, bytes })
        })?
        .func_wrap(MODULE, "write", |range: u32, position: u32, address: u32, bytes: u32| {
            ask(Request { direction: Direction::ToRange, range, position, address, bytes })
        })?;
    Ok(linker)
}

/// Leaves the interpreter with a request.
fn ask(request: Request) -> Result<(), Error> {
    Err(Error::host(request))
}
