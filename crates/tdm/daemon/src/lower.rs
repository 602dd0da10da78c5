//! The file below, by an open file of our own.
//!
//! A client's open file is not kept: its locks would be held by us too, and its position is its own.

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

/// Which file is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought {
    pub(crate) key: FileKey,
    /// The system was started again: devices may have other numbers.
    pub(crate) is_renumbered: bool,
    /// It is written, not only synced.
    pub(crate) is_written: bool,
}

impl Sought {
    /// One of this boot, of which the page cache has all.
    pub(crate) const fn to_sync(key: FileKey) -> Self {
        Self { key, is_renumbered: false, is_written: false }
    }

    fn is(self, found: FileKey) -> bool {
        let device = if self.is_renumbered { found.device } else { self.key.device };
        found == FileKey { device, ..self.key }
    }
}

impl Lower {
    /// The file that somebody handed over, to be synced.
    pub(crate) fn again(handed: BorrowedFd<'_>) -> io::Result<Self> {
        Self::opened(Path::new(&path_of(handed)), OFlags::empty(), false)
    }

    /// To be synced a file is opened to be read where that can be: while somebody has it open to be written, no program can be started
    /// from it, and whoever watches it is told that it was written once that is closed.
    fn opened(path: &Path, how: OFlags, is_written: bool) -> io::Result<Self> {
        let by = |access| open(path, access | how | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let file = match is_written {
            true => by(OFlags::WRONLY),
            false => by(OFlags::RDONLY).or_else(|_| by(OFlags::WRONLY)),
        };
        Ok(Self(file?.into()))
    }

    /// A file that was at a path once: there, or where it is if one name on the way to it, its own or a folder's, is another by now.
    pub(crate) fn find(path: &Path, sought: Sought) -> io::Result<Option<(PathBuf, Self)>> {
        if let Some(lower) = Self::at(path, sought)? {
            return Ok(Some((path.to_owned(), lower)));
        }
        let mut device = None;
        for renamed in path.ancestors() {
            let Some(about) = renamed.parent().and_then(|folder| folder.metadata().ok()) else { continue };
            if *device.get_or_insert(about.dev()) != about.dev() {
                // Nothing is renamed from one file system to another.
                break;
            }
            if let Some(found) = Self::renamed(path, renamed, sought)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The file at a path of which `renamed`, its beginning, ends by any other name.
    fn renamed(path: &Path, renamed: &Path, sought: Sought) -> io::Result<Option<(PathBuf, Self)>> {
        let (Some(folder), Ok(rest)) = (renamed.parent(), path.strip_prefix(renamed)) else {
            return Ok(None);
        };
        let Ok(names) = std::fs::read_dir(folder) else { return Ok(None) };
        for name in names.flatten() {
            // Joined with nothing it would be a folder's path.
            let path = if rest.as_os_str().is_empty() { name.path() } else { name.path().join(rest) };
            if let Some(lower) = Self::at(&path, sought)? {
                return Ok(Some((path, lower)));
            }
        }
        Ok(None)
    }

    /// The file at a path, if it is the one. What is not a file, or another's, is not opened at all.
    pub(crate) fn at(path: &Path, sought: Sought) -> io::Result<Option<Self>> {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(None) };
        let is_it = |found: Option<Identified>| found.is_some_and(|found| sought.is(found.key));
        if !is_it(FileKey::at(&name).unwrap_or(None)) {
            return Self::below(path, sought);
        }
        let lower = Self::opened(path, OFlags::NOFOLLOW, sought.is_written)?;
        Ok(is_it(FileKey::of(&lower)?).then_some(lower))
    }

    /// The file that a mount shows at a path, if it is the one.
    fn below(path: &Path, sought: Sought) -> io::Result<Option<Self>> {
        let Some(lower) = lower_of(path) else { return Ok(None) };
        // Opened so, nothing happens to whatever it is.
        let Ok(found) = open(lower, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return Ok(None) };
        match FileKey::of(&found)? {
            Some(is) if sought.is(is.key) => {
                Self::opened(Path::new(&path_of(found.as_fd())), OFlags::empty(), sought.is_written).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Where it is now, as the kernel says it.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(path_of(self.as_fd()))
    }

    /// Names it has.
    pub(crate) fn links(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.nlink())
    }

    /// When it was last written; before 1970 is 1970.
    pub(crate) fn written(&self) -> io::Result<Duration> {
        let written = self.0.metadata()?.modified()?;
        Ok(written.duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Whose it is.
    pub(crate) fn owner_uid(&self) -> io::Result<u32> {
        Ok(self.0.metadata()?.uid())
    }

    /// Its size.
    pub(crate) fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// A path that leads to an open file, whatever it is called.
fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Syncs the whole file system on which a file was, if that is still where its folder is; says whether that is done.
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
