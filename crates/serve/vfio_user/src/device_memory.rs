//! BAR 2: device memory that a host maps and stores into, or writes by messages.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_sys::map::{MapError, Mapping, Sharing};
use byway_sys::memfd;

/// Memory that one client stores into. The next client gets a new file, so a former client that still maps this one sees and
/// changes nothing of it.
///
/// It is not part of the image: a command that refers to a stored value makes the device copy it.
#[derive(Debug)]
pub struct DeviceMemoryBar {
    file: Arc<OwnedFd>,
    memory: Arc<Mapping>,
}

impl DeviceMemoryBar {
    /// Zeroed memory; pages are allocated on first access.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(len_bytes: u64) -> io::Result<Self> {
        let file: File = memfd::sealed("byway-device-memory", len_bytes)?;
        let len_bytes = usize::try_from(len_bytes).map_err(io::Error::other)?;
        let memory = Mapping::file(&file, 0, len_bytes, Sharing::Shared)?;
        Ok(Self { file: Arc::new(file.into()), memory: Arc::new(memory) })
    }

    /// The file that hosts map; its offsets are those of BAR 2.
    #[must_use]
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }

    /// Copies out of it.
    ///
    /// # Errors
    /// Outside the memory.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MapError> {
        self.memory.read_at(at as usize, into)
    }

    /// Copies into it.
    ///
    /// # Errors
    /// Outside the memory.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), MapError> {
        self.memory.write_at(at as usize, from)
    }
}
