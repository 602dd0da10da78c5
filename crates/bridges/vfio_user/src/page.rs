//! The page of doorbells that a host may map.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_sys::map::{Mapping, Sharing};
use byway_sys::memfd;

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
        let file = memfd::sealed("byway-doorbells", BAR0_BYTES)?;
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
