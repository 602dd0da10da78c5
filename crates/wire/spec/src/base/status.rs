//! The status field of a completion (Base 2.1, section 4.2.3).

use core::fmt;

/// Status of a completion, without the phase tag: SC in bits 7:0, SCT 10:8, CRD 12:11, M 13, DNR 14.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u16);

/// Status code type (SCT).
pub mod sct {
    /// Generic command status.
    pub const GENERIC: u8 = 0;
    /// Command specific status.
    pub const COMMAND_SPECIFIC: u8 = 1;
    /// Media and data integrity errors.
    pub const MEDIA: u8 = 2;
    /// Path related status.
    pub const PATH: u8 = 3;
    /// Vendor specific.
    pub const VENDOR: u8 = 7;
}

const MORE: u16 = 1 << 13;
const DNR: u16 = 1 << 14;

impl Status {
    /// A status of this type and code, no retry delay, retry allowed.
    pub const fn new(sct: u8, sc: u8) -> Self {
        Self((sct as u16 & 7) << 8 | sc as u16)
    }

    /// Status code.
    pub const fn sc(self) -> u8 {
        self.0 as u8
    }

    /// Status code type.
    pub const fn sct(self) -> u8 {
        (self.0 >> 8) as u8 & 7
    }

    /// Command retry delay: 0, or the CRDT field of Identify Controller to wait for.
    pub const fn crd(self) -> u8 {
        (self.0 >> 11) as u8 & 3
    }

    /// The error log has more to say.
    pub const fn more(self) -> bool {
        self.0 & MORE != 0
    }

    /// Do not retry: the same command would fail again.
    pub const fn dnr(self) -> bool {
        self.0 & DNR != 0
    }

    /// The same status with Do Not Retry set.
    #[must_use]
    pub const fn with_dnr(self) -> Self {
        Self(self.0 | DNR)
    }

    /// The same status with More set.
    #[must_use]
    pub const fn with_more(self) -> Self {
        Self(self.0 | MORE)
    }

    /// Type and code alone, for comparing with the constants here.
    #[must_use]
    pub const fn code(self) -> Self {
        Self(self.0 & 0x7ff)
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.code().0 == 0
    }

    /// Whether type and code are those of `other`, whatever the retry bits say.
    pub const fn is(self, other: Self) -> bool {
        self.code().0 == other.code().0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({self})")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("Unknown Status"))?;
        write!(f, " ({:x}h/{:02x}h", self.sct(), self.sc())?;
        if self.dnr() { f.write_str(", do not retry)") } else { f.write_str(")") }
    }
}

macro_rules! statuses {
    ($($entry:ident = $sct:literal, $sc:literal, $words:literal;)*) => {
        impl Status {
            $(
                #[doc = $words]
                pub const $entry: Self = Self::new($sct, $sc);
            )*

            /// The specification's words for this type and code, if known here.
            ///
            /// Codes 80h and up of the generic type are shared by command sets. Key Value names are given where no
            /// other set uses the code.
            pub const fn name(self) -> Option<&'static str> {
                match (self.sct(), self.sc()) {
                    $(($sct, $sc) => Some($words),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, 0x00, "Successful Completion";
    INVALID_OPCODE = 0, 0x01, "Invalid Command Opcode";
    INVALID_FIELD = 0, 0x02, "Invalid Field in Command";
    COMMAND_ID_CONFLICT = 0, 0x03, "Command ID Conflict";
    DATA_TRANSFER_ERROR = 0, 0x04, "Data Transfer Error";
    ABORTED_POWER_LOSS = 0, 0x05, "Commands Aborted due to Power Loss Notification";
    INTERNAL_ERROR = 0, 0x06, "Internal Error";
    ABORT_REQUESTED = 0, 0x07, "Command Abort Requested";
    ABORTED_SQ_DELETION = 0, 0x08, "Command Aborted due to SQ Deletion";
    ABORTED_FAILED_FUSED = 0, 0x09, "Command Aborted due to Failed Fused Command";
    ABORTED_MISSING_FUSED = 0, 0x0a, "Command Aborted due to Missing Fused Command";
    INVALID_NAMESPACE = 0, 0x0b, "Invalid Namespace or Format";
    COMMAND_SEQUENCE_ERROR = 0, 0x0c, "Command Sequence Error";
    INVALID_SGL_SEGMENT = 0, 0x0d, "Invalid SGL Segment Descriptor";
    INVALID_SGL_COUNT = 0, 0x0e, "Invalid Number of SGL Descriptors";
    DATA_SGL_LENGTH_INVALID = 0, 0x0f, "Data SGL Length Invalid";
    METADATA_SGL_LENGTH_INVALID = 0, 0x10, "Metadata SGL Length Invalid";
    SGL_TYPE_INVALID = 0, 0x11, "SGL Descriptor Type Invalid";
    INVALID_CMB_USE = 0, 0x12, "Invalid Use of Controller Memory Buffer";
    PRP_OFFSET_INVALID = 0, 0x13, "PRP Offset Invalid";
    ATOMIC_WRITE_UNIT_EXCEEDED = 0, 0x14, "Atomic Write Unit Exceeded";
    OPERATION_DENIED = 0, 0x15, "Operation Denied";
    SGL_OFFSET_INVALID = 0, 0x16, "SGL Offset Invalid";
    HOST_ID_INCONSISTENT = 0, 0x18, "Host Identifier Inconsistent Format";
    KEEP_ALIVE_EXPIRED = 0, 0x19, "Keep Alive Timer Expired";
    KEEP_ALIVE_INVALID = 0, 0x1a, "Keep Alive Timeout Invalid";
    ABORTED_PREEMPT = 0, 0x1b, "Command Aborted due to Preempt and Abort";
    SANITIZE_FAILED = 0, 0x1c, "Sanitize Failed";
    SANITIZE_IN_PROGRESS = 0, 0x1d, "Sanitize In Progress";
    SGL_GRANULARITY_INVALID = 0, 0x1e, "SGL Data Block Granularity Invalid";
    COMMAND_NOT_SUPPORTED_IN_CMB = 0, 0x1f, "Command Not Supported for Queue in CMB";
    NAMESPACE_WRITE_PROTECTED = 0, 0x20, "Namespace is Write Protected";
    COMMAND_INTERRUPTED = 0, 0x21, "Command Interrupted";
    TRANSIENT_TRANSPORT_ERROR = 0, 0x22, "Transient Transport Error";
    COMMAND_PROHIBITED = 0, 0x23, "Command Prohibited by Command and Feature Lockdown";
    ADMIN_MEDIA_NOT_READY = 0, 0x24, "Admin Command Media Not Ready";
    FDP_DISABLED = 0, 0x29, "FDP Disabled";
    INVALID_PLACEMENT_LIST = 0, 0x2a, "Invalid Placement Handle List";
    LBA_OUT_OF_RANGE = 0, 0x80, "LBA Out of Range";
    CAPACITY_EXCEEDED = 0, 0x81, "Capacity Exceeded";
    NAMESPACE_NOT_READY = 0, 0x82, "Namespace Not Ready";
    RESERVATION_CONFLICT = 0, 0x83, "Reservation Conflict";
    FORMAT_IN_PROGRESS = 0, 0x84, "Format In Progress";
    INVALID_VALUE_SIZE = 0, 0x85, "Invalid Value Size";
    INVALID_KEY_SIZE = 0, 0x86, "Invalid Key Size";
    KEY_DOES_NOT_EXIST = 0, 0x87, "KV Key Does Not Exist";
    UNRECOVERED_ERROR = 0, 0x88, "Unrecovered Error";
    KEY_EXISTS = 0, 0x89, "Key Exists";

    CQ_INVALID = 1, 0x00, "Completion Queue Invalid";
    INVALID_QUEUE_ID = 1, 0x01, "Invalid Queue Identifier";
    INVALID_QUEUE_SIZE = 1, 0x02, "Invalid Queue Size";
    ABORT_LIMIT_EXCEEDED = 1, 0x03, "Abort Command Limit Exceeded";
    EVENT_REQUEST_LIMIT_EXCEEDED = 1, 0x05, "Asynchronous Event Request Limit Exceeded";
    INVALID_FIRMWARE_SLOT = 1, 0x06, "Invalid Firmware Slot";
    INVALID_FIRMWARE_IMAGE = 1, 0x07, "Invalid Firmware Image";
    INVALID_INTERRUPT_VECTOR = 1, 0x08, "Invalid Interrupt Vector";
    INVALID_LOG_PAGE = 1, 0x09, "Invalid Log Page";
    INVALID_FORMAT = 1, 0x0a, "Invalid Format";
    FIRMWARE_NEEDS_CONVENTIONAL_RESET = 1, 0x0b, "Firmware Activation Requires Conventional Reset";
    INVALID_QUEUE_DELETION = 1, 0x0c, "Invalid Queue Deletion";
    FEATURE_NOT_SAVEABLE = 1, 0x0d, "Feature Identifier Not Saveable";
    FEATURE_NOT_CHANGEABLE = 1, 0x0e, "Feature Not Changeable";
    FEATURE_NOT_PER_NAMESPACE = 1, 0x0f, "Feature Not Namespace Specific";
    FIRMWARE_NEEDS_SUBSYSTEM_RESET = 1, 0x10, "Firmware Activation Requires NVM Subsystem Reset";
    FIRMWARE_NEEDS_CONTROLLER_RESET = 1, 0x11, "Firmware Activation Requires Controller Level Reset";
    FIRMWARE_PROHIBITED = 1, 0x13, "Firmware Activation Prohibited";
    OVERLAPPING_RANGE = 1, 0x14, "Overlapping Range";
    NAMESPACE_INSUFFICIENT_CAPACITY = 1, 0x15, "Namespace Insufficient Capacity";
    NAMESPACE_ID_UNAVAILABLE = 1, 0x16, "Namespace Identifier Unavailable";
    NAMESPACE_ALREADY_ATTACHED = 1, 0x18, "Namespace Already Attached";
    NAMESPACE_IS_PRIVATE = 1, 0x19, "Namespace Is Private";
    NAMESPACE_NOT_ATTACHED = 1, 0x1a, "Namespace Not Attached";
    THIN_PROVISIONING_NOT_SUPPORTED = 1, 0x1b, "Thin Provisioning Not Supported";
    CONTROLLER_LIST_INVALID = 1, 0x1c, "Controller List Invalid";
    SELF_TEST_IN_PROGRESS = 1, 0x1d, "Device Self-test In Progress";
    INVALID_CONTROLLER_ID = 1, 0x1f, "Invalid Controller Identifier";
    ATTACHMENT_LIMIT_EXCEEDED = 1, 0x27, "Namespace Attachment Limit Exceeded";
    COMMAND_SET_NOT_SUPPORTED = 1, 0x29, "I/O Command Set Not Supported";
    COMMAND_SET_NOT_ENABLED = 1, 0x2a, "I/O Command Set Not Enabled";
    COMMAND_SET_COMBINATION_REJECTED = 1, 0x2b, "I/O Command Set Combination Rejected";
    INVALID_COMMAND_SET = 1, 0x2c, "Invalid I/O Command Set";
    IDENTIFIER_UNAVAILABLE = 1, 0x2d, "Identifier Unavailable";
    CONFLICTING_ATTRIBUTES = 1, 0x80, "Conflicting Attributes";
    INVALID_PROTECTION_INFORMATION = 1, 0x81, "Invalid Protection Information";
    WRITE_TO_READ_ONLY_RANGE = 1, 0x82, "Attempted Write to Read Only Range";
    COMMAND_SIZE_LIMIT_EXCEEDED = 1, 0x83, "Command Size Limit Exceeded";
    INCOMPATIBLE_NAMESPACE = 1, 0x85, "Incompatible Namespace or Format";
    FAST_COPY_NOT_POSSIBLE = 1, 0x86, "Fast Copy Not Possible";
    OVERLAPPING_IO_RANGE = 1, 0x87, "Overlapping I/O Range";
    NAMESPACE_NOT_REACHABLE = 1, 0x88, "Namespace Not Reachable";
    INSUFFICIENT_RESOURCES = 1, 0x89, "Insufficient Resources";
    INSUFFICIENT_PROGRAM_RESOURCES = 1, 0x8a, "Insufficient Program Resources";
    INVALID_MEMORY_NAMESPACE = 1, 0x8b, "Invalid Memory Namespace";
    INVALID_MEMORY_RANGE_SET = 1, 0x8c, "Invalid Memory Range Set";
    INVALID_MEMORY_RANGE_SET_ID = 1, 0x8d, "Invalid Memory Range Set Identifier";
    INVALID_PROGRAM_DATA = 1, 0x8e, "Invalid Program Data";
    INVALID_PROGRAM_INDEX = 1, 0x8f, "Invalid Program Index";
    INVALID_PROGRAM_TYPE = 1, 0x90, "Invalid Program Type";
    MEMORY_RANGES_EXCEEDED = 1, 0x91, "Maximum Memory Ranges Exceeded";
    MEMORY_RANGE_SETS_EXCEEDED = 1, 0x92, "Maximum Memory Range Sets Exceeded";
    PROGRAMS_ACTIVATED_EXCEEDED = 1, 0x93, "Maximum Programs Activated";
    PROGRAM_BYTES_EXCEEDED = 1, 0x94, "Maximum Program Bytes Exceeded";
    MEMORY_RANGE_SET_IN_USE = 1, 0x95, "Memory Range Set In Use";
    NO_PROGRAM = 1, 0x96, "No Program";
    OVERLAPPING_MEMORY_RANGES = 1, 0x97, "Overlapping Memory Ranges";
    PROGRAM_NOT_ACTIVATED = 1, 0x98, "Program Not Activated";
    PROGRAM_IN_USE = 1, 0x99, "Program In Use";
    PROGRAM_INDEX_NOT_DOWNLOADABLE = 1, 0x9a, "Program Index Not Downloadable";
    PROGRAM_TOO_BIG = 1, 0x9b, "Program Too Big";

    WRITE_FAULT = 2, 0x80, "Write Fault";
    UNRECOVERED_READ_ERROR = 2, 0x81, "Unrecovered Read Error";
    GUARD_CHECK_ERROR = 2, 0x82, "End-to-end Guard Check Error";
    APPLICATION_TAG_CHECK_ERROR = 2, 0x83, "End-to-end Application Tag Check Error";
    REFERENCE_TAG_CHECK_ERROR = 2, 0x84, "End-to-end Reference Tag Check Error";
    COMPARE_FAILURE = 2, 0x85, "Compare Failure";
    ACCESS_DENIED = 2, 0x86, "Access Denied";
    DEALLOCATED_OR_UNWRITTEN = 2, 0x87, "Deallocated or Unwritten Logical Block";

    INTERNAL_PATH_ERROR = 3, 0x00, "Internal Path Error";
    ANA_PERSISTENT_LOSS = 3, 0x01, "Asymmetric Access Persistent Loss";
    ANA_INACCESSIBLE = 3, 0x02, "Asymmetric Access Inaccessible";
    ANA_TRANSITION = 3, 0x03, "Asymmetric Access Transition";
    CONTROLLER_PATHING_ERROR = 3, 0x60, "Controller Pathing Error";
    HOST_PATHING_ERROR = 3, 0x70, "Host Pathing Error";
    ABORTED_BY_HOST = 3, 0x71, "Command Aborted By Host";

    PAYLOAD_UNKNOWN = 7, 0xc0, "Payload Unknown or Expired";
    PAYLOAD_LIMIT_EXCEEDED = 7, 0xc1, "Unfinished Payload Limit Exceeded";
    PAYLOAD_FRAGMENT_INVALID = 7, 0xc2, "Payload Fragment Invalid";
    QUERY_REFUSED = 7, 0xc3, "Query Refused";
    QUERY_FAILED = 7, 0xc4, "Query Failed";
    QUERY_LIMIT_EXCEEDED = 7, 0xc5, "Query Limit Exceeded";
    QUERY_OBJECT_CHANGED = 7, 0xc6, "Query Object Changed";
    QUERY_UNKNOWN = 7, 0xc7, "Query Unknown";
    QUERY_RESOURCES_EXCEEDED = 7, 0xc8, "Query Resources Exceeded";
    QUERY_NOT_BEGUN = 7, 0xc9, "Query Not Begun";
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn fields_come_back_from_their_bits() {
        let status = Status(0x4000 | 0x2000 | 2 << 11 | 2 << 8 | 0x81);
        assert_eq!((status.sct(), status.sc(), status.crd()), (2, 0x81, 2));
        assert!(status.more() && status.dnr());
        assert!(status.is(Status::UNRECOVERED_READ_ERROR));
        assert!(!status.is_success());
    }

    #[test]
    fn an_unknown_status_still_prints() {
        assert_eq!(Status::new(0, 0x7f).to_string(), "Unknown Status (0h/7fh)");
        assert_eq!(
            Status::INVALID_FIELD.with_dnr().to_string(),
            "Invalid Field in Command (0h/02h, do not retry)"
        );
    }
}
