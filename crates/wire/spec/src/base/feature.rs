//! Features: Get Features and Set Features (Base 2.1, sections 5.1.11, 5.1.25).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Feature identifier.
    pub struct FeatureId(u8) {
        ARBITRATION = 0x01 "Arbitration",
        POWER_MANAGEMENT = 0x02 "Power Management",
        TEMPERATURE_THRESHOLD = 0x04 "Temperature Threshold",
        ERROR_RECOVERY = 0x05 "Error Recovery",
        VOLATILE_WRITE_CACHE = 0x06 "Volatile Write Cache",
        NUMBER_OF_QUEUES = 0x07 "Number of Queues",
        INTERRUPT_COALESCING = 0x08 "Interrupt Coalescing",
        INTERRUPT_VECTOR = 0x09 "Interrupt Vector Configuration",
        WRITE_ATOMICITY = 0x0a "Write Atomicity Normal",
        ASYNC_EVENTS = 0x0b "Asynchronous Event Configuration",
        AUTONOMOUS_POWER = 0x0c "Autonomous Power State Transition",
        HOST_MEMORY_BUFFER = 0x0d "Host Memory Buffer",
        TIMESTAMP = 0x0e "Timestamp",
        KEEP_ALIVE = 0x0f "Keep Alive Timer",
        HOST_BEHAVIOR = 0x16 "Host Behavior Support",
        IO_COMMAND_SET_PROFILE = 0x19 "I/O Command Set Profile",
        FDP = 0x1d "Flexible Data Placement",
        FDP_EVENTS = 0x1e "Flexible Data Placement Events",
        KEY_VALUE = 0x20 "Key Value Configuration",
        SOFTWARE_PROGRESS = 0x80 "Software Progress Marker",
        HOST_IDENTIFIER = 0x81 "Host Identifier",
        RESERVATION_NOTIFICATION = 0x82 "Reservation Notification Mask",
        RESERVATION_PERSISTENCE = 0x83 "Reservation Persistence",
        WRITE_PROTECTION = 0x84 "Namespace Write Protection Config",
        METHODS = 0xc0 "Byway Transfer Methods",
        WINDOW = 0xc1 "Byway Device Memory Window",
    }
}

impl FeatureId {
    /// Whether Get and Set Features of it move a data structure (Base 2.1, "Feature Identifiers": uses memory buffer for
    /// attributes). For all others the data pointer is ignored.
    ///
    /// Numbers that stand for themselves: LBA Range Type (03h), Predictable Latency Mode Config (13h), Namespace Admin Label
    /// (1Fh), management addresses (21h, 22h), metadata of controllers and namespaces (7Dh to 7Fh).
    pub const fn has_data(self) -> bool {
        matches!(
            self,
            Self::AUTONOMOUS_POWER
                | Self::HOST_MEMORY_BUFFER
                | Self::TIMESTAMP
                | Self::HOST_BEHAVIOR
                | Self::FDP_EVENTS
                | Self::HOST_IDENTIFIER
                | Self(0x03 | 0x13 | 0x1f | 0x21 | 0x22 | 0x7d..=0x7f)
        )
    }
}

open_enum! {
    /// SEL: which value Get Features returns.
    pub struct FeatureSelect(u8) {
        CURRENT = 0 "current",
        DEFAULT = 1 "default",
        SAVED = 2 "saved",
        CAPABILITIES = 3 "supported capabilities",
    }
}

/// CDW10 of Get Features and Set Features.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct FeatureCdw10 {
    /// Feature identifier.
    #[bits(8)]
    pub fid: FeatureId,
    /// Get Features: which value.
    #[bits(3)]
    pub sel: FeatureSelect,
    #[bits(20)]
    __: u32,
    /// Set Features: save across power cycles.
    pub sv: bool,
}

/// DW0 of Get Features for supported capabilities.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct FeatureCapabilities {
    /// Saveable.
    pub saveable: bool,
    /// Specific to a namespace.
    pub per_namespace: bool,
    /// Changeable.
    pub changeable: bool,
    #[bits(29)]
    __: u32,
}

/// Arbitration (01h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Arbitration {
    /// Burst: 2^ab commands of a queue at a time, 7 for no limit.
    #[bits(3)]
    pub ab: u8,
    #[bits(5)]
    __: u8,
    /// Low priority weight, zero-based.
    pub lpw_z: u8,
    /// Medium priority weight, zero-based.
    pub mpw_z: u8,
    /// High priority weight, zero-based.
    pub hpw_z: u8,
}

/// Temperature Threshold (04h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TemperatureThreshold {
    /// Threshold in kelvins.
    pub tmpth_k: u16,
    /// Sensor: 0 is the composite temperature.
    #[bits(4)]
    pub tmpsel: u8,
    /// 0 over temperature, 1 under.
    #[bits(2)]
    pub thsel: u8,
    #[bits(10)]
    __: u16,
}

/// Error Recovery (05h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ErrorRecovery {
    /// Time limited error recovery, in units of 100 ms, 0 for no limit.
    pub tler: u16,
    /// Reading a deallocated block is an error.
    pub dulbe: bool,
    #[bits(15)]
    __: u16,
}

/// Volatile Write Cache (06h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct VolatileWriteCache {
    /// Enabled.
    pub wce: bool,
    #[bits(31)]
    __: u32,
}

/// Number of Queues (07h): requested in CDW11, granted in DW0.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NumberOfQueues {
    /// I/O submission queues, zero-based.
    pub nsq_z: u16,
    /// I/O completion queues, zero-based.
    pub ncq_z: u16,
}

/// Interrupt Coalescing (08h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptCoalescing {
    /// Completions to gather, zero-based.
    pub thr_z: u8,
    /// Longest wait in units of 100 µs, 0 for none.
    pub time: u8,
    __: u16,
}

/// Interrupt Vector Configuration (09h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptVector {
    /// Vector.
    pub iv: u16,
    /// Coalescing disabled.
    pub cd: bool,
    #[bits(15)]
    __: u16,
}

/// Write Atomicity Normal (0Ah).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct WriteAtomicity {
    /// The host requires only the power-fail atomic unit (disable normal).
    pub dn: bool,
    #[bits(31)]
    __: u32,
}

/// Asynchronous Event Configuration (0Bh): which events may be reported.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AsyncEvents {
    /// Critical warnings of the SMART log, bit for bit.
    pub smart: u8,
    /// Attached namespace attributes changed.
    pub namespace_changed: bool,
    /// Firmware activation starting.
    pub firmware: bool,
    /// Telemetry log changed.
    pub telemetry: bool,
    /// Asymmetric namespace access changed.
    pub ana: bool,
    #[bits(19)]
    __: u32,
    /// The discovery log changed.
    pub discovery: bool,
}

/// I/O Command Set Profile (19h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CommandSetProfile {
    /// Index of the vector of Identify CNS 1Ch in use.
    #[bits(9)]
    pub iosci: u16,
    #[bits(23)]
    __: u32,
}

/// Timestamp (0Eh), 8 bytes of data.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Timestamp {
    /// Milliseconds since 1970-01-01, 48 bits.
    pub ms: [u8; 6],
    /// Bit 0 the clock stopped in between, bits 3:1 origin (1 set by the host).
    pub attributes: u8,
    /// Reserved.
    pub reserved: u8,
}

/// Host Behavior Support (16h), 512 bytes of data.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct HostBehavior {
    /// Advanced command retry enabled.
    pub acre: u8,
    /// Extended telemetry data area 4 supported.
    pub etdas: u8,
    /// LBA format extension enabled.
    pub lbafee: u8,
    /// Reserved, or fields of later revisions.
    pub reserved_3: [u8; 509],
}

assert_size! {
    Timestamp = 8;
    HostBehavior = 512;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_is_the_top_bit_and_select_follows_the_identifier() {
        let set = FeatureCdw10::new().with_fid(FeatureId::NUMBER_OF_QUEUES).with_sv(true);
        assert_eq!(set.into_bits(), 0x8000_0007);
        let get = FeatureCdw10::new().with_fid(FeatureId::ARBITRATION).with_sel(FeatureSelect::SAVED);
        assert_eq!(get.into_bits(), 0x201);
    }

    #[test]
    fn namespace_changes_are_event_bit_8() {
        assert_eq!(AsyncEvents::new().with_namespace_changed(true).into_bits(), 1 << 8);
        assert_eq!(AsyncEvents::new().with_ana(true).with_discovery(true).into_bits(), 1 << 11 | 1 << 31);
    }
}
