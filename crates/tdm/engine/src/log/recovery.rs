//! Recovery: writes a ring's records back to its file.

use std::io;

use byway_tdm_region::Memory;
use thiserror::Error;

use crate::log::prefix::lock_held;
use crate::log::record::Entry;
use crate::log::replay::Replayed;
use crate::log::ring::{Ring, RingError};

/// The file below.
pub trait LowerFile {
    /// Writes all of `data` at an offset, possibly beyond the end.
    ///
    /// # Errors
    /// The system's error.
    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()>;

    /// Truncates it, or extends it by zeroes.
    ///
    /// # Errors
    /// The system's error.
    fn set_size(&self, size_bytes: u64) -> io::Result<()>;

    /// Makes all writes and the size durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync(&self) -> io::Result<()>;
}

/// Why recovery failed. The ring is unchanged; the next attempt starts again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The file below cannot be written.
    #[error("the file below does not take what the log has for it")]
    Lower(#[from] io::Error),
}

/// Result of a recovery.
pub type Recovered = Replayed;

/// Writes every record to the file, really syncs it, then empties the ring. May be repeated from the start.
///
/// Whole records that were never synced may lie behind the end. Format the ring with another identity before it is used again, so that none
/// of them is replayed.
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
        ring.retire(found.end, lock_held)?;
    }
    Ok(found)
}
