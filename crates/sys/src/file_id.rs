//! Which file something is, whatever its names: an inode's number alone says so on one file system only.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file, by its file system and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that these are the attributes of.
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }

    /// The file that these are the attributes of, as statat(2) gives them.
    pub(crate) fn of_stat(found: &rustix::fs::Stat) -> Self {
        Self { device: found.st_dev, inode: found.st_ino }
    }

    /// What has that name: a symbolic link is not followed.
    ///
    /// # Errors
    /// What the system says.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(path).map(|found| Self::of(&found))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn file_ids_differ_by_file_system_as_by_inode() {
        let id = FileId { device: 1, inode: 2 };
        assert_ne!(id, FileId { device: 2, ..id });
        assert_ne!(id, FileId { inode: 3, ..id });
    }

    #[test]
    fn file_id_is_that_of_every_name_and_not_of_a_link_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let [file, hard, soft] = ["file", "hard", "soft"].map(|name| dir.path().join(name));
        std::fs::write(&file, "").unwrap();
        std::fs::hard_link(&file, &hard).unwrap();
        std::os::unix::fs::symlink(&file, &soft).unwrap();
        let id = FileId::at(&file).unwrap();
        assert_eq!(FileId::at(&hard).unwrap(), id);
        assert_ne!(FileId::at(&soft).unwrap(), id);
        assert_eq!(FileId::of(&std::fs::metadata(&soft).unwrap()), id);
    }
}
