//! NVMe over Fabrics: the fabrics commands and the discovery log (Base 2.1, sections 6 and 5.1.12.3.1).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Command, Status};

/// Bytes of the data of Connect.
pub const CONNECT_DATA_BYTES: usize = 1024;
/// Bytes of the discovery log's header, and of each of its entries.
pub const DISCOVERY_RECORD_BYTES: usize = 1024;
/// NQN of every discovery controller that has no name of its own.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Most bytes of an NQN, without the NUL behind it.
pub const NQN_BYTES_MAX: usize = 223;
/// CNTLID in Connect: any controller will do, make one (dynamic).
pub const CNTLID_DYNAMIC: u16 = 0xffff;
/// CNTLID in a discovery log entry: any controller of the static model.
pub const CNTLID_STATIC: u16 = 0xfffe;
/// SQHD of a Connect completion: flow control of the submission queue is off.
pub const SQHD_NO_FLOW_CONTROL: u16 = 0xffff;

open_enum! {
    /// Fabrics command type (FCTYPE), byte 4. Its low two bits are the direction of the data, as an opcode's are.
    pub struct FabricsType(u8) {
        PROPERTY_SET = 0x00 "Property Set",
        CONNECT = 0x01 "Connect",
        PROPERTY_GET = 0x04 "Property Get",
        AUTHENTICATION_SEND = 0x05 "Authentication Send",
        AUTHENTICATION_RECEIVE = 0x06 "Authentication Receive",
        DISCONNECT = 0x08 "Disconnect",
    }
}

impl FabricsType {
    /// The FCTYPE of a command with the Fabrics opcode.
    pub const fn of(command: &Command) -> Self {
        Self(command.nsid as u8)
    }
}

/// Command specific statuses of fabrics commands. Other commands have other words for some of these codes.
pub mod status {
    use super::Status;
    use crate::base::status::sct::COMMAND_SPECIFIC;

    /// Incompatible Format: RECFMT.
    pub const INCOMPATIBLE_FORMAT: Status = Status::new(COMMAND_SPECIFIC, 0x80);
    /// Controller Busy.
    pub const CONTROLLER_BUSY: Status = Status::new(COMMAND_SPECIFIC, 0x81);
    /// Connect Invalid Parameters; DW0 identifies the parameter.
    pub const INVALID_PARAMETERS: Status = Status::new(COMMAND_SPECIFIC, 0x82);
    /// Connect Restart Discovery.
    pub const RESTART_DISCOVERY: Status = Status::new(COMMAND_SPECIFIC, 0x83);
    /// Connect Invalid Host.
    pub const INVALID_HOST: Status = Status::new(COMMAND_SPECIFIC, 0x84);
    /// Invalid Queue Type: Disconnect on the admin queue.
    pub const INVALID_QUEUE_TYPE: Status = Status::new(COMMAND_SPECIFIC, 0x85);
    /// Authentication Required.
    pub const AUTHENTICATION_REQUIRED: Status = Status::new(COMMAND_SPECIFIC, 0x91);

    /// The specification's words for a status of a fabrics command.
    pub fn name(status: Status) -> Option<&'static str> {
        match status.code() {
            INCOMPATIBLE_FORMAT => Some("Incompatible Format"),
            CONTROLLER_BUSY => Some("Controller Busy"),
            INVALID_PARAMETERS => Some("Connect Invalid Parameters"),
            RESTART_DISCOVERY => Some("Connect Restart Discovery"),
            INVALID_HOST => Some("Connect Invalid Host"),
            INVALID_QUEUE_TYPE => Some("Invalid Queue Type"),
            AUTHENTICATION_REQUIRED => Some("Authentication Required"),
            _ => status.name(),
        }
    }
}

/// CDW10 of Connect, and of Disconnect, which has no queue.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ConnectCdw10 {
    /// Record format, 0.
    pub recfmt: u16,
    /// Queue: 0 is the admin queue.
    pub qid: u16,
}

/// CDW11 of Connect. CDW12 is the keep alive timeout in milliseconds, 0 for none.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ConnectCdw11 {
    /// Entries of the submission queue, zero-based.
    pub sqsize_z: u16,
    /// CATTR: priority class of the queue.
    #[bits(2)]
    pub priority: u8,
    /// CATTR: no flow control of the submission queue.
    pub no_flow_control: bool,
    /// CATTR: I/O queues may be deleted one by one.
    pub individual_deletion: bool,
    #[bits(12)]
    __: u16,
}

/// DW0 of a Connect that succeeded.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ConnectAccepted {
    /// Controller.
    pub cntlid: u16,
    __: bool,
    /// Authentication is required (ATR).
    pub atr: bool,
    /// Authentication is required, and a secure channel after it (ASCR).
    pub ascr: bool,
    #[bits(13)]
    __: u16,
}

/// DW0 of a Connect that failed with Connect Invalid Parameters.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ConnectInvalid {
    /// IPO: offset of the first parameter at fault.
    pub ipo: u16,
    /// IATTR bit 0: it is in the data, not in the command.
    pub in_data: bool,
    #[bits(15)]
    __: u16,
}

/// CDW10 of Property Get and Property Set. CDW11 is the offset; CDW12 and 13 are the value to be set.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct PropertyCdw10 {
    /// ATTRIB: 0 for 4 bytes, 1 for 8.
    #[bits(3)]
    pub size: u8,
    #[bits(29)]
    __: u32,
}

/// CDW10 of Authentication Send and Receive, as of Security Send and Receive. CDW11 is the length in bytes.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AuthenticationCdw10 {
    __: u8,
    /// SPSP0.
    pub spsp0: u8,
    /// SPSP1.
    pub spsp1: u8,
    /// Security protocol.
    pub secp: u8,
}

impl AuthenticationCdw10 {
    /// What every message of NVMe's own authentication protocols has.
    pub const NVME: Self = Self::new().with_spsp0(1).with_spsp1(1).with_secp(0xe9);
}

/// The data of Connect.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ConnectData {
    /// HOSTID: a UUID.
    pub hostid: [u8; 16],
    /// CNTLID: FFFFh for any controller, or the value that the admin queue's Connect returned.
    pub cntlid: u16,
    /// Reserved.
    pub reserved_18: [u8; 238],
    /// SUBNQN, with a NUL behind it.
    pub subnqn: [u8; 256],
    /// HOSTNQN, with a NUL behind it.
    pub hostnqn: [u8; 256],
    /// Reserved.
    pub reserved_768: [u8; 256],
}

open_enum! {
    /// TRTYPE: transport.
    pub struct TransportType(u8) {
        RDMA = 1 "RDMA",
        FC = 2 "Fibre Channel",
        TCP = 3 "TCP",
        LOOP = 254 "intra-host",
    }
}

open_enum! {
    /// ADRFAM: family of an address.
    pub struct AddressFamily(u8) {
        IPV4 = 1 "IPv4",
        IPV6 = 2 "IPv6",
        INFINIBAND = 3 "InfiniBand",
        FC = 4 "Fibre Channel",
        LOOP = 254 "intra-host",
    }
}

open_enum! {
    /// SUBTYPE: what is at an address: a discovery or an NVM subsystem.
    pub struct SubsystemType(u8) {
        REFERRAL = 1 "referral to a discovery service",
        NVM = 2 "NVM subsystem",
        CURRENT_DISCOVERY = 3 "current discovery subsystem",
    }
}

open_enum! {
    /// SECTYPE of a TCP address.
    pub struct SecurityType(u8) {
        NONE = 0 "none",
        TLS_1_2 = 1 "TLS 1.2",
        TLS_1_3 = 2 "TLS 1.3",
    }
}

/// TREQ of a discovery log entry.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TransportRequirements {
    /// Secure channel: 0 unspecified, 1 required, 2 not required.
    #[bits(2)]
    pub secure_channel: u8,
    /// Flow control of submission queues may be switched off.
    pub no_flow_control: bool,
    #[bits(5)]
    __: u8,
}

/// EFLAGS of a discovery log entry.
#[bitfield(u16)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EntryFlags {
    /// DUPRETINFO: the entry duplicates information that another address of the discovery service returns.
    pub duplicate: bool,
    /// EPCSD: persistent connections to the discovery controller are taken.
    pub persistent: bool,
    /// NCC: no connectivity to the subsystem.
    pub no_connectivity: bool,
    #[bits(13)]
    __: u16,
}

/// Header of the discovery log (70h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DiscoveryHeader {
    /// GENCTR: changes whenever the log does.
    pub genctr: u64,
    /// NUMREC: entries.
    pub numrec: u64,
    /// Record format, 0.
    pub recfmt: u16,
    /// Reserved.
    pub reserved_18: [u8; 1006],
}

/// Entry of the discovery log.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DiscoveryEntry {
    /// Transport.
    pub trtype: TransportType,
    /// Family of the address.
    pub adrfam: AddressFamily,
    /// Type of the subsystem.
    pub subtype: SubsystemType,
    /// Requirements of the transport, such as a secure channel.
    pub treq: TransportRequirements,
    /// Port of the subsystem, by its number.
    pub portid: u16,
    /// Controller: FFFFh for the dynamic model, FFFEh for any of the static one.
    pub cntlid: u16,
    /// Most entries of the admin submission queue.
    pub asqsz: u16,
    /// Flags.
    pub eflags: EntryFlags,
    /// Reserved.
    pub reserved_12: [u8; 20],
    /// TRSVCID: port, as text.
    pub trsvcid: [u8; 32],
    /// Reserved.
    pub reserved_64: [u8; 192],
    /// SUBNQN, with a NUL behind it.
    pub subnqn: [u8; 256],
    /// TRADDR: address, as text.
    pub traddr: [u8; 256],
    /// TSAS: for TCP, SECTYPE in byte 0.
    pub tsas: [u8; 256],
}

assert_size! {
    ConnectData = CONNECT_DATA_BYTES;
    DiscoveryHeader = DISCOVERY_RECORD_BYTES;
    DiscoveryEntry = DISCOVERY_RECORD_BYTES;
}
assert_offset! { ConnectData { cntlid = 16, subnqn = 256, hostnqn = 512, } }
assert_offset! { DiscoveryHeader { numrec = 8, recfmt = 16, } }
assert_offset! { DiscoveryEntry {
    subtype = 2, treq = 3, portid = 4, cntlid = 6, asqsz = 8, eflags = 10, trsvcid = 32, subnqn = 256, traddr = 512,
    tsas = 768,
} }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    #[test]
    fn connect_dwords_are_those_of_the_specification() {
        assert_eq!(ConnectCdw10::new().with_qid(3).into_bits(), 0x0003_0000);
        assert_eq!(
            ConnectCdw11::new().with_sqsize_z(127).with_no_flow_control(true).into_bits(),
            0x0004_007f
        );
        assert_eq!(ConnectAccepted::new().with_cntlid(7).with_atr(true).into_bits(), 0x0002_0007);
        assert_eq!(ConnectInvalid::new().with_ipo(256).with_in_data(true).into_bits(), 0x0001_0100);
        assert_eq!(AuthenticationCdw10::NVME.into_bits(), 0xe901_0100);
    }

    #[test]
    fn fabrics_type_gives_the_direction_of_the_data() {
        assert_eq!(Direction::of(FabricsType::CONNECT.0), Direction::HostToDevice);
        assert_eq!(Direction::of(FabricsType::AUTHENTICATION_RECEIVE.0), Direction::DeviceToHost);
        assert_eq!(Direction::of(FabricsType::DISCONNECT.0), Direction::None);
    }

    #[test]
    fn shared_status_code_has_the_fabrics_name() {
        assert_eq!(status::name(status::INVALID_PARAMETERS.with_dnr()), Some("Connect Invalid Parameters"));
        assert_eq!(status::name(Status::INVALID_FIELD), Status::INVALID_FIELD.name());
    }
}
