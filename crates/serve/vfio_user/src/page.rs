//! The page of doorbells that a host may map.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_sys::map::{Mapping, Sharing};
use byway_sys::memfd;

use crate::bar::{BAR0_BYTES, DOORBELLS_AT, DOORBELLS_BYTES};

/// Memory of BAR 0, of which only the doorbells are used, and the descriptor by which hosts map them.
///
/// Each client gets a file of its own: a former client that still maps its file rings no doorbells.
#[derive(Debug)]
pub struct DoorbellPage {
    file: Arc<OwnedFd>,
    memory: Arc<Mapping>,
}

impl DoorbellPage {
    /// Doorbells that are all 0.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<Self> {
        let file = unrung()?;
        let memory = Mapping::file(&file, DOORBELLS_AT, DOORBELLS_BYTES as usize, Sharing::Shared)?;
        Ok(Self { file: Arc::new(file.into()), memory: Arc::new(memory) })
    }

    /// Replaces the file by a new one for the next client, mapped at the same address in this process.
    ///
    /// # Errors
    /// The system's error: doorbells may be lost.
    pub fn renew(&mut self) -> io::Result<()> {
        let file = unrung()?;
        self.memory.show_instead(&file, DOORBELLS_AT)?;
        self.file = Arc::new(file.into());
        Ok(())
    }

    /// The file that hosts map; its offsets are those of BAR 0.
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

fn unrung() -> io::Result<File> {
    memfd::sealed("byway-doorbells", BAR0_BYTES)
}
