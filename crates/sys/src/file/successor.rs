//! The file that replaces an image: made beside it under the same access rights, and locked before it has the name.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::ImageFile;
use crate::events::of_file;
use crate::file_error::{FileError, refusal};
use crate::names::{NamePoint, sync_name};
use crate::unnamed::UnnamedFile;

/// A new file's claim to the name of an open image.
#[derive(Debug)]
pub struct Successor {
    unnamed: UnnamedFile,
    /// The file that has the name.
    old: File,
    /// The name itself, no symbolic link to it.
    path: PathBuf,
}

impl ImageFile {
    /// Makes an empty file that can replace this one, locked, with this one's owner, mode and ACL. Until
    /// [`Successor::replace`] it has no name, or one of its own where the file system knows no files without.
    ///
    /// # Errors
    /// [`FileError::HardLinked`], [`FileError::OwnerNotKept`], [`FileError::Replaced`], and what the system says.
    pub fn successor(&self) -> Result<(Self, Successor), FileError> {
        let making = |source| refusal(&self.path, "making the file that replaces", source);
        let links = self.file.metadata().map_err(making)?.nlink();
        if links > 1 {
            return Err(FileError::HardLinked { path: self.path.clone(), links });
        }
        let path = self.path.canonicalize().map_err(making)?;
        let unnamed = UnnamedFile::new(&path).map_err(making)?;
        // A folder above may have been renamed since the image was opened: the new file is for this image's folder alone.
        if !unnamed.would_replace(&self.file).map_err(making)? {
            return Err(FileError::Replaced { path });
        }
        self.give_access(unnamed.file())?;
        let events = of_file(&unnamed.path());
        let new = Self::new_locked(unnamed.file().try_clone().map_err(making)?, &self.path, events)?;
        let old = self.file.try_clone().map_err(making)?;
        Ok((new, Successor { unnamed, old, path }))
    }

    fn give_access(&self, to: &File) -> Result<(), FileError> {
        let access = self.access()?;
        access.give(to).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                let (uid, gid) = access.owner();
                FileError::OwnerNotKept { path: self.path.clone(), uid, gid }
            }
            _ => refusal(&self.path, "keeping the access rights of", source),
        })
    }
}

impl Successor {
    /// Gives the new file the name, in one step, and waits until that is on the disk. The caller has both files locked: one
    /// that waits for the lock of the old file finds it replaced, and one that opens the new file waits.
    ///
    /// # Errors
    /// [`FileError::Replaced`], and what the system says: the old file has the name then. [`FileError::NameNotSynced`]: the new
    /// file has it, and perhaps no longer after a power loss.
    pub fn replace(&mut self) -> Result<(), FileError> {
        let path = &self.path;
        let doing = |source| refusal(path, "replacing", source);
        if !self.unnamed.would_replace(&self.old).map_err(doing)? {
            return Err(FileError::Replaced { path: path.clone() });
        }
        self.unnamed.replace().map_err(doing)?;
        let synced = sync_name(path, NamePoint::ReplacedName);
        synced.map_err(|source| FileError::NameNotSynced { path: path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;

    use super::*;

    fn image(dir: &Path) -> PathBuf {
        let path = dir.join("image");
        drop(ImageFile::create(&path).unwrap());
        path
    }

    fn replace(path: &Path) -> Result<(), FileError> {
        let old = ImageFile::open(path)?;
        let (new, mut successor) = old.successor()?;
        new.file().write_all(b"new").unwrap();
        successor.replace()
    }

    #[test]
    fn a_successor_has_owner_and_mode_of_the_image_before_it_has_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = image(dir.path());
        for mode in [0o600, 0o660, 0o644] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            if rustix::process::geteuid().is_root() {
                chown(&path, Some(4711), Some(4712)).unwrap();
            }
            let before = path.metadata().unwrap();
            let of = |about: &std::fs::Metadata| (about.uid(), about.gid(), about.mode());
            let old = ImageFile::open(&path).unwrap();
            let (new, mut successor) = old.successor().unwrap();
            assert_eq!(of(&new.file().metadata().unwrap()), of(&before));
            successor.replace().unwrap();
            assert_eq!(of(&path.metadata().unwrap()), of(&before));
        }
    }

    #[test]
    fn a_symbolic_link_stays_and_the_file_behind_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (image(dir.path()), dir.path().join("link"));
        symlink("image", &link).unwrap();
        replace(&link).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_with_several_names_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = image(dir.path());
        std::fs::hard_link(&path, dir.path().join("other")).unwrap();
        let refused = replace(&path).unwrap_err();
        assert!(refused.to_string().contains("2 names (hard links)"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn another_file_that_took_the_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = image(dir.path());
        let old = ImageFile::open(&path).unwrap();
        let (_new, mut successor) = old.successor().unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another's").unwrap();
        assert!(matches!(successor.replace(), Err(FileError::Replaced { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"another's");
    }

    #[test]
    fn successor_stays_in_the_folder_of_the_image_though_its_path_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (here, moved, other) =
            (dir.path().join("here"), dir.path().join("moved"), dir.path().join("other"));
        for folder in [&here, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(other.join("image"), "another's").unwrap();
        let old = ImageFile::open(&image(&here)).unwrap();
        let (new, mut successor) = old.successor().unwrap();
        new.file().write_all(b"new").unwrap();
        std::fs::rename(&here, &moved).unwrap();
        symlink(&other, &here).unwrap();
        successor.replace().unwrap();
        assert_eq!(std::fs::read(moved.join("image")).unwrap(), b"new");
        assert_eq!(std::fs::read(other.join("image")).unwrap(), b"another's");
    }

    #[test]
    fn a_replaced_image_is_in_use_until_its_successor_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = image(dir.path());
        let old = ImageFile::open(&path).unwrap();
        let (new, mut successor) = old.successor().unwrap();
        successor.replace().unwrap();
        drop(old);
        assert!(matches!(ImageFile::open(&path), Err(FileError::InUse { .. })));
        drop((new, successor));
        ImageFile::open(&path).unwrap();
    }
}
