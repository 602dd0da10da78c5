//! Log pages (Base 2.1, section 5.1.12).

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Log page identifier.
    pub struct LogPage(u8) {
        SUPPORTED_PAGES = 0x00 "Supported Log Pages",
        ERROR = 0x01 "Error Information",
        SMART = 0x02 "SMART / Health Information",
        FIRMWARE_SLOT = 0x03 "Firmware Slot Information",
        CHANGED_NAMESPACES = 0x04 "Changed Attached Namespace List",
        EFFECTS = 0x05 "Commands Supported and Effects",
        SELF_TEST = 0x06 "Device Self-test",
        TELEMETRY_HOST = 0x07 "Telemetry Host-Initiated",
        TELEMETRY_CONTROLLER = 0x08 "Telemetry Controller-Initiated",
        ENDURANCE_GROUP = 0x09 "Endurance Group Information",
        ANA = 0x0c "Asymmetric Namespace Access",
        PERSISTENT_EVENT = 0x0d "Persistent Event",
        FEATURES = 0x12 "Feature Identifiers Supported and Effects",
        MANAGEMENT = 0x13 "NVMe-MI Commands Supported and Effects",
        FDP_CONFIGURATIONS = 0x20 "FDP Configurations",
        DISCOVERY = 0x70 "Discovery",
        RESERVATION = 0x80 "Reservation Notification",
        SANITIZE = 0x81 "Sanitize Status",
        PROGRAM_LIST = 0x82 "Program List",
        CHANGED_ZONES = 0xbf "Changed Zone List",
        LEDGER = 0xc0 "Byway Ledger and Counters",
        ERROR_TEXTS = 0xc1 "Byway Error Texts",
        STALLS = 0xc2 "Byway Stalls",
    }
}

/// CDW10 of Get Log Page.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LogCdw10 {
    /// Log page.
    #[bits(8)]
    pub lid: LogPage,
    /// Log specific parameter.
    #[bits(7)]
    pub lsp: u8,
    /// Retain asynchronous event.
    pub rae: bool,
    /// Number of dwords, zero-based, low half.
    pub numdl_z: u16,
}

/// CDW11 of Get Log Page.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LogCdw11 {
    /// Number of dwords, zero-based, high half.
    pub numdu: u16,
    /// Log specific identifier.
    pub lsi: u16,
}

/// CDW14 of Get Log Page. CDW12–13 are the 64-bit offset.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LogCdw14 {
    /// UUID index.
    #[bits(7)]
    pub uuid: u8,
    #[bits(16)]
    __: u16,
    /// The offset is an index of an entry, not a byte.
    pub index_offset: bool,
    /// Command set identifier.
    pub csi: u8,
}

/// Supported Log Pages (00h), 1024 bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SupportedPages {
    /// One entry a log page identifier.
    pub pages: [PageSupport; 256],
}

/// One entry of [`SupportedPages`].
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PageSupport {
    /// Supported.
    pub lsupp: bool,
    /// Index offsets supported.
    pub ios: bool,
    #[bits(14)]
    __: u16,
    /// Specific to the page.
    pub lids: u16,
}

/// One entry of Error Information (01h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ErrorEntry {
    /// Serial number of the error, 0 for no entry.
    pub error_count: u64,
    /// Submission queue, FFFFh if none.
    pub sqid: u16,
    /// Command identifier, FFFFh if none.
    pub cid: u16,
    /// Phase and status as in the completion.
    pub phase_and_status: u16,
    /// Where in the command the error is: byte in bits 7:0, bit in 10:8; FFFFh if none.
    pub parameter: u16,
    /// First block affected.
    pub lba: u64,
    /// Namespace.
    pub nsid: u32,
    /// Vendor specific information available: log page.
    pub vendor_log: u8,
    /// Transport type.
    pub trtype: u8,
    /// Command set.
    pub csi: u8,
    /// Opcode.
    pub opcode: u8,
    /// Command specific information.
    pub specific: u64,
    /// Transport specific information.
    pub transport: u16,
    /// Reserved.
    pub reserved_42: [u8; 21],
    /// Version of this entry.
    pub version: u8,
}

/// SMART / Health Information (02h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SmartLog {
    /// Critical warnings: bit 0 spare, 1 temperature, 2 reliability, 3 read only, 4 volatile backup failed.
    pub critical_warning: u8,
    /// Composite temperature in kelvins.
    pub temperature_k: U16,
    /// Spare left, percent.
    pub spare_percent: u8,
    /// Spare threshold, percent.
    pub spare_threshold_percent: u8,
    /// Life used, percent; may pass 100.
    pub used_percent: u8,
    /// Endurance group critical warnings.
    pub group_warning: u8,
    /// Reserved.
    pub reserved_7: [u8; 25],
    /// Data read, in units of 512,000 bytes rounded up.
    pub data_units_read: U128,
    /// Data written, in units of 512,000 bytes rounded up.
    pub data_units_written: U128,
    /// Read commands.
    pub host_reads: U128,
    /// Write commands.
    pub host_writes: U128,
    /// Controller busy time in minutes.
    pub busy_minutes: U128,
    /// Power cycles.
    pub power_cycles: U128,
    /// Power-on hours.
    pub power_on_hours: U128,
    /// Unsafe shutdowns.
    pub unsafe_shutdowns: U128,
    /// Media and data integrity errors.
    pub media_errors: U128,
    /// Error log entries over the life of the controller.
    pub error_entries: U128,
    /// Minutes over the warning temperature.
    pub warning_minutes: u32,
    /// Minutes over the critical temperature.
    pub critical_minutes: u32,
    /// Sensors in kelvins, 0 if not there.
    pub sensors_k: [U16; 8],
    /// Thermal management transitions and times.
    pub thermal: [u32; 4],
    /// Reserved.
    pub reserved_232: [u8; 280],
}

/// Firmware Slot Information (03h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FirmwareSlots {
    /// Active slot in bits 2:0, next in 6:4.
    pub afi: u8,
    /// Reserved.
    pub reserved_1: [u8; 7],
    /// Revision in each slot, ASCII.
    pub frs: [[u8; 8]; 7],
    /// Reserved.
    pub reserved_64: [u8; 448],
}

/// Changed Attached Namespace List (04h): identifiers, rising, zero after the last.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ChangedNamespaces {
    /// Namespaces; the first is FFFFFFFFh if more than 1024 changed.
    pub nsids: [u32; 1024],
}

/// Commands Supported and Effects (05h), of the command set named in CDW14.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EffectsLog {
    /// Admin commands by opcode.
    pub admin: [Effects; 256],
    /// I/O commands by opcode.
    pub io: [Effects; 256],
    /// Reserved.
    pub reserved_2048: [u8; 2048],
}

/// Feature Identifiers Supported and Effects (12h). A feature's entry has the bits of a command's.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FeaturesLog {
    /// Features by identifier.
    pub features: [Effects; 256],
}

/// NVMe-MI Commands Supported and Effects (13h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ManagementLog {
    /// Management interface commands by opcode.
    pub commands: [Effects; 256],
    /// Reserved.
    pub reserved_1024: [u8; 3072],
}

/// Effects of one command.
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Effects {
    /// Supported.
    pub csupp: bool,
    /// Logical block content, or user data, may change.
    pub lbcc: bool,
    /// Namespace capability may change.
    pub ncc: bool,
    /// Namespace inventory may change.
    pub nic: bool,
    /// Controller capability may change.
    pub ccc: bool,
    #[bits(9)]
    __: u16,
    /// Submission and execution relaxations.
    #[bits(2)]
    pub cser: u8,
    /// Submission and execution: 0 no restriction, 1 alone in the namespace, 2 alone in the controller.
    #[bits(3)]
    pub cse: u8,
    /// UUID selection supported.
    pub uss: bool,
    /// Scope.
    #[bits(12)]
    pub csp: u16,
}

impl Effects {
    /// CSP: one namespace.
    pub const SCOPE_NAMESPACE: u16 = 1 << 0;
    /// CSP: one controller.
    pub const SCOPE_CONTROLLER: u16 = 1 << 1;
    /// CSP: the whole NVM subsystem.
    pub const SCOPE_SUBSYSTEM: u16 = 1 << 5;
}

/// Sanitize Status (81h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SanitizeLog {
    /// Progress, of 65,536.
    pub progress: U16,
    /// Bits 0–2: 0 never, 1 done, 2 going on, 3 failed; 3–7: passes done; 8: nothing was written since.
    pub status: U16,
    /// CDW10 of the command.
    pub cdw10: U32,
    /// Seconds that overwrite, block erase and crypto erase take, and the same without deallocation; all ones if unknown.
    pub estimates_s: [U32; 6],
    reserved: [u8; 480],
}

assert_size! {
    SanitizeLog = 512;
    SupportedPages = 1024;
    ErrorEntry = 64;
    SmartLog = 512;
    FirmwareSlots = 512;
    ChangedNamespaces = 4096;
    EffectsLog = 4096;
    FeaturesLog = 1024;
    ManagementLog = 4096;
}
assert_offset! { ErrorEntry { parameter = 14, lba = 16, nsid = 24, csi = 30, specific = 32, version = 63, } }
assert_offset! { SmartLog {
    temperature_k = 1, used_percent = 5, data_units_read = 32, host_reads = 64, power_cycles = 112,
    unsafe_shutdowns = 144, error_entries = 176, warning_minutes = 192, sensors_k = 200, thermal = 216,
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supported_command_that_writes_reads_as_03h() {
        assert_eq!(Effects::new().with_csupp(true).with_lbcc(true).into_bits(), 3);
        assert_eq!(Effects::new().with_cse(1).into_bits(), 1 << 16);
    }

    #[test]
    fn get_log_splits_the_dword_count_and_puts_csi_on_top() {
        let cdw10 = LogCdw10::new().with_lid(LogPage::EFFECTS).with_numdl_z(1023);
        assert_eq!(cdw10.into_bits(), 0x03ff_0005);
        assert_eq!(LogCdw14::new().with_csi(1).into_bits(), 0x0100_0000);
    }
}
