//! An open file of a program in the mount.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use byway_tdm_engine::client::{Errno, Extent, Wrote};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::{ReadWriteFlags, pwrite, pwritev2};

use crate::node::{EIO, Node};

/// The file below, opened without O_APPEND, O_DIRECT and O_SYNC: the mount honours these flags itself, and requests carry offsets.
#[derive(Debug)]
pub(crate) struct OpenBelow {
    pub(crate) node: Arc<Node>,
    file: File,
    pub(crate) writes: bool,
}

/// Target of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// To an offset.
    At(u64),
    /// At the file's current end.
    End,
}

impl OpenBelow {
    pub(crate) const fn new(node: Arc<Node>, file: File, writes: bool) -> Self {
        Self { node, file, writes }
    }

    /// Reads until `into` is full or the file ends; returns the bytes read.
    pub(crate) fn read(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.file, &mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// A write as the client expects it: bytes, or negative with the error in `failed`.
    pub(crate) fn write(&self, data: &[u8], to: To, failed: &Cell<Errno>) -> isize {
        let wrote = match to {
            To::At(at) => pwrite(&self.file, data, at),
            To::End => pwritev2(&self.file, &[IoSlice::new(data)], 0, ReadWriteFlags::APPEND),
        };
        match wrote {
            Ok(wrote) => wrote.cast_signed(),
            Err(error) => {
                failed.set(error.raw_os_error());
                -1
            }
        }
    }

    /// Where the last write went. The caller holds the file's lock.
    pub(crate) fn whereto(&self, to: To, wrote: isize) -> Wrote {
        let end = match to {
            To::At(at) => return Wrote::At(at),
            // Size only: querying times makes the next write slower.
            To::End => statx(&self.file, c"", AtFlags::EMPTY_PATH, StatxFlags::SIZE),
        };
        let began = end.ok().and_then(|found| found.stx_size.checked_sub(wrote.unsigned_abs() as u64));
        began.map_or(Wrote::Unknown, Wrote::At)
    }

    /// The real sync.
    #[expect(
        clippy::disallowed_methods,
        reason = "a program's own sync, and the one that ends a log: the log names what is kept before what"
    )]
    pub(crate) fn sync(&self, extent: Extent) -> Result<(), Errno> {
        let synced = match extent {
            Extent::Data => self.file.sync_data(),
            Extent::All => self.file.sync_all(),
        };
        synced.map_err(|error| error.raw_os_error().unwrap_or(EIO))
    }

    /// Truncates or extends the file; returns the error number, or zero.
    pub(crate) fn truncate(&self, size_bytes: u64) -> Errno {
        rustix::fs::ftruncate(&self.file, size_bytes).map_or_else(rustix::io::Errno::raw_os_error, |()| 0)
    }
}

impl AsFd for OpenBelow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
