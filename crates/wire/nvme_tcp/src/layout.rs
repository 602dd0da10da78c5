//! The layout of a PDU: its common header, checked against the rules of its type.

use byway_spec::tcp::{
    self, ADMIN_CAPSULE_DATA_BYTES, CommonHeader, DIGEST_BYTES, PduFlags, PduType, TERM_DATA_BYTES_MAX,
};
use zerocopy::little_endian::U32;

use crate::{Agreement, Alignment, Digests, Violation};

/// Bytes of the longest header, that of ICReq and ICResp.
pub(crate) const HEADER_BYTES_MAX: usize = 128;

/// What follows the header of a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carries {
    /// Nothing: PLEN is known.
    Nothing,
    /// Data, or none.
    MayData,
    /// Data; the header repeats its length.
    Data,
    /// The header that was at fault, without padding or digest.
    Header,
}

/// What PDUs of one type look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub header_bytes: u8,
    pub carries: Carries,
    /// Uses the agreed digests: all PDUs but those that open and end a connection.
    pub digested: bool,
}

impl Shape {
    /// `None` for types that are not described here, which is why neither side knows them.
    pub const fn of(kind: PduType) -> Option<Self> {
        let (header_bytes, carries, digested) = match kind {
            PduType::IC_REQ => (size_of::<tcp::IcReq>(), Carries::Nothing, false),
            PduType::IC_RESP => (size_of::<tcp::IcResp>(), Carries::Nothing, false),
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => {
                (size_of::<tcp::TermReq>(), Carries::Header, false)
            }
            PduType::CAPSULE_CMD => (size_of::<tcp::CapsuleCmd>(), Carries::MayData, true),
            PduType::CAPSULE_RESP => (size_of::<tcp::CapsuleResp>(), Carries::Nothing, true),
            PduType::H2C_DATA | PduType::C2H_DATA => (size_of::<tcp::DataPdu>(), Carries::Data, true),
            PduType::R2T => (size_of::<tcp::R2t>(), Carries::Nothing, true),
            _ => return None,
        };
        Some(Self { header_bytes: header_bytes as u8, carries, digested })
    }
}

/// The rules that a receiver checks PDUs against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub digests: Digests,
    /// The alignment that this side requires.
    pub alignment: Alignment,
    pub capsule_data_bytes: u32,
    pub h2c_data_bytes: u32,
}

impl Rules {
    /// Rules before the handshake.
    pub const OPENING: Self = Self {
        digests: Digests::NONE,
        alignment: Alignment::DWORD,
        capsule_data_bytes: ADMIN_CAPSULE_DATA_BYTES,
        h2c_data_bytes: 0,
    };

    /// Rules of a side that requires `alignment`.
    pub const fn of(agreed: &Agreement, alignment: Alignment) -> Self {
        Self {
            digests: agreed.digests(),
            alignment,
            capsule_data_bytes: ADMIN_CAPSULE_DATA_BYTES,
            h2c_data_bytes: agreed.max_h2c_data_bytes(),
        }
    }
}

/// The parts of one PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layout {
    /// Header without its digest.
    pub header_bytes: u8,
    pub header_digest: bool,
    pub padding_bytes: u8,
    pub data_bytes: u32,
    pub data_digest: bool,
}

impl Layout {
    /// The parts of a PDU that begins with `common`.
    ///
    /// Where a PDU has no data, PDO is not looked at; reserved bits never are.
    pub fn parse(common: &CommonHeader, shape: Shape, rules: &Rules) -> Result<Self, Violation> {
        let kind = common.kind;
        if common.hlen_bytes != shape.header_bytes {
            let (hlen_bytes, expected_bytes) = (common.hlen_bytes, shape.header_bytes);
            return Err(Violation::HeaderLength { kind, hlen_bytes, expected_bytes });
        }
        let header_digest = shape.digested && rules.digests.header;
        if common.flags.header_digest() != header_digest {
            return Err(Violation::HeaderDigestFlag(kind));
        }
        let bare = Self { header_bytes: shape.header_bytes, header_digest, ..Self::default() };
        match shape.carries {
            Carries::Header => bare.with_header_copy(common),
            Carries::Nothing => bare.without_data(common),
            Carries::MayData if common.plen_bytes.get() == u32::from(bare.head_bytes()) => {
                bare.without_data(common)
            }
            Carries::MayData | Carries::Data => bare.with_data(common, rules)?.within_limits(common, rules),
        }
    }

    /// Header with its digest.
    pub const fn head_bytes(&self) -> u8 {
        self.header_bytes + if self.header_digest { DIGEST_BYTES as u8 } else { 0 }
    }

    fn without_data(self, common: &CommonHeader) -> Result<Self, Violation> {
        if common.flags.data_digest() {
            return Err(Violation::DataDigestFlag(common.kind));
        }
        let plen_bytes = common.plen_bytes.get();
        if plen_bytes != u32::from(self.head_bytes()) {
            return Err(Violation::Length { kind: common.kind, plen_bytes });
        }
        Ok(self)
    }

    /// Linux takes a termination request without data, SPDK does not send one: so either.
    fn with_header_copy(self, common: &CommonHeader) -> Result<Self, Violation> {
        if common.flags.data_digest() {
            return Err(Violation::DataDigestFlag(common.kind));
        }
        let plen_bytes = common.plen_bytes.get();
        match plen_bytes.checked_sub(u32::from(self.header_bytes)) {
            Some(data_bytes) if data_bytes <= TERM_DATA_BYTES_MAX as u32 => Ok(Self { data_bytes, ..self }),
            _ => Err(Violation::Length { kind: common.kind, plen_bytes }),
        }
    }

    fn with_data(self, common: &CommonHeader, rules: &Rules) -> Result<Self, Violation> {
        let kind = common.kind;
        let data_digest = rules.digests.data;
        if common.flags.data_digest() != data_digest {
            return Err(Violation::DataDigestFlag(kind));
        }
        let pdo_bytes = common.pdo_bytes;
        let Some(padding_bytes) = pdo_bytes.checked_sub(self.head_bytes()) else {
            return Err(Violation::DataOffset { kind, pdo_bytes });
        };
        if !pdo_bytes.is_multiple_of(rules.alignment.bytes()) {
            return Err(Violation::DataOffset { kind, pdo_bytes });
        }
        let around = u32::from(pdo_bytes) + if data_digest { DIGEST_BYTES as u32 } else { 0 };
        let plen_bytes = common.plen_bytes.get();
        match plen_bytes.checked_sub(around) {
            Some(data_bytes) if data_bytes > 0 => Ok(Self { padding_bytes, data_bytes, data_digest, ..self }),
            _ => Err(Violation::Length { kind, plen_bytes }),
        }
    }

    fn within_limits(self, common: &CommonHeader, rules: &Rules) -> Result<Self, Violation> {
        let data_bytes = self.data_bytes;
        match common.kind {
            PduType::CAPSULE_CMD if data_bytes > rules.capsule_data_bytes => {
                Err(Violation::Length { kind: common.kind, plen_bytes: common.plen_bytes.get() })
            }
            PduType::H2C_DATA if data_bytes > rules.h2c_data_bytes => {
                Err(Violation::TooMuchData { data_bytes, limit_bytes: rules.h2c_data_bytes })
            }
            _ => Ok(self),
        }
    }
}

/// The common header of a PDU that is its header alone.
pub(crate) fn common(kind: PduType, header_bytes: usize) -> CommonHeader {
    CommonHeader {
        kind,
        flags: PduFlags::new(),
        hlen_bytes: header_bytes as u8,
        pdo_bytes: 0,
        plen_bytes: U32::new(header_bytes as u32),
    }
}
