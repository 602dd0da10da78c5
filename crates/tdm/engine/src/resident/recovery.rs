//! Writes a resident file back to the file below.

use crate::log::LowerFile;
use byway_tdm_region::Memory;

use crate::resident::file::{ResidentError, ResidentFile};

/// Bytes written at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Result of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenBack {
    /// The header was void: the file below is untouched.
    Nothing,
    /// The whole file.
    All {
        /// Its size.
        size_bytes: u64,
    },
}

/// Writes `size_bytes` bytes back to the file below and really syncs it. The header stays valid.
///
/// # Errors
/// An error of the memory or the file below. May be repeated.
pub fn write_back<M: Memory>(
    resident: ResidentFile<'_, M>,
    size_bytes: u64,
    lower: &impl LowerFile,
) -> Result<(), ResidentError> {
    ask_to_demote(resident, size_bytes, lower)?;
    lower.sync().map_err(ResidentError::Lower)
}

/// Writes back a resident file after power loss or its daemon's death, and makes the header void.
///
/// # Errors
/// As [`write_back`]; [`ResidentError::Size`] for a damaged size.
pub fn recover<M: Memory>(
    resident: ResidentFile<'_, M>,
    lower: &impl LowerFile,
) -> Result<WrittenBack, ResidentError> {
    if !resident.is_live()? {
        return Ok(WrittenBack::Nothing);
    }
    let size_bytes = resident.kept_size()?;
    write_back(resident, size_bytes, lower)?;
    resident.end()?;
    Ok(WrittenBack::All { size_bytes })
}

fn ask_to_demote<M: Memory>(
    resident: ResidentFile<'_, M>,
    size_bytes: u64,
    lower: &impl LowerFile,
) -> Result<(), ResidentError> {
    let mut piece = vec![0; PIECE_BYTES.min(size_bytes as usize)];
    let mut at = 0;
    while at < size_bytes {
        let len = piece.len().min((size_bytes - at) as usize);
        resident.read(at, &mut piece[..len])?;
        lower.write_all_at(&piece[..len], at).map_err(ResidentError::Lower)?;
        at += len as u64;
    }
    lower.set_size(size_bytes).map_err(ResidentError::Lower)
}
