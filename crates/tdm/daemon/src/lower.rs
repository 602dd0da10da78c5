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

use byway_tdm_board::{FileKey, Identified, lower_of};
use byway_tdm_log::LowerFile;
use rustix::fs::{Mode, OFlags, open};

/// A file that logs are written back to.
#[derive(Debug)]
pub(crate) struct Lower(File);

impl Lower {
    /// The file that somebody handed over.
    pub(crate) fn again(handed: BorrowedFd<'_>) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", handed.as_raw_fd());
        let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self(file.into()))
    }

    /// The file of a key that was at a path once: there, or under another name in the same folder.
    pub(crate) fn find(path: &Path, key: FileKey) -> io::Result<Option<(PathBuf, Self)>> {
        if let Some(lower) = Self::at(path, key)? {
            return Ok(Some((path.to_owned(), lower)));
        }
        let Some(folder) = path.parent() else { return Ok(None) };
        let Ok(names) = std::fs::read_dir(folder) else { return Ok(None) };
        for name in names.flatten() {
            let path = name.path();
            if let Some(lower) = Self::at(&path, key)? {
                return Ok(Some((path, lower)));
            }
        }
        Ok(None)
    }

    /// The file at a path, if it is the one. What is not a file, or another's, is not opened at all.
    fn at(path: &Path, key: FileKey) -> io::Result<Option<Self>> {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(None) };
        let is_it = |found: Option<Identified>| found.is_some_and(|found| found.key == key);
        if !is_it(FileKey::at(&name).unwrap_or(None)) {
            return Self::below(path, key);
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        Ok(is_it(FileKey::of(&file)?).then_some(Self(file)))
    }

    /// The file that a mount shows at a path, if it is the one.
    fn below(path: &Path, key: FileKey) -> io::Result<Option<Self>> {
        let Some(lower) = lower_of(path) else { return Ok(None) };
        // Opened so, nothing happens to whatever it is.
        let Ok(found) = open(lower, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return Ok(None) };
        match FileKey::of(&found)? {
            Some(is) if is.key == key => Self::again(found.as_fd()).map(Some),
            _ => Ok(None),
        }
    }

    /// Where it is now, as the kernel says it.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
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

    /// Its size.
    pub(crate) fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
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
