//! The file below, through an open file of the daemon's own.
//!
//! A program's open file is not kept: the daemon would share its locks and its position.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use byway_tdm_engine::log::LowerFile;
use byway_tdm_engine::table::{FileKey, Identified, lower_of};
use rustix::fs::{Mode, OFlags, open};

/// A file that logs are written back to.
#[derive(Debug)]
pub(crate) struct Lower(File);

/// A file to be found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought {
    pub(crate) key: FileKey,
    /// The system was rebooted: device numbers may differ.
    pub(crate) is_renumbered: bool,
    /// To be written, not only synced.
    pub(crate) is_written: bool,
}

impl Sought {
    /// A file of this boot, to be synced.
    pub(crate) const fn to_sync(key: FileKey) -> Self {
        Self { key, is_renumbered: false, is_written: false }
    }

    fn is(self, found: FileKey) -> bool {
        let device = if self.is_renumbered { found.device } else { self.key.device };
        found == FileKey { device, ..self.key }
    }
}

impl Lower {
    /// Opens the file of a program's descriptor, to sync it.
    pub(crate) fn again(handed: BorrowedFd<'_>) -> io::Result<Self> {
        Self::opened(Path::new(&path_of(handed)), OFlags::empty(), false)
    }

    /// Opens the file read-only for syncing if possible: a file open for writing cannot be executed, and closing it would notify watchers of a write.
    fn opened(path: &Path, how: OFlags, is_written: bool) -> io::Result<Self> {
        let by = |access| open(path, access | how | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let file = match is_written {
            true => by(OFlags::WRONLY),
            false => by(OFlags::RDONLY).or_else(|_| by(OFlags::WRONLY)),
        };
        Ok(Self(file?.into()))
    }

    /// Finds a file at its old path, or where it is now if one name of the path was changed.
    pub(crate) fn find(path: &Path, sought: Sought) -> io::Result<Option<(PathBuf, Self)>> {
        if let Some(lower) = Self::at(path, sought)? {
            return Ok(Some((path.to_owned(), lower)));
        }
        let mut device = None;
        for renamed in path.ancestors() {
            let Some(about) = renamed.parent().and_then(|folder| folder.metadata().ok()) else { continue };
            if *device.get_or_insert(about.dev()) != about.dev() {
                // A file system's border: renames do not cross it.
                break;
            }
            if let Some(found) = Self::renamed(path, renamed, sought)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The file at `path` if its prefix `renamed` now ends in another name.
    fn renamed(path: &Path, renamed: &Path, sought: Sought) -> io::Result<Option<(PathBuf, Self)>> {
        let (Some(folder), Ok(rest)) = (renamed.parent(), path.strip_prefix(renamed)) else {
            return Ok(None);
        };
        let Ok(names) = std::fs::read_dir(folder) else { return Ok(None) };
        for name in names.flatten() {
            // Joining an empty path would add a slash.
            let path = if rest.as_os_str().is_empty() { name.path() } else { name.path().join(rest) };
            if let Some(lower) = Self::at(&path, sought)? {
                return Ok(Some((path, lower)));
            }
        }
        Ok(None)
    }

    /// Opens the file at a path, if it is the one sought. Other files are not opened.
    pub(crate) fn at(path: &Path, sought: Sought) -> io::Result<Option<Self>> {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(None) };
        let is_it = |found: Option<Identified>| found.is_some_and(|found| sought.is(found.key));
        if !is_it(FileKey::at(&name).unwrap_or(None)) {
            return Self::below(path, sought);
        }
        let lower = Self::opened(path, OFlags::NOFOLLOW, sought.is_written)?;
        Ok(is_it(FileKey::of(&lower)?).then_some(lower))
    }

    /// Opens the file below a mounted path, if it is the one sought.
    fn below(path: &Path, sought: Sought) -> io::Result<Option<Self>> {
        let Some(lower) = lower_of(path) else { return Ok(None) };
        // O_PATH has no effect on what is opened.
        let Ok(found) = open(lower, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return Ok(None) };
        match FileKey::of(&found)? {
            Some(is) if sought.is(is.key) => {
                Self::opened(Path::new(&path_of(found.as_fd())), OFlags::empty(), sought.is_written).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Its current path, by the kernel.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(path_of(self.as_fd()))
    }

    /// Number of its names.
    pub(crate) fn links(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.nlink())
    }

    /// Time of its last write; earlier times count as 1970.
    pub(crate) fn written(&self) -> io::Result<Duration> {
        let written = self.0.metadata()?.modified()?;
        Ok(written.duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Its owner.
    pub(crate) fn owner_uid(&self) -> io::Result<u32> {
        Ok(self.0.metadata()?.uid())
    }

    /// Its size in bytes.
    pub(crate) fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Path of an open file through `/proc`.
fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Really syncs the file system that a file was on, if its folder is still there. `true` if done.
pub(crate) fn sync_whole(path: &Path, key: FileKey) -> bool {
    let there = |folder: &&Path| folder.is_dir();
    let Some(folder) = path.ancestors().skip(1).find(there) else { return false };
    let Ok(folder) = File::open(folder) else { return false };
    let is_same = FileKey::device_of(&folder).is_ok_and(|device| device == key.device);
    is_same && rustix::fs::syncfs(&folder).is_ok()
}

impl AsFd for Lower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl LowerFile for Lower {
    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(data, at)
    }

    fn set_size(&self, size_bytes: u64) -> io::Result<()> {
        self.0.set_len(size_bytes)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the log names what is kept before what; this is the only sync below it"
    )]
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
