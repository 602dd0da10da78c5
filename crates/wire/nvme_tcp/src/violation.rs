//! Protocol violations of a peer, and the contents of the termination request for each.

use byway_spec::tcp::{FatalStatus, PduType};

use crate::{CommandId, TransferTag};

/// A field of a header, by the byte it begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(pub u32);

impl Field {
    /// PDU-Type.
    pub const TYPE: Self = Self(0);
    /// FLAGS.
    pub const FLAGS: Self = Self(1);
    /// HLEN.
    pub const HLEN: Self = Self(2);
    /// PDO.
    pub const PDO: Self = Self(3);
    /// PLEN.
    pub const PLEN: Self = Self(4);
    /// PFV of ICReq and ICResp.
    pub const PFV: Self = Self(8);
    /// HPDA of ICReq, CPDA of ICResp.
    pub const ALIGNMENT: Self = Self(10);
    /// DGST of ICReq and ICResp.
    pub const DGST: Self = Self(11);
    /// MAXH2CDATA of ICResp.
    pub const MAXH2CDATA: Self = Self(12);
    /// CCCID of data and of R2T.
    pub const CCCID: Self = Self(8);
    /// TTAG of H2CData.
    pub const TTAG: Self = Self(10);
    /// DATAL of data, R2TL of R2T.
    pub const DATA_LENGTH: Self = Self(16);
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// That side sends no PDU of this type.
    #[error("a PDU of type {0} does not come from that side")]
    UnknownType(PduType),
    /// Not in this phase of the connection.
    #[error("{0} is out of sequence")]
    OutOfSequence(PduType),
    /// HLEN is not the length of such a header.
    #[error("{kind} says its header has {hlen_bytes} bytes, it has {expected_bytes}")]
    HeaderLength {
        /// The PDU.
        kind: PduType,
        /// The length received.
        hlen_bytes: u8,
        /// The length of such a header.
        expected_bytes: u8,
    },
    /// HDGSTF is set without an agreement on header digests, or not set with one.
    #[error("the header digest flag of {0} is not as was agreed")]
    HeaderDigestFlag(PduType),
    /// DDGSTF is set without an agreement or without data, or not set with both.
    #[error("the data digest flag of {0} is not as was agreed")]
    DataDigestFlag(PduType),
    /// SUCCESS on data that is not the last.
    #[error("data that is not the last of its command reports success")]
    SuccessBeforeLast,
    /// PDO points into the header, past the end, or is not aligned as was agreed.
    #[error("the data of {kind} cannot begin at byte {pdo_bytes}")]
    DataOffset {
        /// The PDU.
        kind: PduType,
        /// What PDO says.
        pdo_bytes: u8,
    },
    /// PLEN is less than the parts of the PDU, or more than it may have.
    #[error("{kind} cannot have {plen_bytes} bytes")]
    Length {
        /// The PDU.
        kind: PduType,
        /// What PLEN says.
        plen_bytes: u32,
    },
    /// The header is not what its digest is of.
    #[error("the header digest is {computed:08x}, {received:08x} was received")]
    HeaderDigest {
        /// Digest of the received header.
        computed: u32,
        /// The received digest.
        received: u32,
    },
    /// A format of PDUs that is not known here.
    #[error("PDU format version {0} is not supported")]
    Version(u16),
    /// HPDA or CPDA above 31.
    #[error("a data alignment of {0} is out of range")]
    Alignment(u8),
    /// ICResp has other digests than were proposed.
    #[error("the controller answers with other digests than were proposed")]
    Digests,
    /// MAXH2CDATA below 4096, or no multiple of 4.
    #[error("a limit of {0} bytes for data to the controller is not valid")]
    MaxH2cData(u32),
    /// A data PDU without data, or with a DATAL that differs from its data.
    #[error("data of {data_bytes} bytes says it has {datal_bytes}")]
    DataLength {
        /// What DATAL says.
        datal_bytes: u32,
        /// What PLEN says.
        data_bytes: u32,
    },
    /// More data in one H2CData PDU than MAXH2CDATA.
    #[error("{data_bytes} bytes of data in one PDU, at most {limit_bytes} were agreed on")]
    TooMuchData {
        /// The bytes received.
        data_bytes: u32,
        /// MAXH2CDATA.
        limit_bytes: u32,
    },
    /// H2CData for an R2T that is not outstanding.
    #[error("no R2T with tag {0} is outstanding")]
    UnknownTag(TransferTag),
    /// Data, an R2T or a response for a command that does not wait for it.
    #[error("{0} does not wait for that")]
    UnknownCommand(CommandId),
    /// Data that does not begin where the data before it ended.
    #[error("data for byte {offset_bytes} came, {expected_bytes} is next")]
    OutOfOrder {
        /// Offset of the received data, in bytes.
        offset_bytes: u32,
        /// The offset that is next.
        expected_bytes: u32,
    },
    /// Data, or an R2T, past the end of what was requested.
    #[error("{bytes} bytes at {offset_bytes} end after {end_bytes}")]
    OutOfRange {
        /// Offset of the data in its command, in bytes.
        offset_bytes: u32,
        /// Length in bytes.
        bytes: u32,
        /// End of the range that was asked for, in bytes of the command's data.
        end_bytes: u32,
    },
    /// LAST_PDU before the end of an R2T, or not at it.
    #[error("the last data of an R2T is not where LAST_PDU is")]
    LastFlag,
    /// C2HData after the last PDU of its command.
    #[error("data came after the last of its command")]
    DataAfterLast,
    /// An R2T for 0 bytes.
    #[error("an R2T asks for no data")]
    EmptyR2t,
    /// More R2Ts than MAXR2T.
    #[error("{outstanding} R2Ts of one command, at most {limit} were agreed on")]
    TooManyR2ts {
        /// With this one.
        outstanding: u64,
        /// MAXR2T, from 1.
        limit: u64,
    },
}

impl Violation {
    /// FES of the termination request that answers it.
    pub const fn status(&self) -> FatalStatus {
        match self {
            Self::OutOfSequence(_) | Self::DataAfterLast => FatalStatus::SEQUENCE_ERROR,
            Self::HeaderDigest { .. } => FatalStatus::HEADER_DIGEST_ERROR,
            Self::OutOfOrder { .. } | Self::OutOfRange { .. } => FatalStatus::OUT_OF_RANGE,
            Self::TooMuchData { .. } | Self::TooManyR2ts { .. } => FatalStatus::LIMIT_EXCEEDED,
            Self::Version(_) | Self::Digests => FatalStatus::UNSUPPORTED_PARAMETER,
            _ => FatalStatus::INVALID_HEADER_FIELD,
        }
    }

    /// The field that is at fault, where the status is of a field.
    pub const fn field(&self) -> Option<Field> {
        let field = match self {
            Self::UnknownType(_) => Field::TYPE,
            Self::HeaderDigestFlag(_) | Self::DataDigestFlag(_) => Field::FLAGS,
            Self::SuccessBeforeLast | Self::LastFlag => Field::FLAGS,
            Self::HeaderLength { .. } => Field::HLEN,
            Self::DataOffset { .. } => Field::PDO,
            Self::Length { .. } => Field::PLEN,
            Self::Version(_) => Field::PFV,
            Self::Alignment(_) => Field::ALIGNMENT,
            Self::Digests => Field::DGST,
            Self::MaxH2cData(_) => Field::MAXH2CDATA,
            Self::DataLength { .. } | Self::EmptyR2t => Field::DATA_LENGTH,
            Self::UnknownTag(_) => Field::TTAG,
            Self::UnknownCommand(_) => Field::CCCID,
            _ => return None,
        };
        Some(field)
    }

    /// FEI of that request: the field in error, or the received header digest; 0 if the status needs neither.
    pub const fn information(&self) -> u32 {
        match (self, self.field()) {
            (Self::HeaderDigest { received, .. }, _) => *received,
            (_, Some(field)) => field.0,
            (_, None) => 0,
        }
    }
}
