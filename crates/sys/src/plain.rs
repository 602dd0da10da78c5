//! Files and block devices as others left them: opened as they are, read and written at offsets, neither locked nor
//! preallocated. Images have [`crate::ImageFile`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, fallocate, open};

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainOptions {
    /// Open for reading only.
    pub read_only: bool,
    /// Bypass the page cache (O_DIRECT).
    pub direct: bool,
    /// Make a file of this many bytes; refused if the path exists.
    pub create_bytes: Option<u64>,
}

impl PlainOptions {
    crate::setters! {
        /// Open for reading only. Default: off.
        read_only: bool;
        /// Bypass the page cache (O_DIRECT). Default: off.
        direct: bool;
        /// Make a file of this many bytes; refused if the path exists. Default: `None`, open what is there.
        create_bytes: impl Into<Option<u64>>;
    }
}

/// What is behind a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// A character device.
    Character,
    /// Anything else, which has no blocks.
    Other,
}

/// An open file or block device.
#[derive(Debug)]
pub struct PlainFile {
    file: File,
    kind: PlainKind,
}

/// What of a file's or device's bytes is asked for, beside reading and writing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeChange {
    /// They read as zeroes.
    Zero,
    /// They read as zeroes, and the space beneath is given back where that can be.
    ZeroAndFree,
    /// They are no longer needed.
    Free,
}

impl PlainFile {
    /// Opens `path`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn open(path: &Path, options: PlainOptions) -> io::Result<Self> {
        let mut flags = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR } | OFlags::CLOEXEC;
        flags.set(OFlags::DIRECT, options.direct);
        flags.set(OFlags::CREATE | OFlags::EXCL, options.create_bytes.is_some());
        let file = File::from(open(path, flags, Mode::from_raw_mode(0o644))?);
        if let Some(bytes) = options.create_bytes {
            file.set_len(bytes)?;
        }
        let kind = match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => PlainKind::File,
            FileType::BlockDevice => PlainKind::Block,
            FileType::CharacterDevice => PlainKind::Character,
            _ => PlainKind::Other,
        };
        Ok(Self { file, kind })
    }

    /// What `fstat` said of it when it was opened.
    #[must_use]
    pub const fn kind(&self) -> PlainKind {
        self.kind
    }

    /// Its size now, in bytes.
    ///
    /// # Errors
    /// The system's answer.
    pub fn len_bytes(&self) -> io::Result<u64> {
        if self.kind == PlainKind::File {
            return Ok(self.file.metadata()?.len());
        }
        Ok(rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0))?)
    }

    /// Bytes of it that are on the disk now: fewer than its size where it has holes. All of a device.
    ///
    /// # Errors
    /// The system's answer.
    pub fn allocated_bytes(&self) -> io::Result<u64> {
        let len_bytes = self.len_bytes()?;
        match self.kind {
            PlainKind::File => Ok((self.file.metadata()?.blocks() * 512).min(len_bytes)),
            _ => Ok(len_bytes),
        }
    }

    /// The smallest block that can be read and written past the page cache, in bytes.
    ///
    /// # Errors
    /// The system's answer.
    pub fn logical_block_bytes(&self) -> io::Result<u32> {
        match self.kind {
            PlainKind::Block => Ok(rustix::fs::ioctl_blksszget(&self.file)?),
            _ => Ok(self.direct_align_bytes()?.unwrap_or(512)),
        }
    }

    /// What a file system says of direct reads and writes of this file, if it says so.
    fn direct_align_bytes(&self) -> io::Result<Option<u32>> {
        let flags = rustix::fs::AtFlags::EMPTY_PATH;
        let found = rustix::fs::statx(&self.file, "", flags, rustix::fs::StatxFlags::DIOALIGN)?;
        Ok((found.stx_dio_offset_align > 0).then_some(found.stx_dio_offset_align))
    }

    /// Reads at a byte offset; returns how much was read, which may be less, and nothing at the end.
    ///
    /// # Errors
    /// The system's answer.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.file, into, at)?)
    }

    /// Writes at a byte offset; returns how much was written, which may be less.
    ///
    /// # Errors
    /// The system's answer.
    pub fn write_at(&self, at: u64, from: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::pwrite(&self.file, from, at)?)
    }

    /// Makes completed writes durable, with what is needed to find them again.
    ///
    /// # Errors
    /// The system's answer.
    #[expect(clippy::disallowed_methods, reason = "the sync that a program's own Flush asks for")]
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Changes a range without sending its bytes.
    ///
    /// # Errors
    /// The system's answer; `Unsupported` where the file system or the device cannot.
    pub fn change(&self, at: u64, len_bytes: u64, change: RangeChange) -> io::Result<()> {
        if len_bytes == 0 {
            return Ok(());
        }
        Ok(fallocate(&self.file, change.flags(), at, len_bytes)?)
    }
}

impl RangeChange {
    /// The flags of `fallocate` for it.
    pub(crate) fn flags(self) -> FallocateFlags {
        match self {
            Self::Zero => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            Self::ZeroAndFree | Self::Free => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        }
    }
}

impl AsFd for PlainFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_made_written_and_zeroed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = PlainOptions { create_bytes: Some(8192), ..PlainOptions::default() };
        let file = PlainFile::open(&path, options).unwrap();
        assert_eq!((file.kind(), file.len_bytes().unwrap()), (PlainKind::File, 8192));
        assert_eq!(file.write_at(4096, &[7; 4096]).unwrap(), 4096);
        file.change(4096, 512, RangeChange::ZeroAndFree).unwrap();
        let mut read = [1; 1024];
        assert_eq!(file.read_at(4096, &mut read).unwrap(), 1024);
        assert_eq!((read[511], read[512]), (0, 7));
        assert!(PlainFile::open(&path, options).is_err(), "a file that is there is not made anew");
    }
}
