//! Why a message is invalid: a text, and the errno of its reply.

use crate::{Command, HEADER_BYTES};

open_enum! {
    /// A UNIX error number of an error reply. 0 is allowed and says nothing.
    pub struct Errno(u32) {
        /// No such thing.
        ENOENT = 2,
        /// Input or output failed.
        EIO = 5,
        /// Too long.
        E2BIG = 7,
        /// Out of memory.
        ENOMEM = 12,
        /// Not permitted.
        EACCES = 13,
        /// A bad address.
        EFAULT = 14,
        /// In use.
        EBUSY = 16,
        /// Mapped already.
        EEXIST = 17,
        /// No such device.
        ENODEV = 19,
        /// An invalid argument.
        EINVAL = 22,
        /// Too many open files.
        EMFILE = 24,
        /// No room.
        ENOSPC = 28,
        /// Not supported.
        ENOTSUP = 95,
    }
}

/// Why one message cannot be acted on. The stream is in step: the next message can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A command that is not known here; its payload was skipped.
    #[error("command {0} is not known")]
    UnknownCommand(Command),
    /// Neither a command nor a reply.
    #[error("a message of type {0} is neither a command nor a reply")]
    UnknownKind(u8),
    /// Longer than the receiver takes; its payload was skipped.
    #[error("{command} of {message_bytes} bytes is longer than the {limit_bytes} that are taken")]
    TooLong {
        /// The command.
        command: Command,
        /// Size of the whole message.
        message_bytes: u32,
        /// The largest value accepted.
        limit_bytes: usize,
    },
    /// More descriptors than the receiver takes; they were closed.
    #[error("{fds} descriptors came with a message, at most {limit} are taken")]
    TooManyFds {
        /// Descriptors received.
        fds: usize,
        /// The largest value accepted.
        limit: usize,
    },
    /// Descriptors that the receiver had no room for.
    #[error("the process had no descriptor left for those that came with a message")]
    LostFds,
    /// The payload ends within its fixed part.
    #[error("a payload of {payload_bytes} bytes ends within a structure of {needed_bytes}")]
    TooShort {
        /// Bytes of the structure.
        needed_bytes: usize,
        /// Bytes of the payload.
        payload_bytes: usize,
    },
    /// Less data than the payload announced.
    #[error("{announced} bytes of data were announced, {bytes} came")]
    ShortData {
        /// As announced.
        announced: u64,
        /// Bytes received.
        bytes: usize,
    },
    /// Flags that exclude each other, or that are not known.
    #[error("{what} flags {flags:#x} are not valid")]
    BadFlags {
        /// The structure that has the flags.
        what: &'static str,
        /// The flags.
        flags: u32,
    },
    /// A range that is empty, or exceeds the size of its object.
    #[error("{count} {of} from {start:#x} are not a range")]
    BadRange {
        /// What the range counts.
        of: &'static str,
        /// First.
        start: u64,
        /// Number of items.
        count: u64,
    },
    /// A list that is longer than any that makes sense.
    #[error("a list of {count} {of}, at most {limit} are taken")]
    LongList {
        /// What the list contains.
        of: &'static str,
        /// Number of items.
        count: u64,
        /// The largest value accepted.
        limit: u64,
    },
    /// A structure points outside its payload.
    #[error("a capability at {offset:#x} of a payload of {payload_bytes} bytes")]
    BadOffset {
        /// Offset in the payload that it points to, in bytes.
        offset: u32,
        /// Bytes of the payload.
        payload_bytes: usize,
    },
    /// The capabilities of a version message are not the JSON they should be.
    #[error("the capabilities are not valid: {0}")]
    BadCapabilities(String),
    /// The reply says that the command failed.
    #[error("the peer answered {0}")]
    Failed(Errno),
}

impl WireError {
    /// The error number for the reply to such a message.
    pub fn errno(&self) -> Errno {
        match self {
            Self::UnknownCommand(_) => Errno::ENOTSUP,
            Self::TooLong { .. } | Self::LongList { .. } => Errno::E2BIG,
            Self::LostFds => Errno::EMFILE,
            _ => Errno::EINVAL,
        }
    }
}

/// The boundaries of messages are lost: nothing more can be read from this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {size_bytes} bytes is shorter than its header of {HEADER_BYTES}")]
pub struct Broken {
    /// The size that the header announced.
    pub size_bytes: u32,
}
