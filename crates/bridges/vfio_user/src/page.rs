//! The page of doorbells that a host may map.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_sys::map::{Mapping, Sharing};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::bar::{BAR0_BYTES, DOORBELLS_AT, DOORBELLS_BYTES};

/// Memory of BAR 0, of which only the doorbells are used, and the descriptor by which hosts map them.
#[derive(Debug, Clone)]
pub struct DoorbellPage {
    file: Arc<OwnedFd>,
    memory: Arc<Mapping>,
}

impl DoorbellPage {
    /// Doorbells that nobody has rung.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create("byway-doorbells", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = File::from(file);
        file.set_len(BAR0_BYTES)?;
        // A host that cut the file short would end this process.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Mapping::file(&file, DOORBELLS_AT, DOORBELLS_BYTES as usize, Sharing::Shared)?;
        Ok(Self { file: Arc::new(file.into()), memory: Arc::new(memory) })
    }

    /// What hosts map: offsets in it are offsets in BAR 0.
    #[must_use]
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// The doorbells.
    #[must_use]
    pub fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }
}
