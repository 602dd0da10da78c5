//! Named byte ranges of an image, and the folder that it is in.

use std::ops::Range;
use std::path::Path;

use tempfile::TempDir;

use crate::Sector;

/// Byte ranges of an image by name. Of ranges that overlap, the first counts.
#[derive(Debug, Clone)]
pub struct NamedRanges(Vec<(&'static str, Range<u64>)>);

impl NamedRanges {
    /// Ranges with these names.
    #[must_use]
    pub const fn new(parts: Vec<(&'static str, Range<u64>)>) -> Self {
        Self(parts)
    }

    /// Start of a range, in bytes.
    ///
    /// # Panics
    /// If there is no range of that name.
    #[must_use]
    pub fn start_of(&self, name: &str) -> u64 {
        self.0.iter().find(|(region, _)| *region == name).unwrap().1.start
    }

    /// Name of a sector's range, and the sector's offset in it in bytes; outside of all ranges an empty name and the offset in the image.
    #[must_use]
    pub fn find(&self, sector: &Sector<'_>) -> (&'static str, u64) {
        let found = self.0.iter().find(|(_, range)| range.contains(&sector.at));
        let (name, start) = found.map_or(("", 0), |(name, range)| (*name, range.start));
        (name, sector.at - start)
    }
}

/// A new folder for images, in memory where the machine has such a file system: the cost of real syncs is no subject of power
/// tests.
///
/// # Panics
/// If there can be no folder.
#[must_use]
pub fn image_folder() -> TempDir {
    tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap()
}
