//! NVMe/TCP: the headers of its PDUs (NVMe/TCP Transport Specification 1.1, section 3.6).
//!
//! On the wire: header of HLEN bytes, header digest, padding up to PDO, data, data digest; PLEN counts all of it.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Command, Completion};

/// Bytes of the common header that every PDU begins with.
pub const COMMON_HEADER_BYTES: usize = 8;
/// Bytes of a header digest, and of a data digest.
pub const DIGEST_BYTES: usize = 4;
/// Most bytes of an offending header that a termination request repeats.
pub const TERM_DATA_BYTES_MAX: usize = 128;
/// Least that a controller may take in one H2CData PDU (MAXH2CDATA).
pub const MAXH2CDATA_BYTES_MIN: u32 = 4096;
/// In-capsule data that every controller takes of fabrics commands and on its admin queue.
pub const ADMIN_CAPSULE_DATA_BYTES: u32 = 8192;
/// TCP port of I/O controllers.
pub const IO_PORT: u16 = 4420;
/// TCP port of discovery controllers.
pub const DISCOVERY_PORT: u16 = 8009;

open_enum! {
    /// PDU-Type, byte 0.
    pub struct PduType(u8) {
        IC_REQ = 0x00 "ICReq",
        IC_RESP = 0x01 "ICResp",
        H2C_TERM_REQ = 0x02 "H2CTermReq",
        C2H_TERM_REQ = 0x03 "C2HTermReq",
        CAPSULE_CMD = 0x04 "CapsuleCmd",
        CAPSULE_RESP = 0x05 "CapsuleResp",
        H2C_DATA = 0x06 "H2CData",
        C2H_DATA = 0x07 "C2HData",
        R2T = 0x09 "R2T",
        /// Of later revisions; its fields are not described here.
        KD_REQ = 0x0a "KDReq",
        /// Of later revisions; its fields are not described here.
        KD_RESP = 0x0b "KDResp",
    }
}

open_enum! {
    /// Fatal Error Status (FES) of a termination request.
    pub struct FatalStatus(u16) {
        INVALID_HEADER_FIELD = 0x01 "Invalid PDU Header Field",
        SEQUENCE_ERROR = 0x02 "PDU Sequence Error",
        HEADER_DIGEST_ERROR = 0x03 "Header Digest Error",
        OUT_OF_RANGE = 0x04 "Data Transfer Out of Range",
        /// From a host: more R2Ts than MAXR2T. From a controller: more data than MAXH2CDATA.
        LIMIT_EXCEEDED = 0x05 "Data Transfer or R2T Limit Exceeded",
        UNSUPPORTED_PARAMETER = 0x06 "Unsupported Parameter",
    }
}

/// FLAGS, byte 1.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PduFlags {
    /// HDGSTF: a header digest follows the header.
    pub header_digest: bool,
    /// DDGSTF: a data digest follows the data.
    pub data_digest: bool,
    /// LAST_PDU, of data: the last of the transfer.
    pub last: bool,
    /// SUCCESS, of C2HData: the command succeeded, and no response follows.
    pub success: bool,
    #[bits(4)]
    __: u8,
}

/// DGST: digests that are proposed or agreed on.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DigestFlags {
    /// HDGST_ENABLE.
    pub header: bool,
    /// DDGST_ENABLE.
    pub data: bool,
    #[bits(6)]
    __: u8,
}

/// The common header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CommonHeader {
    /// PDU-Type.
    pub kind: PduType,
    /// FLAGS.
    pub flags: PduFlags,
    /// HLEN: bytes of the header, without its digest.
    pub hlen_bytes: u8,
    /// PDO: where the data begins, from the first byte of the PDU; 0 without data.
    pub pdo_bytes: u8,
    /// PLEN: bytes of the whole PDU.
    pub plen_bytes: U32,
}

/// Initialize Connection Request.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IcReq {
    /// Common header.
    pub common: CommonHeader,
    /// PFV: format of the PDUs, 0.
    pub pfv: U16,
    /// HPDA: data to the host is aligned to (hpda + 1) · 4 bytes; 0 to 31.
    pub hpda_z: u8,
    /// Digests the host proposes.
    pub dgst: DigestFlags,
    /// MAXR2T: R2Ts outstanding a command, zero-based.
    pub maxr2t_z: U32,
    /// Reserved.
    pub reserved_16: [u8; 112],
}

/// Initialize Connection Response.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IcResp {
    /// Common header.
    pub common: CommonHeader,
    /// PFV: format of the PDUs, 0.
    pub pfv: U16,
    /// CPDA: data to the controller is aligned to (cpda + 1) · 4 bytes; 0 to 31.
    pub cpda_z: u8,
    /// Digests of the connection.
    pub dgst: DigestFlags,
    /// MAXH2CDATA: most data in one H2CData PDU, at least 4096 and a multiple of 4.
    pub maxh2cdata_bytes: U32,
    /// Reserved.
    pub reserved_16: [u8; 112],
}

/// Termination request, of either side. As its data, the header that was at fault follows.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TermReq {
    /// Common header.
    pub common: CommonHeader,
    /// FES: the field or value in error, little-endian.
    pub fes: U16,
    /// FEI: where, or the digest that was received; it is not aligned.
    pub fei: U32,
    /// Reserved.
    pub reserved_14: [u8; 10],
}

/// Command capsule: a command, and its in-capsule data.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CapsuleCmd {
    /// Common header.
    pub common: CommonHeader,
    /// The submission queue entry.
    pub sqe: Command,
}

/// Response capsule: a completion.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CapsuleResp {
    /// Common header.
    pub common: CommonHeader,
    /// The completion queue entry, with phase 0.
    pub cqe: Completion,
}

/// Header of H2CData and of C2HData.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DataPdu {
    /// Common header.
    pub common: CommonHeader,
    /// CCCID: the command.
    pub cccid: U16,
    /// TTAG: the R2T that H2CData answers; reserved of C2HData.
    pub ttag: U16,
    /// DATAO: where the data belongs, from the start of the command's buffer.
    pub datao_bytes: U32,
    /// DATAL: bytes of data.
    pub datal_bytes: U32,
    /// Reserved.
    pub reserved_20: [u8; 4],
}

/// Ready to Transfer.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct R2t {
    /// Common header.
    pub common: CommonHeader,
    /// CCCID: the command.
    pub cccid: U16,
    /// TTAG: repeated by the H2CData that answer.
    pub ttag: U16,
    /// R2TO: offset of the requested data in the command's buffer.
    pub r2to_bytes: U32,
    /// R2TL: bytes requested.
    pub r2tl_bytes: U32,
    /// Reserved.
    pub reserved_20: [u8; 4],
}

assert_size! {
    CommonHeader = COMMON_HEADER_BYTES;
    IcReq = 128;
    IcResp = 128;
    TermReq = 24;
    CapsuleCmd = 72;
    CapsuleResp = 24;
    DataPdu = 24;
    R2t = 24;
}
assert_offset! { CommonHeader { kind = 0, flags = 1, hlen_bytes = 2, pdo_bytes = 3, plen_bytes = 4, } }
assert_offset! { IcReq { pfv = 8, hpda_z = 10, dgst = 11, maxr2t_z = 12, } }
assert_offset! { IcResp { pfv = 8, cpda_z = 10, dgst = 11, maxh2cdata_bytes = 12, } }
assert_offset! { TermReq { fes = 8, fei = 10, } }
assert_offset! { DataPdu { cccid = 8, ttag = 10, datao_bytes = 12, datal_bytes = 16, } }
assert_offset! { R2t { cccid = 8, ttag = 10, r2to_bytes = 12, r2tl_bytes = 16, } }
