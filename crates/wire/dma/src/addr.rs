//! Bus addresses, and what an access to one can fail of.

use std::fmt;

use byway_spec::Status;
use thiserror::Error;

/// An address as a device puts it on the bus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct BusAddr(pub u64);

impl BusAddr {
    /// The address `bytes` further on, if there is one.
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
    /// What is wrong with it.
    pub why: Why,
}

impl DmaFault {
    /// The status a command ends with when its data or its lists fault.
    #[must_use]
    pub const fn status(self) -> Status {
        Status::DATA_TRANSFER_ERROR
    }
}

/// What is wrong with an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Why {
    /// No memory is mapped at some byte of it.
    #[error("not mapped")]
    Unmapped,
    /// The memory is mapped for the device to write alone.
    #[error("the device may not read there")]
    NotReadable,
    /// The memory is mapped for the device to read alone.
    #[error("the device may not write there")]
    NotWritable,
    /// A word that must be read or written at once is not aligned to its size.
    #[error("not aligned")]
    Misaligned,
    /// The range is not inside the memory asked.
    #[error("outside the memory")]
    Outside,
    /// Whoever has the memory did not answer in time, or refused.
    #[error("not given by whoever has the memory")]
    MessageFailed,
}
