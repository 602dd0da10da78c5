//! What can be asked of the file, and the submission entry that asks for it.

use std::os::fd::RawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};

use crate::inflight::Extent;
use crate::plain::RangeChange;
use crate::transfer::Transfer;

/// What can be asked of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Moves bytes, or syncs.
    Transfer(Transfer),
    /// Changes a range without sending its bytes.
    Change {
        /// First byte.
        at: u64,
        /// Length of the range, in bytes.
        len_bytes: u64,
        /// What is done to it.
        change: RangeChange,
    },
}

impl Operation {
    /// Whether it moves bytes of its memory.
    #[must_use]
    #[inline]
    pub fn transfers(self) -> bool {
        matches!(self, Self::Transfer(Transfer::Read { .. } | Transfer::Write { .. }))
    }

    /// Its entry, for what is left of its memory after `done` bytes.
    #[inline]
    pub(super) fn entry(self, file: RingFile, memory: Extent, done: usize, buffer: Option<u16>) -> Entry {
        let fd = types::Fd(file.number);
        let entry = match self {
            Self::Transfer(Transfer::Read { at }) => read(fd, at + done as u64, memory, buffer),
            Self::Transfer(Transfer::Write { at, durable }) => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                write(fd, at + done as u64, memory, buffer, flags)
            }
            Self::Transfer(Transfer::Sync) => {
                opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
            }
            Self::Change { at, len_bytes, change } => {
                opcode::Fallocate::new(fd, len_bytes).offset(at).mode(change.flags().bits() as i32).build()
            }
        };
        if file.registered { entry.flags(Flags::FIXED_FILE) } else { entry }
    }
}

/// How entries name the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingFile {
    /// Its descriptor, or its index among those that were registered.
    pub number: RawFd,
    /// Which of them it is.
    pub registered: bool,
}

#[inline]
fn read(fd: types::Fd, at: u64, memory: Extent, buffer: Option<u16>) -> Entry {
    match (memory, buffer) {
        (Extent::Piece(start, len), None) => opcode::Read::new(fd, start.as_ptr(), len).offset(at).build(),
        (Extent::Piece(start, len), Some(index)) => {
            opcode::ReadFixed::new(fd, start.as_ptr(), len, index).offset(at).build()
        }
        (Extent::Pieces(first, count), _) => opcode::Readv::new(fd, first.as_ptr(), count).offset(at).build(),
    }
}

#[inline]
fn write(fd: types::Fd, at: u64, memory: Extent, buffer: Option<u16>, flags: i32) -> Entry {
    match (memory, buffer) {
        (Extent::Piece(start, len), None) => {
            opcode::Write::new(fd, start.as_ptr(), len).offset(at).rw_flags(flags).build()
        }
        (Extent::Piece(start, len), Some(index)) => {
            opcode::WriteFixed::new(fd, start.as_ptr(), len, index).offset(at).rw_flags(flags).build()
        }
        (Extent::Pieces(first, count), _) => {
            opcode::Writev::new(fd, first.as_ptr(), count).offset(at).rw_flags(flags).build()
        }
    }
}
