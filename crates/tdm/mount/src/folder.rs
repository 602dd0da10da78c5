//! An open folder.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use fuser::{INodeNo, ReplyDirectory};
use parking_lot::Mutex;
use rustix::fs::{RawDir, SeekFrom, seek};

use crate::attributes::kind;
use crate::nodes::Nodes;

/// Bytes of a request: about what the kernel asks for.
const LOOK_BYTES: usize = 8 << 10;

/// An open folder. Requests move its position, so they run one at a time.
#[derive(Debug)]
pub(crate) struct Folder(Mutex<OwnedFd>);

impl Folder {
    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self(Mutex::new(fd))
    }

    /// Lists from the place after an earlier entry, as much as fits.
    pub(crate) fn list(&self, nodes: &Nodes, from: u64, reply: &mut ReplyDirectory) -> io::Result<()> {
        let fd = self.0.lock();
        seek(&*fd, SeekFrom::Start(from))?;
        let mut buffer = [MaybeUninit::uninit(); LOOK_BYTES];
        let mut entries = RawDir::new(&*fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let number = INodeNo(nodes.number(entry.ino()));
            if reply.add(number, entry.next_entry_cookie(), kind(entry.file_type()), name) {
                break;
            }
        }
        Ok(())
    }

    /// Syncs its names.
    #[expect(clippy::disallowed_methods, reason = "a program's own sync")]
    pub(crate) fn sync(&self) -> io::Result<()> {
        let fd = self.0.lock();
        Ok(rustix::fs::fsync(&*fd)?)
    }
}
