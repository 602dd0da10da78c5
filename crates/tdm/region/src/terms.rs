//! Terms of a mapped file: length, alignment, sharing and persistence.

use std::fs::File;
use std::path::Path;

use byway_sys::Mapping;
use byway_sys::map::Sharing;

use crate::domain::Domain;
use crate::error::RegionError;

/// How a file is mapped, and its persistence.
#[derive(Debug)]
pub(crate) struct Terms {
    len_bytes: u64,
    align_bytes: u64,
    sharing: Sharing,
    domain: Domain,
    why: String,
}

impl Terms {
    /// Length and alignment in bytes; the domain, and why it is that.
    pub(crate) fn new(
        (len_bytes, align_bytes): (u64, u64),
        sharing: Sharing,
        domain: Domain,
        why: impl Into<String>,
    ) -> Self {
        Self { len_bytes, align_bytes, sharing, domain, why: why.into() }
    }

    /// Length in bytes.
    #[cfg(test)]
    pub(crate) const fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Alignment in bytes of what can be mapped of it.
    pub(crate) const fn align_bytes(&self) -> u64 {
        self.align_bytes
    }

    /// Whether the kernel writes the file system's metadata before a page is stored to (`MAP_SYNC`).
    pub(crate) fn is_synchronous(&self) -> bool {
        self.sharing == Sharing::Synchronous
    }

    /// Persistence domain.
    pub(crate) const fn domain(&self) -> Domain {
        self.domain
    }

    /// Why it is of that domain.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// Maps the file from `file_at` on, all pages at once; guarded if others may truncate it.
    ///
    /// # Errors
    /// It is too long, or the system's error.
    pub(crate) fn map(
        &self,
        path: &Path,
        file: &File,
        file_at: u64,
        is_guarded: bool,
    ) -> Result<Mapping, RegionError> {
        let len_bytes = usize::try_from(self.len_bytes)
            .map_err(|_| RegionError::refused(path, "it is longer than an address can represent"))?;
        let mapped = match is_guarded {
            true => Mapping::guarded_file(file, file_at, len_bytes, self.sharing),
            false => Mapping::file(file, file_at, len_bytes, self.sharing),
        };
        let map = mapped.map_err(RegionError::system(path, "map it"))?;
        map.populate(0, len_bytes).map_err(RegionError::system(path, "have all of its pages mapped"))?;
        Ok(map)
    }
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
