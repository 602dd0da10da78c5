//! Named parts of an image, and the folder that it is in.

use std::ops::Range;
use std::path::Path;

use tempfile::TempDir;

use crate::Sector;

/// Parts of an image by name, each a range of bytes. Of parts that overlap the first counts.
#[derive(Debug, Clone)]
pub struct Regions(Vec<(&'static str, Range<u64>)>);

impl Regions {
    /// These parts.
    #[must_use]
    pub const fn new(parts: Vec<(&'static str, Range<u64>)>) -> Self {
        Self(parts)
    }

    /// Where a part begins, in bytes.
    ///
    /// # Panics
    /// If there is no part of that name.
    #[must_use]
    pub fn start_of(&self, name: &str) -> u64 {
        self.0.iter().find(|(region, _)| *region == name).unwrap().1.start
    }

    /// Part of a sector, and the sector's offset in it in bytes; outside of all parts an empty name and the offset in the image.
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
