//! Names of files, and the order in which files and names become durable.
//!
//! After a loss of power a file that was just made may have no name, one that was renamed its old one, and one whose name is on
//! the disk no content. So each name is given by these functions, and each sync has a name itself: the [`NamePoint`]s.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::events::of_folder;
use crate::file_id::FileId;

/// What has to be on the disk before what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamePoint {
    /// The name of a new image, before anything in it is promised.
    ImageName,
    /// A copy, before it gets its name.
    CopyContent,
    /// The name of a copy, before it is said to be made.
    CopyName,
    /// An image's name, once another file has it, before anything in that is promised.
    ReplacedName,
}

impl NamePoint {
    /// Every point there is.
    pub const ALL: [Self; 4] = [Self::ImageName, Self::CopyContent, Self::CopyName, Self::ReplacedName];
}

/// Something done to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStep<'a> {
    /// A file gets a name that nothing has.
    Link {
        /// A path by which it can be opened now.
        from: &'a Path,
        /// The name it gets.
        to: &'a Path,
    },
    /// A file gets another name, and whatever had that loses it.
    Rename {
        /// The name it had.
        from: &'a Path,
        /// The name it gets.
        to: &'a Path,
    },
    /// Something is put on the disk.
    Sync {
        /// What for.
        point: NamePoint,
        /// The file.
        path: &'a Path,
    },
}

/// A folder that stays the same one while it is open, whatever its path leads to meanwhile: a user who may rename a folder
/// above it cannot turn a step on a name to another folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder in which `path` is a name.
    pub fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, folder_of(path), flags, Mode::empty())?))
    }

    /// Gives the file that `from` opens the last name of `to`, which nothing may have. It may keep the name it had.
    /// `AlreadyExists` where something has it.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        observed(NameStep::Link { from, to }, || {
            match rustix::fs::linkat(CWD, from, &self.0, name_of(to)?, AtFlags::SYMLINK_FOLLOW) {
                // File systems without hard links.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                    let replaced = RenameFlags::NOREPLACE;
                    Ok(rustix::fs::renameat_with(CWD, from, &self.0, name_of(to)?, replaced)?)
                }
                linked => Ok(linked?),
            }
        })
    }

    /// Gives the file with the last name of `from` that of `to`, in place of the file that has it.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        observed(NameStep::Rename { from, to }, || {
            Ok(rustix::fs::renameat(&self.0, name_of(from)?, &self.0, name_of(to)?)?)
        })
    }

    /// Whether the last name of `path` is this open file's here, and not that of another file or of a symbolic link.
    pub fn has(&self, file: &File, path: &Path) -> io::Result<bool> {
        match rustix::fs::statat(&self.0, name_of(path)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(FileId::of_stat(&found) == FileId::of(&file.metadata()?)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a new file of mode 0600 under the last name of `path`, which nothing may have.
    pub fn make(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name_of(path)?, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Opens a new file of mode 0600 without a name.
    pub fn make_unnamed(&self) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, c".", flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// Removes the last name of `path` if it is still this open file's.
    pub fn remove_if_of(&self, file: &File, path: &Path) -> io::Result<()> {
        match self.has(file, path)? {
            true => Ok(rustix::fs::unlinkat(&self.0, name_of(path)?, AtFlags::empty())?),
            false => Ok(()),
        }
    }
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Waits until the name of a file is on its disk.
///
/// # Errors
/// What the system says.
pub fn sync_name(path: &Path, point: NamePoint) -> io::Result<()> {
    observed(NameStep::Sync { point, path }, || put_on_disk(&File::open(folder_of(path))?))
}

/// Whether `path` leads to this open file, and not to another one or nowhere.
///
/// # Errors
/// What the system says.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    is_same(file, std::fs::metadata(path))
}

/// Removes a name if it is still this open file's.
///
/// # Errors
/// What the system says.
pub fn remove_if_at(file: &File, path: &Path) -> io::Result<()> {
    match is_same(file, std::fs::symlink_metadata(path))? {
        true => std::fs::remove_file(path),
        false => Ok(()),
    }
}

fn is_same(file: &File, found: io::Result<Metadata>) -> io::Result<bool> {
    match found {
        Ok(found) => Ok(FileId::of(&found) == FileId::of(&file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The folder of a path; `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Waits until a file without a lock, and what belongs to it, is on its disk.
pub(crate) fn sync_content(file: &File, path: &Path, point: NamePoint) -> io::Result<()> {
    observed(NameStep::Sync { point, path }, || put_on_disk(file))
}

#[expect(clippy::disallowed_methods, reason = "here each such sync has a name")]
fn put_on_disk(file: &File) -> io::Result<()> {
    file.sync_all()
}

fn observed<R>(step: NameStep<'_>, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    let events = of_folder();
    events.iter().try_for_each(|events| events.before(&step))?;
    let done = act()?;
    events.iter().for_each(|events| events.after(&step));
    Ok(done)
}
