//! Errors in scatter gather lists.

use byway_spec::Status;
use byway_spec::base::sgl::SglKind;
use thiserror::Error;

use super::DESCRIPTORS_MAX;
use crate::DmaFault;

/// Why an SGL is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SglError {
    /// A descriptor type or sub type that is not supported.
    #[error("SGL descriptor of type {:02x}h", .0.0)]
    Type(SglKind),
    /// A segment whose length is zero or not whole descriptors.
    #[error("SGL segment of {0} bytes, not a positive multiple of 16")]
    SegmentLength(u32),
    /// A segment that is not qword aligned.
    #[error("SGL segment at {0:#x}, not qword aligned")]
    SegmentMisaligned(u64),
    /// A segment descriptor in a last segment.
    #[error("SGL segment descriptor in a last segment")]
    AfterLast,
    /// A segment descriptor that is not the last of its segment.
    #[error("SGL segment descriptor before the end of its segment")]
    MidSegment,
    /// More than [`DESCRIPTORS_MAX`] descriptors.
    #[error("more than {DESCRIPTORS_MAX} SGL descriptors")]
    TooMany,
    /// The list describes more bytes, or fewer, than the command moves.
    #[error("SGL of {described} bytes or more for a command of {asked} bytes")]
    Length {
        /// Bytes described up to where it was noticed.
        described: u64,
        /// Bytes the command moves.
        asked: u32,
    },
    /// A data block that passes the last address.
    #[error("SGL data block at {0:#x} passes the end of the address space")]
    Wraps(u64),
    /// An inline payload whose offset is not zero.
    #[error("SGL offset {0:#x} of an inline payload, not zero")]
    Offset(u64),
    /// A segment could not be fetched.
    #[error("SGL segment: {0}")]
    Fetch(DmaFault),
}

impl SglError {
    /// The status a command with such an SGL ends with.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Type(_) => Status::SGL_TYPE_INVALID,
            Self::SegmentLength(_) | Self::SegmentMisaligned(_) | Self::AfterLast => {
                Status::INVALID_SGL_SEGMENT
            }
            Self::MidSegment | Self::TooMany => Status::INVALID_SGL_COUNT,
            Self::Length { .. } | Self::Wraps(_) => Status::DATA_SGL_LENGTH_INVALID,
            Self::Offset(_) => Status::SGL_OFFSET_INVALID,
            Self::Fetch(fault) => fault.status(),
        }
    }
}
