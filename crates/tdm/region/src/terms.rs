//! Terms of a mapped file: length, alignment, sharing and persistence.

use std::fs::File;
use std::path::Path;

use byway_sys::map::Sharing;

use crate::domain::Domain;
use crate::error::RegionError;

/// How a file is mapped, and its persistence.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) len_bytes: u64,
    pub(crate) align_bytes: u64,
    pub(crate) sharing: Sharing,
    pub(crate) domain: Domain,
    pub(crate) why: String,
}

/// The requested length, or the file's. Files are never truncated.
pub(crate) fn len_of(path: &Path, file: &File, size_bytes: Option<u64>) -> Result<u64, RegionError> {
    let there = file.metadata().map_err(RegionError::system(path, "ask for its length"))?.len();
    match (size_bytes, there) {
        (None, 0) => Err(RegionError::refused(path, "it is new: say how long it is to be (size=)")),
        (None, there) => Ok(there),
        (Some(asked), there) if asked < there => {
            Err(RegionError::refused(path, format!("it has {there} bytes, which is more than size={asked}")))
        }
        (Some(asked), _) => Ok(asked),
    }
}
