//! Where stores into a mapped range of a file go.

use rustix::mm::{MapFlags, ProtFlags};

pub(crate) const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// How a file range is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Stores reach the file.
    Shared,
    /// Stores stay in this process: the file is read-only to us.
    CopyOnWrite,
    /// There are no stores: one would end the process, so its holder must do none. For files that are open for reading alone
    /// and cannot be mapped to be copied (device nodes).
    ReadOnly,
    /// Stores reach the file, and before a page can be stored to, the file system has on its disk what it takes to find it
    /// (`MAP_SYNC`): lines that are written back are kept. Refused by any file that is not mapped past the page cache.
    Synchronous,
}

impl Sharing {
    pub(crate) const fn flags(self) -> MapFlags {
        match self {
            Self::Shared | Self::ReadOnly => MapFlags::SHARED,
            Self::CopyOnWrite => MapFlags::PRIVATE.union(MapFlags::NORESERVE),
            Self::Synchronous => MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC),
        }
    }

    pub(crate) const fn protection(self) -> ProtFlags {
        match self {
            Self::ReadOnly => ProtFlags::READ,
            Self::Shared | Self::CopyOnWrite | Self::Synchronous => READ_WRITE,
        }
    }
}
