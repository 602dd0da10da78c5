//! `emu`: a mapped file that emulates a device's memory.
//!
//! Its bytes survive every process, but not power loss. So it is volatile, unless its opener declares it persistent: then lines are written back
//! and stores fenced as for such memory, and every report says that it is emulated.

use std::fs::File;
use std::path::Path;

use byway_sys::dax;
use byway_sys::map::{PAGE_BYTES, Sharing};

use crate::domain::Domain;
use crate::error::RegionError;
use crate::opening::Opening;
use crate::terms::{Terms, len_of};

const VOLATILE: &str = "emulated memory does not survive a loss of power, and nothing declares it persistent \
                        (--emulate-persistence)";
const EMULATED: &str =
    "emulated: it survives processes, not a loss of power, and was asked to count as if it did";

/// Takes all of the file's room.
pub(crate) fn terms(
    path: &Path,
    file: &File,
    size_bytes: Option<u64>,
    how: &Opening,
) -> Result<Terms, RegionError> {
    let len_bytes = len_of(path, file, size_bytes)?.next_multiple_of(PAGE_BYTES as u64);
    let (domain, why) = match (how.emulate_persistence, how.domain) {
        (false, None | Some(Domain::Volatile)) => (Domain::Volatile, VOLATILE),
        (false, Some(_)) => return Err(RegionError::option("domain", VOLATILE)),
        (true, domain) => (domain.unwrap_or(Domain::LineFlush), EMULATED),
    };
    dax::take_room(file, len_bytes).map_err(RegionError::system(path, "take room for all of it"))?;
    Ok(Terms::new((len_bytes, PAGE_BYTES as u64), Sharing::Shared, domain, why))
}
