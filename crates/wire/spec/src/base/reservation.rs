//! Reservations (Base 2.1, sections 7.5 to 7.8 and 8.1.22): commands by which hosts coordinate access to a namespace.
//! They are the same in every command set.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Opcode of a reservation command, in every command set.
    pub struct ReservationOpcode(u8) {
        REGISTER = 0x0d "Reservation Register",
        REPORT = 0x0e "Reservation Report",
        ACQUIRE = 0x11 "Reservation Acquire",
        RELEASE = 0x15 "Reservation Release",
    }
}

open_enum! {
    /// RTYPE: the access that a reservation denies to other hosts; 0 is none.
    pub struct ReservationType(u8) {
        WRITE_EXCLUSIVE = 1 "Write Exclusive",
        EXCLUSIVE_ACCESS = 2 "Exclusive Access",
        WRITE_EXCLUSIVE_REGISTRANTS = 3 "Write Exclusive - Registrants Only",
        EXCLUSIVE_ACCESS_REGISTRANTS = 4 "Exclusive Access - Registrants Only",
        WRITE_EXCLUSIVE_ALL = 5 "Write Exclusive - All Registrants",
        EXCLUSIVE_ACCESS_ALL = 6 "Exclusive Access - All Registrants",
    }
}

open_enum! {
    /// What Reservation Register does (RREGA).
    pub struct RegisterAction(u8) {
        REGISTER = 0 "register",
        UNREGISTER = 1 "unregister",
        REPLACE = 2 "replace",
    }
}

open_enum! {
    /// What Reservation Acquire does (RACQA).
    pub struct AcquireAction(u8) {
        ACQUIRE = 0 "acquire",
        PREEMPT = 1 "preempt",
        PREEMPT_AND_ABORT = 2 "preempt and abort",
    }
}

open_enum! {
    /// What Reservation Release does (RRELA).
    pub struct ReleaseAction(u8) {
        RELEASE = 0 "release",
        CLEAR = 1 "clear",
    }
}

open_enum! {
    /// What becomes of registrations at a loss of power (CPTPL).
    pub struct PersistChange(u8) {
        NONE = 0 "no change",
        LOSE = 2 "registrations end with the power",
        KEEP = 3 "registrations persist through power loss",
    }
}

/// CDW10 of Reservation Register.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct RegisterCdw10 {
    /// Action.
    #[bits(3)]
    pub rrega: RegisterAction,
    /// Ignore the existing key.
    pub iekey: bool,
    #[bits(26)]
    __: u32,
    /// Change of persistence through power loss.
    #[bits(2)]
    pub cptpl: PersistChange,
}

/// CDW10 of Reservation Acquire.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AcquireCdw10 {
    /// Action.
    #[bits(3)]
    pub racqa: AcquireAction,
    /// Ignore the existing key: refused since NVMe 1.3.
    pub iekey: bool,
    #[bits(4)]
    __: u8,
    /// Type.
    #[bits(8)]
    pub rtype: ReservationType,
    __: u16,
}

/// CDW10 of Reservation Release.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ReleaseCdw10 {
    /// Action.
    #[bits(3)]
    pub rrela: ReleaseAction,
    /// Ignore the existing key: refused since NVMe 1.3.
    pub iekey: bool,
    #[bits(4)]
    __: u8,
    /// Type that is released.
    #[bits(8)]
    pub rtype: ReservationType,
    __: u16,
}

/// CDW11 of Reservation Report. CDW10 is the number of dwords, zero-based.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ReportCdw11 {
    /// Extended data structure: host identifiers of 128 bits.
    pub eds: bool,
    #[bits(31)]
    __: u32,
}

/// Data of Reservation Register.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RegisterData {
    /// Key that the host has.
    pub crkey: u64,
    /// Key that it shall have.
    pub nrkey: u64,
}

/// Data of Reservation Acquire.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AcquireData {
    /// Key that the host has.
    pub crkey: u64,
    /// Key of those that are preempted.
    pub prkey: u64,
}

/// Data of Reservation Release.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ReleaseData {
    /// Key that the host has.
    pub crkey: u64,
}

/// Head of the data of Reservation Report, both forms. In the extended form 40 reserved bytes follow.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ReservationStatus {
    /// Counts changes of registrations.
    pub gen_count: [u8; 4],
    /// Type of the reservation that is held; 0 for none.
    pub rtype: ReservationType,
    /// Controllers that follow, whether the buffer has room for them or not.
    pub regctl: [u8; 2],
    /// Reserved.
    pub reserved_7: [u8; 2],
    /// Registrations persist through power loss.
    pub ptpls: u8,
    /// Reserved.
    pub reserved_10: [u8; 14],
}

/// Bytes of the head of the extended form.
pub const EXTENDED_HEAD_BYTES: usize = 64;

/// A registered controller in the data of Reservation Report.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RegisteredController {
    /// Controller; FFFFh where its host has none now.
    pub cntlid: u16,
    /// Bit 0: the host holds the reservation.
    pub rcsts: u8,
    /// Reserved.
    pub reserved_3: [u8; 5],
    /// Host.
    pub hostid: [u8; 8],
    /// Its reservation key.
    pub rkey: u64,
}

/// A registered controller in the extended form.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RegisteredControllerExtended {
    /// Controller; FFFFh where its host has none now.
    pub cntlid: u16,
    /// Bit 0: the host holds the reservation.
    pub rcsts: u8,
    /// Reserved.
    pub reserved_3: [u8; 5],
    /// Its reservation key.
    pub rkey: u64,
    /// Host.
    pub hostid: [u8; 16],
    /// Reserved.
    pub reserved_32: [u8; 32],
}

/// CNTLID of a registrant whose host has no controller at present.
pub const NO_CONTROLLER: u16 = 0xffff;

/// RCSTS: the host holds the reservation.
pub const HOLDS: u8 = 1;

open_enum! {
    /// RNLPT: the type of a reservation notification.
    pub struct Notice(u8) {
        NONE = 0 "empty log page",
        REGISTRATION_PREEMPTED = 1 "Registration Preempted",
        RESERVATION_RELEASED = 2 "Reservation Released",
        RESERVATION_PREEMPTED = 3 "Reservation Preempted",
    }
}

/// Reservation Notification (log page 80h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ReservationLog {
    /// Counts notifications, those that were lost too; 0 for none.
    pub count: u64,
    /// What happened.
    pub kind: Notice,
    /// Pages that wait behind this one.
    pub more: u8,
    /// Reserved.
    pub reserved_10: [u8; 2],
    /// Namespace.
    pub nsid: u32,
    /// Reserved.
    pub reserved_16: [u8; 48],
}

/// Reservation Notification Mask (feature 82h): notifications that are suppressed.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NotificationMask {
    __: bool,
    /// Registration Preempted.
    pub regpre: bool,
    /// Reservation Released.
    pub resrel: bool,
    /// Reservation Preempted.
    pub respre: bool,
    #[bits(28)]
    __: u32,
}

impl NotificationMask {
    /// Whether notices of a kind are masked.
    pub const fn hides(&self, notice: Notice) -> bool {
        self.into_bits() >> (notice.0 & 31) & 1 != 0
    }
}

/// Reservation Persistence (feature 83h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Persistence {
    /// Registrations persist through power loss.
    pub ptpl: bool,
    #[bits(31)]
    __: u32,
}

/// CDW11 of Host Identifier (feature 81h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct HostIdentifierCdw11 {
    /// The identifier has 128 bits, and not 64.
    pub exhid: bool,
    #[bits(31)]
    __: u32,
}

/// Reservation capabilities of a namespace (RESCAP).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Rescap {
    /// Persistence through power loss.
    pub ptpl: bool,
    /// Write Exclusive.
    pub write_exclusive: bool,
    /// Exclusive Access.
    pub exclusive_access: bool,
    /// Write Exclusive – Registrants Only.
    pub write_exclusive_registrants: bool,
    /// Exclusive Access – Registrants Only.
    pub exclusive_access_registrants: bool,
    /// Write Exclusive – All Registrants.
    pub write_exclusive_all: bool,
    /// Exclusive Access – All Registrants.
    pub exclusive_access_all: bool,
    /// Ignore Existing Key as NVMe 1.3 and later have it.
    pub iekey_1_3: bool,
}

assert_size! {
    RegisterData = 16;
    AcquireData = 16;
    ReleaseData = 8;
    ReservationStatus = 24;
    RegisteredController = 24;
    RegisteredControllerExtended = 64;
    ReservationLog = 64;
}
assert_offset! { ReservationStatus { rtype = 4, regctl = 5, ptpls = 9, } }
assert_offset! { RegisteredController { rcsts = 2, hostid = 8, rkey = 16, } }
assert_offset! { RegisteredControllerExtended { rcsts = 2, rkey = 8, hostid = 16, } }
assert_offset! { ReservationLog { kind = 8, more = 9, nsid = 12, } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dwords_are_those_that_linux_sends() {
        let register = RegisterCdw10::new().with_rrega(RegisterAction::REPLACE).with_iekey(true);
        assert_eq!(register.with_cptpl(PersistChange::KEEP).into_bits(), 0xc000_000a);
        let acquire = AcquireCdw10::new().with_racqa(AcquireAction::PREEMPT_AND_ABORT);
        assert_eq!(acquire.with_rtype(ReservationType::EXCLUSIVE_ACCESS_ALL).into_bits(), 0x0602);
        let release = ReleaseCdw10::new().with_rrela(ReleaseAction::CLEAR);
        assert_eq!(release.into_bits(), 1);
    }

    #[test]
    fn a_mask_has_the_bit_of_each_notice_type() {
        let mask = NotificationMask::new().with_resrel(true);
        assert_eq!(mask.into_bits(), 1 << 2);
        assert!(mask.hides(Notice::RESERVATION_RELEASED) && !mask.hides(Notice::RESERVATION_PREEMPTED));
    }
}
