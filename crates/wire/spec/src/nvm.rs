//! NVM Command Set 1.1 (command set identifier 0): logical blocks.

use bitfield_struct::bitfield;
use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Opcode of an I/O command to a block namespace.
    pub struct NvmOpcode(u8) {
        FLUSH = 0x00 "Flush",
        WRITE = 0x01 "Write",
        READ = 0x02 "Read",
        WRITE_UNCORRECTABLE = 0x04 "Write Uncorrectable",
        COMPARE = 0x05 "Compare",
        WRITE_ZEROES = 0x08 "Write Zeroes",
        DATASET_MANAGEMENT = 0x09 "Dataset Management",
        VERIFY = 0x0c "Verify",
        RESERVATION_REGISTER = 0x0d "Reservation Register",
        RESERVATION_REPORT = 0x0e "Reservation Report",
        RESERVATION_ACQUIRE = 0x11 "Reservation Acquire",
        RESERVATION_RELEASE = 0x15 "Reservation Release",
        COPY = 0x19 "Copy",
    }
}

/// CDW12 of Read, Write, Compare, Write Zeroes and Verify. The starting LBA is in CDW10–11.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NvmCdw12 {
    /// Number of logical blocks, zero-based.
    pub nlb_z: u16,
    #[bits(4)]
    __: u8,
    /// Directive type (Write).
    #[bits(4)]
    pub dtype: u8,
    /// Storage tag check.
    pub stc: bool,
    /// Deallocate (Write Zeroes).
    pub deac: bool,
    /// Protection information.
    #[bits(4)]
    pub prinfo: u8,
    /// Force unit access.
    pub fua: bool,
    /// Limited retry.
    pub lr: bool,
}

/// CDW12 of Copy. The destination LBA is in CDW10–11.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CopyCdw12 {
    /// Number of source ranges, zero-based.
    pub nr_z: u8,
    /// Descriptor format of the ranges.
    #[bits(4)]
    pub desfmt: u8,
    /// Protection information of the reads.
    #[bits(4)]
    pub prinfor: u8,
    #[bits(4)]
    __: u8,
    /// Directive type.
    #[bits(4)]
    pub dtype: u8,
    /// Storage tag check of the writes.
    pub stcw: bool,
    __: bool,
    /// Protection information of the writes.
    #[bits(4)]
    pub prinfow: u8,
    /// Force unit access.
    pub fua: bool,
    /// Limited retry.
    pub lr: bool,
}

/// Source range of Copy, descriptor format 0.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CopyRange {
    /// Reserved.
    pub reserved_0: [u8; 8],
    /// First source block.
    pub slba: u64,
    /// Number of blocks, zero-based.
    pub nlb_z: u16,
    /// Reserved.
    pub reserved_18: [u8; 6],
    /// Expected initial reference tag.
    pub eilbrt: u32,
    /// Expected application tag mask.
    pub elbatm: u16,
    /// Expected application tag.
    pub elbat: u16,
}

/// CDW10 of Dataset Management.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DsmCdw10 {
    /// Number of ranges, zero-based.
    pub nr_z: u8,
    #[bits(24)]
    __: u32,
}

/// CDW11 of Dataset Management.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DsmCdw11 {
    /// Integral dataset for read.
    pub idr: bool,
    /// Integral dataset for write.
    pub idw: bool,
    /// Deallocate.
    pub ad: bool,
    #[bits(29)]
    __: u32,
}

/// Range of Dataset Management.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DsmRange {
    /// Context attributes.
    pub cattr: u32,
    /// Length in logical blocks, not zero-based.
    pub nlb: u32,
    /// First block.
    pub slba: u64,
}

/// Most ranges of one Dataset Management command.
pub const DSM_RANGES_MAX: usize = 256;

/// One LBA format.
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LbaFormat {
    /// Metadata bytes of a block.
    pub ms: u16,
    /// Block size: 2^lbads bytes, 0 if the format is not available.
    pub lbads: u8,
    /// Relative performance, 0 is best.
    #[bits(2)]
    pub rp: u8,
    #[bits(6)]
    __: u8,
}

/// FLBAS: the format in use.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Flbas {
    /// Low four bits of the format index.
    #[bits(4)]
    pub index_low: u8,
    /// Metadata is interleaved with the data.
    pub extended: bool,
    /// High two bits of the format index.
    #[bits(2)]
    pub index_high: u8,
    __: bool,
}

/// Identify Namespace, CNS 00h (and 11h): the NVM command set's view.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NvmNamespace {
    /// Size in blocks.
    pub nsze: u64,
    /// Capacity in blocks.
    pub ncap: u64,
    /// Blocks in use.
    pub nuse: u64,
    /// Features: bit 0 thin provisioning, 2 deallocated-block errors, 4 optimal I/O fields valid.
    pub nsfeat: u8,
    /// Number of LBA formats, zero-based.
    pub nlbaf_z: u8,
    /// Format in use.
    pub flbas: Flbas,
    /// Metadata capabilities.
    pub mc: u8,
    /// Protection capabilities.
    pub dpc: u8,
    /// Protection settings.
    pub dps: u8,
    /// Multi-path and sharing: bit 0 shared.
    pub nmic: u8,
    /// Reservation capabilities.
    pub rescap: u8,
    /// Format progress.
    pub fpi: u8,
    /// Deallocation: bits 2:0 what a deallocated block reads (1 zeroes), bit 3 Write Zeroes deallocates.
    pub dlfeat: u8,
    /// Atomic write unit, zero-based.
    pub nawun_z: u16,
    /// Atomic write unit at power fail, zero-based.
    pub nawupf_z: u16,
    /// Atomic compare-and-write unit, zero-based.
    pub nacwu_z: u16,
    /// Atomic boundary size, zero-based.
    pub nabsn_z: u16,
    /// Atomic boundary offset.
    pub nabo: u16,
    /// Atomic boundary at power fail, zero-based.
    pub nabspf_z: u16,
    /// Optimal I/O boundary in blocks.
    pub noiob: u16,
    /// Bytes of NVM allocated to the namespace.
    pub nvmcap_bytes: U128,
    /// Preferred write granularity, zero-based blocks.
    pub npwg_z: u16,
    /// Preferred write alignment, zero-based.
    pub npwa_z: u16,
    /// Preferred deallocate granularity, zero-based.
    pub npdg_z: u16,
    /// Preferred deallocate alignment, zero-based.
    pub npda_z: u16,
    /// Optimal write size, zero-based.
    pub nows_z: u16,
    /// Longest single source range of Copy, in blocks.
    pub mssrl: u16,
    /// Longest Copy, in blocks.
    pub mcl: u32,
    /// Most source ranges of Copy, zero-based.
    pub msrc_z: u8,
    /// Key per I/O status.
    pub kpios: u8,
    /// Number of unique attribute LBA formats.
    pub nulbaf: u8,
    /// Reserved.
    pub reserved_83: u8,
    /// Key per I/O data access alignment and granularity.
    pub kpiodaag: u32,
    /// Reserved.
    pub reserved_88: [u8; 4],
    /// ANA group.
    pub anagrpid: u32,
    /// Reserved.
    pub reserved_96: [u8; 3],
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
    /// LBA formats.
    pub lbaf: [LbaFormat; 64],
    /// Vendor specific.
    pub vendor: [u8; 3712],
}

impl NvmNamespace {
    /// In DLFEAT: Write Zeroes may deallocate (DEAC).
    pub const DLFEAT_ZEROES_DEALLOCATE: u8 = 1 << 3;
}

/// Identify Namespace, CNS 05h with command set identifier 0.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NvmNamespaceExtended {
    /// Logical block storage tag mask.
    pub lbstm: u64,
    /// Protection information capabilities.
    pub pic: u8,
    /// Protection information format attributes.
    pub pifa: u8,
    /// Reserved.
    pub reserved_10: [u8; 2],
    /// Extended LBA formats.
    pub elbaf: [u32; 64],
    /// Reserved, or fields of later revisions that Byway leaves at zero.
    pub reserved_268: [u8; 3828],
}

/// Identify Controller, CNS 06h with command set identifier 0: limits of commands that MDTS does not bound.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NvmController {
    /// Verify size limit: 2^vsl memory pages, 0 for none.
    pub vsl: u8,
    /// Write Zeroes size limit.
    pub wzsl: u8,
    /// Write Uncorrectable size limit.
    pub wusl: u8,
    /// Dataset Management: most ranges, 0 for no limit.
    pub dmrl: u8,
    /// Dataset Management: most blocks of one range.
    pub dmrsl: u32,
    /// Dataset Management: most blocks of all ranges.
    pub dmsl: u64,
    /// Reserved, or fields of later revisions that Byway leaves at zero.
    pub reserved_16: [u8; 4080],
}

assert_size! {
    CopyRange = 32;
    DsmRange = 16;
    NvmNamespace = 4096;
    NvmNamespaceExtended = 4096;
    NvmController = 4096;
}
assert_offset! { CopyRange { slba = 8, nlb_z = 16, eilbrt = 24, elbat = 30, } }
assert_offset! { NvmNamespace {
    nsfeat = 24, dlfeat = 33, noiob = 46, nvmcap_bytes = 48, npwg_z = 64, mssrl = 74, mcl = 76, msrc_z = 80,
    anagrpid = 92, nsattr = 99, nvmsetid = 100, nguid = 104, eui64 = 120, lbaf = 128, vendor = 384,
} }
assert_offset! { NvmNamespaceExtended { elbaf = 12, reserved_268 = 268, } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_512_byte_format_is_the_one_linux_reads() {
        assert_eq!(LbaFormat::new().with_lbads(9).into_bits(), 0x0009_0000);
    }

    #[test]
    fn read_and_copy_flags_stand_at_the_top_of_cdw12() {
        assert_eq!(NvmCdw12::new().with_nlb_z(7).with_fua(true).into_bits(), 0x4000_0007);
        assert_eq!(NvmCdw12::new().with_deac(true).into_bits(), 1 << 25);
        assert_eq!(CopyCdw12::new().with_nr_z(3).with_desfmt(2).into_bits(), 0x203);
        assert_eq!(CopyCdw12::new().with_lr(true).into_bits(), 1 << 31);
    }
}
