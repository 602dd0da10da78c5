//! Key Value Command Set 1.0 (command set identifier 1).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest key.
pub const KEY_MAX_BYTES: usize = 16;

open_enum! {
    /// Opcode of an I/O command to a key-value namespace.
    pub struct KvOpcode(u8) {
        FLUSH = 0x00 "Flush",
        STORE = 0x01 "Store",
        RETRIEVE = 0x02 "Retrieve",
        LIST = 0x06 "List",
        RESERVATION_REGISTER = 0x0d "Reservation Register",
        RESERVATION_REPORT = 0x0e "Reservation Report",
        DELETE = 0x10 "Delete",
        RESERVATION_ACQUIRE = 0x11 "Reservation Acquire",
        EXIST = 0x14 "Exist",
        RESERVATION_RELEASE = 0x15 "Reservation Release",
    }
}

/// CDW11 of Store, Retrieve, List, Delete and Exist. CDW10 is the value or buffer size in bytes.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct KvCdw11 {
    /// Key length in bytes; 0 is allowed for List alone.
    pub key_len: u8,
    /// Store: only if the key exists. Retrieve: return the value as stored, without decompression.
    pub must_exist_or_raw: bool,
    /// Store: only if the key does not exist.
    pub must_not_exist: bool,
    /// Store: do not compress.
    pub no_compression: bool,
    #[bits(5)]
    __: u32,
    /// Retrieve and List: most bytes of the result that may stand behind the completion
    /// ([inline reads](crate::vendor::INLINE_RESULT)); reserved by the standard.
    pub inline_max_bytes: u16,
}

/// Entries of a List buffer, and its count, are padded to this.
pub const LIST_ALIGN_BYTES: usize = 4;

/// Bytes of the key count that begins a List buffer.
pub const LIST_HEADER_BYTES: usize = 4;

/// Bytes of the key length that begins each List entry.
pub const LIST_ENTRY_HEADER_BYTES: usize = 2;

/// Bytes a key takes in a List buffer: u16 length and key, padded.
pub const fn list_entry_bytes(key_bytes: usize) -> usize {
    (LIST_ENTRY_HEADER_BYTES + key_bytes).next_multiple_of(LIST_ALIGN_BYTES)
}

/// CDW11 of feature 20h, Key Value Configuration.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct KvConfiguration {
    /// Deleting a key that does not exist is an error.
    pub ednek: bool,
    #[bits(31)]
    __: u32,
}

/// One key-value format (KVFMT).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct KvFormat {
    /// Longest key in bytes, at most 16.
    pub key_max_bytes: u16,
    /// Reserved.
    pub reserved_2: u8,
    /// Additional options: relative performance in bits 1:0, 0 is best.
    pub options: u8,
    /// Longest value in bytes.
    pub value_max_bytes: u32,
    /// Most keys in the namespace, 0 for no limit.
    pub keys_max: u32,
    /// Reserved.
    pub reserved_12: [u8; 4],
}

/// Identify Namespace, CNS 05h with command set identifier 1.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct KvNamespace {
    /// Size in bytes.
    pub nsze_bytes: u64,
    /// Reserved.
    pub reserved_8: [u8; 8],
    /// Bytes in use by keys and values.
    pub nuse_bytes: u64,
    /// Features.
    pub nsfeat: u8,
    /// Number of formats, zero-based.
    pub nkvf_z: u8,
    /// Multi-path and sharing: bit 0 shared.
    pub nmic: u8,
    /// Reservation capabilities.
    pub rescap: u8,
    /// Format progress.
    pub fpi: u8,
    /// Index of the format in use, bits 3:0.
    pub kvfc: u8,
    /// Reserved.
    pub reserved_30: [u8; 2],
    /// Optimal value granularity in bytes, 0 if not reported.
    pub novg_bytes: u32,
    /// ANA group.
    pub anagrpid: u32,
    /// Reserved.
    pub reserved_40: [u8; 3],
    /// Attributes: bit 0 write protected.
    pub nsattr: u8,
    /// NVM set.
    pub nvmsetid: u16,
    /// Endurance group.
    pub endgid: u16,
    /// Globally unique identifier.
    pub nguid: [u8; 16],
    /// IEEE extended unique identifier.
    pub eui64: [u8; 8],
    /// Formats.
    pub kvf: [KvFormat; 16],
    /// Reserved.
    pub reserved_328: [u8; 3512],
    /// Vendor specific.
    pub vendor: [u8; 256],
}

/// Identify Controller, CNS 06h with command set identifier 1.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct KvController {
    /// Tertiary version of the Key Value Command Set supported.
    pub ter: u8,
    /// Minor version.
    pub mnr: u8,
    /// Major version.
    pub mjr: u16,
    /// Reserved.
    pub reserved_4: [u8; 4092],
}

assert_size! {
    KvFormat = 16;
    KvNamespace = 4096;
    KvController = 4096;
}
assert_offset! { KvNamespace {
    nuse_bytes = 16, kvfc = 29, novg_bytes = 32, nsattr = 43, endgid = 46, nguid = 48, eui64 = 64, kvf = 72,
    vendor = 3840,
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_entries_are_padded_to_four_bytes() {
        assert_eq!(list_entry_bytes(1), 4);
        assert_eq!(list_entry_bytes(2), 4);
        assert_eq!(list_entry_bytes(3), 8);
        assert_eq!(list_entry_bytes(16), 20);
    }

    #[test]
    fn store_options_stand_above_the_key_length() {
        let cdw11 = KvCdw11::new().with_key_len(5).with_must_not_exist(true);
        assert_eq!(cdw11.into_bits(), 0x0205);
    }
}
