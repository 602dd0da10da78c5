//! Why a command on memory, ranges or programs is refused, and the status that says so.

use byway_spec::Status;

use crate::ebpf::Unsound;

/// A command was refused before it had any effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// An address or a length is not a multiple of four bytes.
    #[error("address and length must be multiples of 4 bytes")]
    Misaligned,
    /// An access reaches beyond the end of the memory.
    #[error("the access reaches beyond the end of the memory")]
    OutOfRange,
    /// The size of a memory or a program is 0, or parts of one program differ in size, type or identifier.
    #[error("a field is invalid, or differs from that of the first part of the program")]
    InvalidField,
    /// Source and destination of a copy overlap.
    #[error("source and destination of the copy overlap")]
    OverlappingCopy,
    /// The memory is larger than [`MEMORY_MAX_BYTES`](crate::MEMORY_MAX_BYTES).
    #[error("the memory is larger than the device allows")]
    InsufficientResources,
    /// A range names a namespace that is no memory.
    #[error("a range names a namespace that is no memory")]
    InvalidMemoryNamespace,
    /// A range is empty, or reaches beyond the end of its memory.
    #[error("a range is empty, or reaches beyond the end of its memory")]
    InvalidMemoryRangeSet,
    /// No set of memory ranges has this identifier.
    #[error("no set of memory ranges has this identifier")]
    InvalidMemoryRangeSetId,
    /// There are more ranges than a set or a command may have.
    #[error("more ranges than a set may have")]
    TooManyRanges,
    /// There are as many sets of memory ranges as there may be.
    #[error("as many sets of memory ranges as there may be")]
    TooManyRangeSets,
    /// A program runs over this set of memory ranges.
    #[error("a program runs over this set of memory ranges")]
    MemoryRangeSetInUse,
    /// Two ranges overlap.
    #[error("two ranges overlap")]
    OverlappingRanges,
    /// There is no place for a program of this index.
    #[error("there is no place for a program of this index")]
    InvalidProgramIndex,
    /// The device runs no programs of this type.
    #[error("the device runs no programs of this type")]
    InvalidProgramType,
    /// A part of a program does not begin where the last one ended.
    #[error("the part does not begin where the last one ended")]
    OutOfOrder,
    /// The program is unsound.
    #[error("the program is unsound: {0}")]
    InvalidProgram(#[from] Unsound),
    /// The program is larger than a program may be.
    #[error("larger than a program may be")]
    ProgramTooBig,
    /// All programs together would be larger than they may be.
    #[error("all programs together would be larger than they may be")]
    TooManyProgramBytes,
    /// As many programs are activated as may be.
    #[error("as many programs are activated as may be")]
    TooManyActivated,
    /// There is no program at this index, or not all of it was loaded.
    #[error("there is no program at this index, or not all of it was loaded")]
    NoProgram,
    /// The program is not activated.
    #[error("the program is not activated")]
    NotActivated,
    /// The program is activated, or runs.
    #[error("the program is activated, or runs")]
    ProgramInUse,
    /// The program at this index belongs to the device.
    #[error("the program at this index belongs to the device")]
    NotDownloadable,
}

impl Refusal {
    /// The status of the command. Where the standard's choice is not known it is Invalid Field in Command.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Misaligned | Self::OutOfRange | Self::InvalidField => Status::INVALID_FIELD,
            Self::OverlappingCopy => Status::OVERLAPPING_IO_RANGE,
            Self::InsufficientResources => Status::INSUFFICIENT_RESOURCES,
            Self::InvalidMemoryNamespace => Status::INVALID_MEMORY_NAMESPACE,
            Self::InvalidMemoryRangeSet => Status::INVALID_MEMORY_RANGE_SET,
            Self::InvalidMemoryRangeSetId => Status::INVALID_MEMORY_RANGE_SET_ID,
            Self::TooManyRanges => Status::MEMORY_RANGES_EXCEEDED,
            Self::TooManyRangeSets => Status::MEMORY_RANGE_SETS_EXCEEDED,
            Self::MemoryRangeSetInUse => Status::MEMORY_RANGE_SET_IN_USE,
            Self::OverlappingRanges => Status::OVERLAPPING_MEMORY_RANGES,
            Self::InvalidProgramIndex => Status::INVALID_PROGRAM_INDEX,
            Self::InvalidProgramType => Status::INVALID_PROGRAM_TYPE,
            Self::OutOfOrder => Status::COMMAND_SEQUENCE_ERROR,
            Self::InvalidProgram(_) => Status::INVALID_PROGRAM_DATA,
            Self::ProgramTooBig => Status::PROGRAM_TOO_BIG,
            Self::TooManyProgramBytes => Status::PROGRAM_BYTES_EXCEEDED,
            Self::TooManyActivated => Status::PROGRAMS_ACTIVATED_EXCEEDED,
            Self::NoProgram => Status::NO_PROGRAM,
            Self::NotActivated => Status::PROGRAM_NOT_ACTIVATED,
            Self::ProgramInUse => Status::PROGRAM_IN_USE,
            Self::NotDownloadable => Status::PROGRAM_INDEX_NOT_DOWNLOADABLE,
        }
    }

    /// A sentence without figures, for an error log.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Misaligned => "address and length must be multiples of 4 bytes",
            Self::OutOfRange => "the access reaches beyond the end of the memory",
            Self::InvalidField => "a field is invalid, or differs from that of the first part of the program",
            Self::OverlappingCopy => "source and destination of the copy overlap",
            Self::InsufficientResources => "the memory is larger than the device allows",
            Self::InvalidMemoryNamespace => "a range names a namespace that is no memory",
            Self::InvalidMemoryRangeSet => "a range is empty, or reaches beyond the end of its memory",
            Self::InvalidMemoryRangeSetId => "no set of memory ranges has this identifier",
            Self::TooManyRanges => "more ranges than a set may have",
            Self::TooManyRangeSets => "as many sets of memory ranges as there may be",
            Self::MemoryRangeSetInUse => "a program runs over this set of memory ranges",
            Self::OverlappingRanges => "two ranges overlap",
            Self::InvalidProgramIndex => "there is no place for a program of this index",
            Self::InvalidProgramType => "the device runs no programs of this type",
            Self::OutOfOrder => "the part does not begin where the last one ended",
            Self::InvalidProgram(_) => "the program is unsound",
            Self::ProgramTooBig => "larger than a program may be",
            Self::TooManyProgramBytes => "all programs together would be larger than they may be",
            Self::TooManyActivated => "as many programs are activated as may be",
            Self::NoProgram => "there is no program at this index, or not all of it was loaded",
            Self::NotActivated => "the program is not activated",
            Self::ProgramInUse => "the program is activated, or runs",
            Self::NotDownloadable => "the program at this index belongs to the device",
        }
    }
}
