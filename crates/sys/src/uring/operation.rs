//! What can be asked of the file, and the submission entry that asks for it.

use std::os::fd::RawFd;

use io_uring::squeue::{self, Entry, Flags};
use io_uring::{cqueue, opcode, types};

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
        /// Kind of change.
        change: RangeChange,
    },
}

/// What a ring can be asked, by entries of its own size.
pub trait Asked: Copy + Send {
    /// How the kernel is asked.
    type Entry: squeue::EntryMarker;
    /// How it answers.
    type Completion: cqueue::EntryMarker;

    /// Whether some kernels read its entry again after they have taken it: see `kept`.
    const MAY_BE_READ_AGAIN: bool;

    /// Whether it moves bytes of its memory, and may be gone on with where it ended early.
    fn transfers(self) -> bool;

    /// Whether its completion can be polled for.
    fn can_be_polled(self) -> bool;

    /// Its entry, for what is left of its memory after `done` bytes.
    fn entry(self, file: RingFile, memory: Extent, done: usize, buffer: Option<u16>) -> Self::Entry;

    /// The same entry, with the next one bound to it.
    fn linked(entry: Self::Entry) -> Self::Entry;

    /// The completion's second result.
    fn answer(completion: &Self::Completion) -> u64;

    /// Whether it can be begun again after this error, since nothing came of it.
    fn is_undone_by(errno: i32) -> bool;
}

impl Operation {
    /// Whether it moves bytes of its memory.
    #[must_use]
    #[inline]
    pub fn transfers(self) -> bool {
        matches!(self, Self::Transfer(Transfer::Read { .. } | Transfer::Write { .. }))
    }
}

impl Asked for Operation {
    type Entry = Entry;
    type Completion = cqueue::Entry;

    const MAY_BE_READ_AGAIN: bool = false;

    #[inline]
    fn transfers(self) -> bool {
        self.transfers()
    }

    #[inline]
    fn can_be_polled(self) -> bool {
        self.transfers()
    }

    #[inline(always)]
    fn entry(self, file: RingFile, memory: Extent, done: usize, buffer: Option<u16>) -> Entry {
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

    #[inline]
    fn linked(entry: Entry) -> Entry {
        entry.flags(Flags::IO_LINK)
    }

    #[inline]
    fn answer(_: &cqueue::Entry) -> u64 {
        0
    }

    /// Reads and writes at an offset may be done twice.
    fn is_undone_by(errno: i32) -> bool {
        matches!(errno, libc::EINTR | libc::EAGAIN | libc::ECANCELED)
    }
}

/// How entries name the file.
#[derive(Debug, Clone, Copy)]
pub struct RingFile {
    /// Its descriptor, or its index among those that were registered.
    pub number: RawFd,
    /// Which of them it is.
    pub registered: bool,
}

#[inline(always)]
fn read(fd: types::Fd, at: u64, memory: Extent, buffer: Option<u16>) -> Entry {
    match (memory, buffer) {
        (Extent::Piece(start, len), None) => opcode::Read::new(fd, start.as_ptr(), len).offset(at).build(),
        (Extent::Piece(start, len), Some(index)) => {
            opcode::ReadFixed::new(fd, start.as_ptr(), len, index).offset(at).build()
        }
        (Extent::Pieces(first, count), _) => opcode::Readv::new(fd, first.as_ptr(), count).offset(at).build(),
    }
}

#[inline(always)]
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
