//! A home written back to the file below: as often as it takes.

use crate::log::LowerFile;
use byway_tdm_region::Memory;

use crate::resident::home::{Home, HomeError};

/// Bytes that are written back at a time.
const PIECE_BYTES: usize = 256 << 10;

/// What a recovery did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenBack {
    /// The home does not count: the file below is as it was.
    Nothing,
    /// All of the file.
    All {
        /// Its size.
        size_bytes: u64,
    },
}

/// Brings a file of that size below, from its home, and has it kept there. The home counts still.
///
/// # Errors
/// What the memory or the file below says: it is done again, from its beginning.
pub fn write_back<M: Memory>(
    home: Home<'_, M>,
    size_bytes: u64,
    lower: &impl LowerFile,
) -> Result<(), HomeError> {
    bring_below(home, size_bytes, lower)?;
    lower.sync().map_err(HomeError::Lower)
}

/// Writes back what a home had when the power went, or its user died, and ends it.
///
/// # Errors
/// As [`write_back`], and for a size that nobody wrote.
pub fn recover<M: Memory>(home: Home<'_, M>, lower: &impl LowerFile) -> Result<WrittenBack, HomeError> {
    if !home.is_live()? {
        return Ok(WrittenBack::Nothing);
    }
    let size_bytes = home.kept_size()?;
    write_back(home, size_bytes, lower)?;
    home.end()?;
    Ok(WrittenBack::All { size_bytes })
}

fn bring_below<M: Memory>(
    home: Home<'_, M>,
    size_bytes: u64,
    lower: &impl LowerFile,
) -> Result<(), HomeError> {
    let mut piece = vec![0; PIECE_BYTES.min(size_bytes as usize)];
    let mut at = 0;
    while at < size_bytes {
        let len = piece.len().min((size_bytes - at) as usize);
        home.read(at, &mut piece[..len])?;
        lower.write_all_at(&piece[..len], at).map_err(HomeError::Lower)?;
        at += len as u64;
    }
    lower.set_size(size_bytes).map_err(HomeError::Lower)
}
