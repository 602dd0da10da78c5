//! Copies of sparse files that stay sparse.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::events::{FileEvents, of_file};
use crate::names::{NamePoint, sync_content};

/// Bytes copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A file that becomes a copy.
#[derive(Debug)]
pub struct CopyFile {
    file: File,
    path: PathBuf,
    events: Option<Arc<dyn FileEvents>>,
}

impl CopyFile {
    /// A copy in an empty file, which for now is at `path`.
    #[must_use]
    pub fn new(file: File, path: &Path) -> Self {
        Self { file, path: path.into(), events: of_file(path) }
    }

    /// Sets its length; new bytes are a hole that reads as zeroes.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)
    }

    /// Writes a whole range.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.events.iter().try_for_each(|events| events.before_write(at, bytes.len() as u64))?;
        self.file.write_all_at(bytes, at)
    }

    /// Waits until all of it is on its disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|events| events.before_sync())?;
        sync_content(&self.file, &self.path, NamePoint::CopyContent)?;
        self.events.iter().for_each(|events| events.after_sync());
        Ok(())
    }

    /// The file itself: operations on it bypass the observers.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }
}

/// Shares all blocks of `from` with `to`, an empty file on the same file system; false where that cannot be done.
///
/// # Errors
/// None that a copy would not meet too: those are left to the copy.
#[must_use]
pub fn reflink(from: &File, to: &CopyFile) -> bool {
    rustix::fs::ioctl_ficlone(&to.file, from).is_ok()
}

/// The ranges of a file that hold data, from `at` on, in order: holes between them read as zeroes.
#[derive(Debug)]
pub struct DataRanges<'a> {
    file: &'a File,
    at: u64,
    len_bytes: u64,
}

impl<'a> DataRanges<'a> {
    /// The ranges in the first `len_bytes` of a file.
    #[must_use]
    pub const fn new(file: &'a File, len_bytes: u64) -> Self {
        Self { file, at: 0, len_bytes }
    }

    /// The ranges between two bytes of a file.
    #[must_use]
    pub const fn between(file: &'a File, at: u64, end: u64) -> Self {
        Self { file, at, len_bytes: end }
    }

    fn find(&mut self) -> io::Result<Option<(u64, u64)>> {
        if self.at >= self.len_bytes {
            return Ok(None);
        }
        let data = match rustix::fs::seek(self.file, SeekFrom::Data(self.at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(None),
            // A file system that knows no holes: all of it is data.
            Err(Errno::INVAL) => self.at,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(self.file, SeekFrom::Hole(data)).unwrap_or(self.len_bytes);
        let end = hole.min(self.len_bytes);
        self.at = end;
        Ok((data < end).then(|| (data, end - data)))
    }
}

impl Iterator for DataRanges<'_> {
    type Item = io::Result<(u64, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.find().transpose()
    }
}

/// Copies `len_bytes` at `at` of `from` to the same place of `to`.
///
/// # Errors
/// What the system says.
pub fn copy_range(from: &File, to: &CopyFile, at: u64, len_bytes: u64) -> io::Result<()> {
    let (mut at, end) = (at, at.saturating_add(len_bytes));
    let mut piece = Vec::new();
    while at < end {
        let len = (end - at).min(PIECE_BYTES) as usize;
        piece.resize(len, 0);
        from.read_exact_at(&mut piece, at)?;
        to.write_at(at, &piece)?;
        at += len as u64;
    }
    Ok(())
}

/// Makes `to`, an empty file, the same as `from`; holes stay holes. `copied` is called with the bytes copied so far.
///
/// # Errors
/// What the system says.
pub fn copy_sparse(from: &File, to: &CopyFile, mut copied: impl FnMut(u64)) -> io::Result<()> {
    let progress = |bytes| {
        copied(bytes);
        ControlFlow::Continue(())
    };
    copy_sparse_until(from, to, progress).map(drop)
}

/// As [`copy_sparse`]; `copied` may end it before all is copied.
///
/// # Errors
/// What the system says.
pub fn copy_sparse_until(
    from: &File,
    to: &CopyFile,
    mut copied: impl FnMut(u64) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let len_bytes = from.metadata()?.len();
    if reflink(from, to) {
        return Ok(ControlFlow::Continue(()));
    }
    to.set_len(len_bytes)?;
    let mut done = 0;
    for range in DataRanges::new(from, len_bytes) {
        let (mut at, mut left) = range?;
        while left > 0 {
            let piece = left.min(PIECE_BYTES);
            copy_range(from, to, at, piece)?;
            (at, left, done) = (at + piece, left - piece, done + piece);
            if copied(done).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_range_that_is_all_hole_has_no_data_whatever_lies_behind_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(b"behind", 3 << 20).unwrap();
        assert!(DataRanges::between(&file, 1 << 20, 2 << 20).next().is_none());
    }

    #[test]
    fn a_copy_of_a_sparse_file_is_the_same_and_as_sparse() {
        let from = tempfile::tempfile().unwrap();
        let to = CopyFile::new(tempfile::tempfile().unwrap(), Path::new("copy"));
        from.set_len(1 << 30).unwrap();
        from.write_all_at(b"here", 5 << 20).unwrap();
        from.write_all_at(&[7; 9000], (1 << 30) - 9000).unwrap();
        copy_sparse(&from, &to, |_| {}).unwrap();
        let to = to.file();
        let mut back = [0; 4];
        to.read_exact_at(&mut back, 5 << 20).unwrap();
        assert_eq!(&back, b"here");
        let mut end = [0; 9000];
        to.read_exact_at(&mut end, (1 << 30) - 9000).unwrap();
        assert_eq!(end, [7; 9000]);
        assert_eq!(to.metadata().unwrap().len(), 1 << 30);
        assert!(to.metadata().unwrap().blocks() * 512 < 4 << 20);
    }
}
