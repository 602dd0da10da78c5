//! In-band authentication: the fixed parts of the messages of DH-HMAC-CHAP (Base 2.1, section 8.3.5.5).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Hash identifiers, and group identifiers, in one Negotiate.
pub const IDS_MAX: usize = 30;
/// AUTHID of DH-HMAC-CHAP in Negotiate.
pub const PROTOCOL_DH_HMAC_CHAP: u8 = 1;

open_enum! {
    /// AUTH_TYPE: which exchange the message belongs to.
    pub struct AuthType(u8) {
        COMMON = 0x00 "Common Messages",
        DH_HMAC_CHAP = 0x01 "DH-HMAC-CHAP Messages",
    }
}

open_enum! {
    /// AUTH_ID: which message it is.
    pub struct AuthId(u8) {
        NEGOTIATE = 0x00 "AUTH_Negotiate",
        CHALLENGE = 0x01 "DH-HMAC-CHAP_Challenge",
        REPLY = 0x02 "DH-HMAC-CHAP_Reply",
        SUCCESS1 = 0x03 "DH-HMAC-CHAP_Success1",
        SUCCESS2 = 0x04 "DH-HMAC-CHAP_Success2",
        FAILURE2 = 0xf0 "AUTH_Failure2",
        FAILURE1 = 0xf1 "AUTH_Failure1",
    }
}

open_enum! {
    /// HASHID: what challenges are answered with.
    pub struct HashId(u8) {
        SHA256 = 0x01 "SHA-256",
        SHA384 = 0x02 "SHA-384",
        SHA512 = 0x03 "SHA-512",
    }
}

open_enum! {
    /// DHGID: where the Diffie-Hellman exchange is made.
    pub struct DhGroupId(u8) {
        NULL = 0x00 "NULL",
        FFDHE2048 = 0x01 "ffdhe2048",
        FFDHE3072 = 0x02 "ffdhe3072",
        FFDHE4096 = 0x03 "ffdhe4096",
        FFDHE6144 = 0x04 "ffdhe6144",
        FFDHE8192 = 0x05 "ffdhe8192",
    }
}

open_enum! {
    /// Reason code explanation of AUTH_Failure1 and AUTH_Failure2. The reason code is 1 always.
    pub struct AuthFailure(u8) {
        FAILED = 0x01 "Authentication failed",
        PROTOCOL_NOT_USABLE = 0x02 "Authentication protocol not usable",
        SECURE_CHANNEL_MISMATCH = 0x03 "Secure channel concatenation mismatch",
        HASH_NOT_USABLE = 0x04 "Hash function not usable",
        GROUP_NOT_USABLE = 0x05 "DH group not usable",
        INCORRECT_PAYLOAD = 0x06 "Incorrect payload",
        INCORRECT_MESSAGE = 0x07 "Incorrect protocol message",
    }
}

/// What every message begins with.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AuthHeader {
    /// AUTH_TYPE.
    pub auth_type: AuthType,
    /// AUTH_ID.
    pub auth_id: AuthId,
    /// Reserved.
    pub reserved_2: u16,
    /// T_ID: the transaction.
    pub t_id: u16,
}

/// AUTH_Negotiate, without its protocol descriptors.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NegotiateHeader {
    /// What every message begins with.
    pub header: AuthHeader,
    /// SC_C: secure channel concatenation.
    pub sc_c: u8,
    /// NAPD: protocol descriptors.
    pub napd: u8,
}

/// The protocol descriptor of DH-HMAC-CHAP.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ProtocolDescriptor {
    /// AUTHID.
    pub authid: u8,
    /// Reserved.
    pub reserved_1: u8,
    /// HALEN: hash identifiers.
    pub halen: u8,
    /// DHLEN: group identifiers.
    pub dhlen: u8,
    /// Hash identifiers, the preferred first.
    pub hashes: [HashId; IDS_MAX],
    /// Group identifiers, the preferred first.
    pub groups: [DhGroupId; IDS_MAX],
}

/// DH-HMAC-CHAP_Challenge, without its challenge (HL bytes) and its DH value (DHVLEN bytes).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ChallengeHeader {
    /// What every message begins with.
    pub header: AuthHeader,
    /// HL: bytes of the challenge.
    pub hl: u8,
    /// Reserved.
    pub reserved_7: u8,
    /// HASHID.
    pub hash: HashId,
    /// DHGID.
    pub group: DhGroupId,
    /// DHVLEN: bytes of the DH value.
    pub dhvlen: u16,
    /// SEQNUM (S1).
    pub seqnum: u32,
}

/// DH-HMAC-CHAP_Reply, without its response and its challenge (HL bytes each) and its DH value (DHVLEN bytes).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ReplyHeader {
    /// What every message begins with.
    pub header: AuthHeader,
    /// HL: bytes of the response, and of the challenge.
    pub hl: u8,
    /// Reserved.
    pub reserved_7: u8,
    /// CVALID: 1 where the controller is challenged.
    pub cvalid: u8,
    /// Reserved.
    pub reserved_9: u8,
    /// DHVLEN: bytes of the DH value.
    pub dhvlen: u16,
    /// SEQNUM (S2).
    pub seqnum: u32,
}

/// DH-HMAC-CHAP_Success1, without its response (HL bytes, where RVALID is 1).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Success1Header {
    /// What every message begins with.
    pub header: AuthHeader,
    /// HL: bytes of the response.
    pub hl: u8,
    /// Reserved.
    pub reserved_7: u8,
    /// RVALID: 1 where the controller was challenged.
    pub rvalid: u8,
    /// Reserved.
    pub reserved_9: [u8; 7],
}

/// DH-HMAC-CHAP_Success2.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Success2 {
    /// What every message begins with.
    pub header: AuthHeader,
    /// Reserved.
    pub reserved_6: [u8; 10],
}

/// AUTH_Failure1 and AUTH_Failure2.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Failure {
    /// What every message begins with.
    pub header: AuthHeader,
    /// Reason code: 1.
    pub reason: u8,
    /// Reason code explanation.
    pub explanation: AuthFailure,
}

assert_size! {
    AuthHeader = 6;
    NegotiateHeader = 8;
    ProtocolDescriptor = 64;
    ChallengeHeader = 16;
    ReplyHeader = 16;
    Success1Header = 16;
    Success2 = 16;
    Failure = 8;
}
assert_offset! { ProtocolDescriptor { halen = 2, dhlen = 3, hashes = 4, groups = 34, } }
assert_offset! { ChallengeHeader { hl = 6, hash = 8, group = 9, dhvlen = 10, seqnum = 12, } }
assert_offset! { ReplyHeader { hl = 6, cvalid = 8, dhvlen = 10, seqnum = 12, } }
assert_offset! { Success1Header { hl = 6, rvalid = 8, } }
