//! Identify Controller (Base 2.1, section 5.1.13.2.1).

use bitfield_struct::bitfield;
use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::IDENTIFY_BYTES;
use crate::vendor::VendorArea;

/// One power state.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PowerState {
    /// Maximum power in units of 10 mW, or 0.1 mW with flag bit 0.
    pub mp: u16,
    /// Reserved.
    pub reserved_2: u8,
    /// Bit 0 maximum power scale, bit 1 non-operational.
    pub flags: u8,
    /// Entry latency in µs.
    pub enlat_us: u32,
    /// Exit latency in µs.
    pub exlat_us: u32,
    /// Relative read throughput, read latency, write throughput, write latency.
    pub relative: [u8; 4],
    /// Idle and active power, and reserved bytes.
    pub rest: [u8; 16],
}

/// Identify Controller, CNS 01h. Fields named as the specification abbreviates them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Controller {
    /// PCI vendor.
    pub vid: u16,
    /// PCI subsystem vendor.
    pub ssvid: u16,
    /// Serial number, ASCII, padded with spaces.
    pub sn: [u8; 20],
    /// Model number, ASCII, padded with spaces.
    pub mn: [u8; 40],
    /// Firmware revision, ASCII, padded with spaces.
    pub fr: [u8; 8],
    /// Recommended arbitration burst, 2^rab.
    pub rab: u8,
    /// IEEE OUI.
    pub ieee: [u8; 3],
    /// Multi-path and sharing: bit 0 several ports, bit 1 several controllers, bit 3 ANA.
    pub cmic: u8,
    /// Longest transfer: 2^mdts smallest memory pages, 0 for no limit.
    pub mdts: u8,
    /// Controller identifier.
    pub cntlid: u16,
    /// Version, as the VS register.
    pub ver: u32,
    /// RTD3 resume latency in µs.
    pub rtd3r_us: u32,
    /// RTD3 entry latency in µs.
    pub rtd3e_us: u32,
    /// Optional asynchronous events, bits as in the feature: 8 namespace attributes.
    pub oaes: u32,
    /// Controller attributes.
    pub ctratt: u32,
    /// Read recovery levels.
    pub rrls: u16,
    /// Boot partition capabilities.
    pub bpcap: u8,
    /// Reserved.
    pub reserved_103: u8,
    /// NVM subsystem shutdown latency.
    pub nssl: u32,
    /// Reserved.
    pub reserved_108: [u8; 2],
    /// Power loss signaling.
    pub plsi: u8,
    /// Controller type: 1 I/O, 2 discovery, 3 administrative.
    pub cntrltype: u8,
    /// FRU globally unique identifier.
    pub fguid: [u8; 16],
    /// Command retry delays in units of 100 ms.
    pub crdt: [u16; 3],
    /// Controller reachability capabilities.
    pub crcap: u8,
    /// Controller instance uniquifier.
    pub ciu: u8,
    /// Controller instance random number.
    pub cirn: [u8; 8],
    /// Reserved.
    pub reserved_144: [u8; 109],
    /// NVM subsystem report.
    pub nvmsr: u8,
    /// VPD write cycle information.
    pub vwci: u8,
    /// Management endpoint capabilities.
    pub mec: u8,
    /// Optional admin commands: see [`Oacs`].
    pub oacs: Oacs,
    /// Abort commands at a time, zero-based.
    pub acl_z: u8,
    /// Asynchronous event requests at a time, zero-based.
    pub aerl_z: u8,
    /// Firmware updates.
    pub frmw: u8,
    /// Log page attributes: bit 0 SMART a namespace, 1 effects log, 2 extended data, 3 telemetry, 5 supported pages
    /// log.
    pub lpa: u8,
    /// Error log entries, zero-based.
    pub elpe_z: u8,
    /// Power states, zero-based.
    pub npss_z: u8,
    /// Admin vendor command format: bit 0 as the specification lays out.
    pub avscc: u8,
    /// Autonomous power state transitions.
    pub apsta: u8,
    /// Warning temperature in kelvins.
    pub wctemp_k: u16,
    /// Critical temperature in kelvins.
    pub cctemp_k: u16,
    /// Maximum time for firmware activation, in units of 100 ms.
    pub mtfa: u16,
    /// Host memory buffer preferred size, in units of 4 KiB.
    pub hmpre: u32,
    /// Host memory buffer minimum size, in units of 4 KiB.
    pub hmmin: u32,
    /// Capacity of the subsystem in bytes.
    pub tnvmcap_bytes: U128,
    /// Capacity not allocated, in bytes.
    pub unvmcap_bytes: U128,
    /// Replay protected memory block support.
    pub rpmbs: u32,
    /// Extended self-test time in minutes.
    pub edstt: u16,
    /// Self-test options.
    pub dsto: u8,
    /// Firmware update granularity.
    pub fwug: u8,
    /// Keep alive granularity in units of 100 ms, 0 if not supported.
    pub kas: u16,
    /// Host controlled thermal management.
    pub hctma: u16,
    /// Minimum thermal management temperature.
    pub mntmt: u16,
    /// Maximum thermal management temperature.
    pub mxtmt: u16,
    /// Sanitize capabilities.
    pub sanicap: u32,
    /// Host memory buffer minimum descriptor size.
    pub hmminds: u32,
    /// Host memory buffer maximum descriptors.
    pub hmmaxd: u16,
    /// Largest NVM set identifier.
    pub nsetidmax: u16,
    /// Largest endurance group identifier.
    pub endgidmax: u16,
    /// ANA transition time in seconds.
    pub anatt: u8,
    /// ANA capabilities.
    pub anacap: u8,
    /// Largest ANA group identifier.
    pub anagrpmax: u32,
    /// Number of ANA groups.
    pub nanagrpid: u32,
    /// Persistent event log size, in units of 64 KiB.
    pub pels: u32,
    /// Domain.
    pub domainid: u16,
    /// Key per I/O capabilities.
    pub kpioc: u8,
    /// Reserved.
    pub reserved_359: u8,
    /// Maximum time for firmware activation without reset.
    pub mptfawr: u16,
    /// Reserved.
    pub reserved_362: [u8; 6],
    /// Largest endurance group capacity in bytes.
    pub megcap_bytes: U128,
    /// Temperature threshold hysteresis attributes.
    pub tmpthha: u8,
    /// Reserved.
    pub reserved_385: u8,
    /// Command quiesce time in milliseconds.
    pub cqt: u16,
    /// Reserved, or fields of later revisions that Byway leaves at zero.
    pub reserved_388: [u8; 124],
    /// Submission entry size: required in bits 3:0, largest in 7:4, powers of two.
    pub sqes: u8,
    /// Completion entry size: required in bits 3:0, largest in 7:4, powers of two.
    pub cqes: u8,
    /// Most commands outstanding in a queue; 0 if not reported.
    pub maxcmd: u16,
    /// Number of namespaces: the largest NSID.
    pub nn: u32,
    /// Optional NVM commands: see [`Oncs`].
    pub oncs: Oncs,
    /// Fused operations.
    pub fuses: u16,
    /// Format attributes: bit 0 formats all, bit 1 erases all, bit 2 cryptographic erase, bit 3 no broadcast.
    pub fna: u8,
    /// Volatile write cache: bit 0 present, bits 2:1 flush to all namespaces (3 supported).
    pub vwc: u8,
    /// Atomic write unit, zero-based blocks.
    pub awun_z: u16,
    /// Atomic write unit at power fail, zero-based blocks.
    pub awupf_z: u16,
    /// I/O vendor command format: bit 0 as the specification lays out.
    pub icsvscc: u8,
    /// Namespace write protection capabilities.
    pub nwpc: u8,
    /// Atomic compare-and-write unit, zero-based.
    pub acwu_z: u16,
    /// Copy descriptor formats, a bit each.
    pub cdfs: u16,
    /// SGL support.
    pub sgls: Sgls,
    /// Most namespaces allowed; 0 means `nn`.
    pub mnan: u32,
    /// Most domain namespace attachments.
    pub maxdna: U128,
    /// Most I/O controller namespace attachments.
    pub maxcna: u32,
    /// Optimal aggregated queue depth.
    pub oaqd: u32,
    /// Reserved, or fields of later revisions that Byway leaves at zero.
    pub reserved_568: [u8; 200],
    /// NVM subsystem qualified name, UTF-8, ended by a zero.
    pub subnqn: [u8; 256],
    /// Reserved.
    pub reserved_1024: [u8; 768],
    /// Fabrics: submission capsule size in units of 16 bytes.
    pub ioccsz: u32,
    /// Fabrics: response capsule size in units of 16 bytes.
    pub iorcsz: u32,
    /// Fabrics: offset of in-capsule data in units of 16 bytes.
    pub icdoff: u16,
    /// Fabrics: attributes.
    pub fcatt: u8,
    /// Fabrics: most SGL data block descriptors in a capsule.
    pub msdbd: u8,
    /// Fabrics: optional commands.
    pub ofcs: u16,
    /// Discovery controller type.
    pub dctype: u8,
    /// Reserved.
    pub reserved_1807: [u8; 241],
    /// Power states.
    pub psd: [PowerState; 32],
    /// Byway's vendor area.
    pub vendor: VendorArea,
}

/// Optional admin commands (OACS).
#[bitfield(u16)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Oacs {
    /// Security Send and Receive.
    pub security: bool,
    /// Format NVM.
    pub format: bool,
    /// Firmware Commit and Download.
    pub firmware: bool,
    /// Namespace Management and Attachment.
    pub namespace_management: bool,
    /// Device Self-test.
    pub self_test: bool,
    /// Directives.
    pub directives: bool,
    /// NVMe-MI Send and Receive.
    pub mi: bool,
    /// Virtualization Management.
    pub virtualization: bool,
    /// Doorbell Buffer Config.
    pub doorbell_buffer: bool,
    /// Get LBA Status.
    pub lba_status: bool,
    /// Command and Feature Lockdown.
    pub lockdown: bool,
    #[bits(5)]
    __: u8,
}

/// Optional NVM commands (ONCS).
#[bitfield(u16)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Oncs {
    /// Compare.
    pub compare: bool,
    /// Write Uncorrectable.
    pub write_uncorrectable: bool,
    /// Dataset Management.
    pub dataset_management: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Save and select fields of Features.
    pub save_select: bool,
    /// Reservations.
    pub reservations: bool,
    /// Timestamp.
    pub timestamp: bool,
    /// Verify.
    pub verify: bool,
    /// Copy.
    pub copy: bool,
    #[bits(7)]
    __: u8,
}

/// SGL support (SGLS).
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Sgls {
    /// 0 not supported, 1 supported without alignment, 2 dword alignment required.
    #[bits(2)]
    pub supported: u8,
    /// Keyed data block.
    pub keyed: bool,
    #[bits(5)]
    __: u8,
    /// Recommended most descriptors in a command, 0 if not reported.
    pub threshold: u8,
    /// Bit bucket.
    pub bit_bucket: bool,
    /// Byte aligned contiguous metadata.
    pub metadata: bool,
    /// Total may exceed the data length.
    pub longer: bool,
    /// Metadata pointer may hold a descriptor.
    pub metadata_sgl: bool,
    /// Offset addresses. Stays 0 on PCIe: Byway announces inline payloads in its vendor area.
    pub offset: bool,
    /// Transport data block.
    pub transport: bool,
    #[bits(10)]
    __: u16,
}

assert_size! {
    PowerState = 32;
    Controller = IDENTIFY_BYTES;
}
assert_offset! { Controller {
    sn = 4, mn = 24, fr = 64, mdts = 77, cntlid = 78, ver = 80, oaes = 92, nssl = 104, cntrltype = 111,
    crdt = 128, nvmsr = 253, oacs = 256, acl_z = 258, lpa = 261, wctemp_k = 266, tnvmcap_bytes = 280,
    unvmcap_bytes = 296, kas = 320, sanicap = 328, anagrpmax = 344, domainid = 356, megcap_bytes = 368,
    cqt = 386, sqes = 512, maxcmd = 514, nn = 516, oncs = 520, fna = 524, vwc = 525, awun_z = 526,
    icsvscc = 530, acwu_z = 532, cdfs = 534, sgls = 536, mnan = 540, subnqn = 768, ioccsz = 1792,
    icdoff = 1800, dctype = 1806, psd = 2048, vendor = 3072,
} }

impl Controller {
    /// In FUSES: Compare and Write.
    pub const FUSES_COMPARE_AND_WRITE: u16 = 1;
    /// In LPA: Get Log Page takes offsets, and lengths of 32 bits.
    pub const LPA_EXTENDED_DATA: u8 = 1 << 2;
}

/// An ASCII field padded with spaces, as SN, MN and FR are.
pub fn ascii_field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_addresses_are_sgls_bit_20() {
        assert_eq!(Sgls::new().with_offset(true).into_bits(), 1 << 20);
        assert_eq!(Sgls::new().with_bit_bucket(true).into_bits(), 1 << 16);
        assert_eq!(Oacs::new().with_doorbell_buffer(true).into_bits(), 1 << 8);
        assert_eq!(Oncs::new().with_copy(true).into_bits(), 1 << 8);
    }

    #[test]
    fn text_fields_are_padded_with_spaces() {
        assert_eq!(ascii_field::<8>("abc"), *b"abc     ");
        assert_eq!(ascii_field::<2>("abc"), *b"ab");
    }
}
