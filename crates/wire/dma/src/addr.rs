//! Bus addresses, and the causes for which an access to one is refused.

use std::fmt;

use byway_spec::Status;
use thiserror::Error;

/// An address as a device uses it on the bus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct BusAddr(pub u64);

impl BusAddr {
    /// The address `bytes` higher; `None` past the last address.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(at) => Some(Self(at)),
            None => None,
        }
    }
}

impl fmt::Debug for BusAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for BusAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a device may do to a range of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The device reads it: data of writes, submission queues, lists.
    Read,
    /// The device writes it: data of reads, completion queues.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether a device may read.
    #[must_use]
    #[inline]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether a device may write.
    #[must_use]
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// An access to memory that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{len} bytes at {at}: {why}")]
pub struct DmaFault {
    /// First byte of the access: a bus address, or an offset where a [`crate::DmaMemory`] was asked.
    pub at: BusAddr,
    /// Length of the access in bytes.
    pub len: usize,
    /// Why it was refused.
    pub why: Why,
}

impl DmaFault {
    /// The status a command ends with when its data or its lists fault.
    #[must_use]
    pub const fn status(self) -> Status {
        Status::DATA_TRANSFER_ERROR
    }
}

/// Why an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Why {
    /// Some byte of it is not mapped.
    #[error("not mapped")]
    Unmapped,
    /// The memory is mapped write-only for the device.
    #[error("the device may not read there")]
    NotReadable,
    /// The memory is mapped read-only for the device.
    #[error("the device may not write there")]
    NotWritable,
    /// A word that must be accessed in one piece is not aligned to its size.
    #[error("not aligned")]
    Misaligned,
    /// The range exceeds the [`crate::DmaMemory`].
    #[error("outside the memory")]
    Outside,
    /// A DMA_READ or DMA_WRITE message to the client failed or timed out.
    #[error("the client refused a DMA message, or did not answer in time")]
    MessageFailed,
}
