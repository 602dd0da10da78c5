//! A ring written back to its file after whatever happened.

use std::io;

use byway_tdm_region::Memory;
use thiserror::Error;

use crate::log::front::held;
use crate::log::record::Entry;
use crate::log::replay::Replayed;
use crate::log::ring::{Ring, RingError};

/// The file below a log.
pub trait LowerFile {
    /// Writes all of `data` at an offset, which may lie beyond the end.
    ///
    /// # Errors
    /// What the system says.
    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()>;

    /// Cuts it to a size, or has it grow to it by zeroes.
    ///
    /// # Errors
    /// What the system says.
    fn set_size(&self, size_bytes: u64) -> io::Result<()>;

    /// Has all that was written, and the size, kept below.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self) -> io::Result<()>;
}

/// Why a log could not be written back. It is as it was: the next try begins anew.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The file below does not take it.
    #[error("the file below does not take what the log has for it")]
    Lower(#[from] io::Error),
}

/// What came of it.
pub type Recovered = Replayed;

/// Writes every record to the file, syncs it, and only then empties the ring. Done again from the start, it comes to the same.
///
/// Behind the ring's end there may be whole records that were never synced. Before the ring is used again it is formatted under
/// another identity, so that none of them is ever taken for a new one.
///
/// # Errors
/// [`RecoveryError`].
pub fn recover<M: Memory>(ring: Ring<'_, M>, file: &impl LowerFile) -> Result<Recovered, RecoveryError> {
    let found = ring.replay(|entry| match entry {
        Entry::Write { at, data } => file.write_all_at(data, at).map_err(RecoveryError::Lower),
        Entry::Truncate { size_bytes } => file.set_size(size_bytes).map_err(RecoveryError::Lower),
    })?;
    if found.records > 0 {
        file.sync()?;
        ring.retire(found.end, held)?;
    }
    Ok(found)
}
