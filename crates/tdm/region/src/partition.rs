//! Partitions: ranges of a region, each in a file of its own, whose name describes it.

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A partition, as described by its file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionName {
    /// Its bytes in the region.
    pub range: Range<u64>,
    /// The user who may open it.
    pub uid: u32,
}

impl PartitionName {
    /// Path of its file, beside the region's.
    pub(crate) fn path_beside(&self, region: &Path) -> PathBuf {
        let mut name = region.as_os_str().to_owned();
        name.push(self.to_string());
        PathBuf::from(name)
    }

    /// Parses the part of a file's name that follows the region's.
    fn parse(ending: &str) -> Option<Self> {
        let mut parts = ending.strip_prefix(".slice-")?.split('-');
        let (start, end) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let uid = parts.next()?.parse().ok()?;
        (parts.next().is_none() && start < end).then_some(Self { range: start..end, uid })
    }

    /// Whether it overlaps a range.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".slice-{}-{}-{}", self.range.start, self.range.end, self.uid)
    }
}

/// All partitions beside a region's file, in order.
pub(crate) fn beside(region: &Path) -> io::Result<Vec<PartitionName>> {
    let folder = region.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(own) = region.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let ending = name.to_str().and_then(|name| name.strip_prefix(own));
        found.extend(ending.and_then(PartitionName::parse));
    }
    found.sort_by_key(|partition| partition.range.start);
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn partitions_are_found_by_their_names_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let region = folder.path().join("region");
        let partitions =
            [PartitionName { range: 0..4096, uid: 7 }, PartitionName { range: 8192..1 << 40, uid: 1000 }];
        for partition in partitions.iter().rev() {
            fs::write(partition.path_beside(&region), []).unwrap();
        }
        for other in
            ["region", "region.slice-1", "region.slice-5-5-1", "region.slice-a-b-c", "regions.slice-0-1-1"]
        {
            fs::write(folder.path().join(other), []).unwrap();
        }
        assert_eq!(beside(&region).unwrap(), partitions);
    }
}
