//! A file that lies in blocks of a device, as an object of queries that this process executes.

use std::fmt;

use anyhow::{Result, bail};
use bytes::Bytes;
use byway::Nvm;
use byway_compute::{Object, ObjectError};
use parking_lot::Mutex;

/// Most bytes of one Read.
const READ_BYTES: usize = 1 << 20;

/// A file that lies in blocks.
pub struct Blocks {
    nvm: Mutex<Nvm>,
    slba: u64,
    lba_bytes: u64,
    len_bytes: u64,
}

impl Blocks {
    /// The `len_bytes` bytes from block `slba` on.
    ///
    /// # Errors
    /// A range that is not inside the namespace.
    pub fn new(nvm: Nvm, slba: u64, len_bytes: u64) -> Result<Self> {
        let lba_bytes = u64::from(nvm.lba_bytes());
        let blocks = len_bytes.div_ceil(lba_bytes);
        if slba.checked_add(blocks).is_none_or(|end| end > nvm.blocks()) {
            bail!("{len_bytes} bytes from block {slba} on are not all of them in the namespace");
        }
        Ok(Self { nvm: Mutex::new(nvm), slba, lba_bytes, len_bytes })
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("slba", &self.slba).field("len_bytes", &self.len_bytes).finish()
    }
}

impl Object for Blocks {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, start: u64, len_bytes: usize) -> Result<Bytes, ObjectError> {
        let first = start / self.lba_bytes;
        let end = (start + len_bytes as u64).div_ceil(self.lba_bytes);
        let mut blocks = vec![0; ((end - first) * self.lba_bytes) as usize];
        let mut nvm = self.nvm.lock();
        let mut slba = self.slba + first;
        for part in blocks.chunks_mut(READ_BYTES) {
            nvm.read(slba, part).map_err(|error| ObjectError::Unreadable(error.to_string()))?;
            slba += part.len() as u64 / self.lba_bytes;
        }
        let before = (start % self.lba_bytes) as usize;
        Ok(Bytes::from(blocks).slice(before..before + len_bytes))
    }
}
