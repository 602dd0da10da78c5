//! Identify (Base 2.1, section 5.1.13): what controllers and namespaces say of themselves.

mod controller;

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use controller::{Controller, Oacs, Oncs, PowerState, Sgls, ascii_field};

/// Bytes of every Identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

open_enum! {
    /// Controller or Namespace Structure (CNS): which structure Identify returns.
    pub struct Cns(u8) {
        NAMESPACE = 0x00 "Namespace",
        CONTROLLER = 0x01 "Controller",
        ACTIVE_NAMESPACES = 0x02 "Active Namespace ID list",
        NAMESPACE_DESCRIPTORS = 0x03 "Namespace Identification Descriptor list",
        NVM_SETS = 0x04 "NVM Set List",
        SET_NAMESPACE = 0x05 "I/O Command Set specific Namespace",
        SET_CONTROLLER = 0x06 "I/O Command Set specific Controller",
        SET_ACTIVE_NAMESPACES = 0x07 "I/O Command Set specific Active Namespace ID list",
        INDEPENDENT_NAMESPACE = 0x08 "I/O Command Set Independent Namespace",
        FORMAT_NAMESPACE = 0x09 "Namespace, for a format index",
        SET_FORMAT_NAMESPACE = 0x0a "I/O Command Set specific Namespace, for a format index",
        ALLOCATED_NAMESPACES = 0x10 "Allocated Namespace ID list",
        ALLOCATED_NAMESPACE = 0x11 "Namespace, for an allocated Namespace ID",
        ATTACHED_CONTROLLERS = 0x12 "Controller List, attached to a namespace",
        CONTROLLERS = 0x13 "Controller List, of the subsystem",
        PRIMARY_CAPABILITIES = 0x14 "Primary Controller Capabilities",
        SECONDARY_CONTROLLERS = 0x15 "Secondary Controller list",
        GRANULARITY = 0x16 "Namespace Granularity List",
        UUIDS = 0x17 "UUID List",
        DOMAINS = 0x18 "Domain List",
        ENDURANCE_GROUPS = 0x19 "Endurance Group List",
        SET_ALLOCATED_NAMESPACES = 0x1a "I/O Command Set specific Allocated Namespace ID list",
        SET_ALLOCATED_NAMESPACE = 0x1b "I/O Command Set specific Namespace, for an allocated Namespace ID",
        COMMAND_SETS = 0x1c "I/O Command Set",
    }
}

open_enum! {
    /// Command set identifier (CSI).
    pub struct Csi(u8) {
        NVM = 0 "NVM",
        KV = 1 "Key Value",
        ZNS = 2 "Zoned Namespace",
        SLM = 3 "Subsystem Local Memory",
        CP = 4 "Computational Programs",
    }
}

/// CDW10 of Identify.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct IdentifyCdw10 {
    /// The structure requested.
    #[bits(8)]
    pub cns: Cns,
    __: u8,
    /// Controller.
    pub cntid: u16,
}

/// CDW11 of Identify.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct IdentifyCdw11 {
    /// Specific identifier of the CNS, such as a format index.
    pub specific: u16,
    __: u8,
    /// Command set.
    #[bits(8)]
    pub csi: Csi,
}

/// I/O Command Set Independent Namespace, CNS 08h.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IndependentNamespace {
    /// Features.
    pub nsfeat: u8,
    /// Multi-path and sharing: bit 0 shared.
    pub nmic: u8,
    /// Reservation capabilities.
    pub rescap: u8,
    /// Format progress.
    pub fpi: u8,
    /// ANA group.
    pub anagrpid: u32,
    /// Attributes: bit 0 write protected.
    pub nsattr: u8,
    /// Reserved.
    pub reserved_9: u8,
    /// NVM set.
    pub nvmsetid: u16,
    /// Endurance group.
    pub endgid: u16,
    /// Status: bit 0 ready (NRDY).
    pub nstat: u8,
    /// Reserved, or fields of later revisions that Byway leaves at zero.
    pub reserved_15: [u8; 4081],
}

open_enum! {
    /// Namespace identifier type (NIDT).
    pub struct NamespaceIdType(u8) {
        EUI64 = 1 "EUI-64",
        NGUID = 2 "NGUID",
        UUID = 3 "UUID",
        CSI = 4 "Command Set Identifier",
    }
}

/// Head of a Namespace Identification Descriptor (CNS 03h); `nidl_bytes` of identifier follow. A zero type ends
/// the list.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NamespaceDescriptor {
    /// Type.
    pub nidt: NamespaceIdType,
    /// Identifier length in bytes.
    pub nidl_bytes: u8,
    /// Reserved.
    pub reserved: [u8; 2],
}

/// Namespace list (CNS 02h, 07h, 10h, 1Ah): identifiers, rising, zero after the last.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NamespaceList {
    /// Namespaces greater than the NSID of the command.
    pub nsids: [u32; 1024],
}

/// Controller list (CNS 12h, 13h, and the data of Namespace Attachment).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ControllerList {
    /// Number of identifiers.
    pub count: u16,
    /// Controllers, rising.
    pub cntlids: [u16; 2047],
}

/// I/O Command Set vectors, CNS 1Ch: each a combination that can be in use together.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CommandSets {
    /// Bit n is command set identifier n.
    pub vectors: [u64; 512],
}

assert_size! {
    IndependentNamespace = IDENTIFY_BYTES;
    NamespaceDescriptor = 4;
    NamespaceList = IDENTIFY_BYTES;
    ControllerList = IDENTIFY_BYTES;
    CommandSets = IDENTIFY_BYTES;
}
assert_offset! { IndependentNamespace { anagrpid = 4, nsattr = 8, nvmsetid = 10, nstat = 14, } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identify_dwords_carry_cns_csi_and_controller() {
        let cdw10 = IdentifyCdw10::new().with_cns(Cns::SET_NAMESPACE).with_cntid(2);
        assert_eq!(cdw10.into_bits(), 0x0002_0005);
        assert_eq!(IdentifyCdw11::new().with_csi(Csi::KV).with_specific(3).into_bits(), 0x0100_0003);
    }

    #[test]
    fn an_unknown_cns_stays_a_value() {
        extern crate std;
        let cns = IdentifyCdw10::from_bits(0x77).cns();
        assert_eq!((cns, cns.name()), (Cns(0x77), None));
        assert_eq!(std::format!("{cns} {:?}", Cns::CONTROLLER), "77h CONTROLLER");
    }
}
