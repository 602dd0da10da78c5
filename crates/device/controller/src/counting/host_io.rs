//! I/O commands that SMART counts as reads and writes of the host, and the bytes that each moved.
//!
//! Read, Compare, Retrieve, List, Scan and Retrieve Many read; Write, Copy, Store and the commands of transfer methods write. A command counts
//! once even if it fails; its data counts if it succeeds: bytes that the host sent or received. Copy, Verify and Write Zeroes
//! move none. A command of an exported namespace counts when it begins.

use byway_flash::HostIo;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::VendorOpcode;

/// A command that SMART counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCommand {
    pub io: HostIo,
    /// Its data are the bytes that its pointer names, or that came with it.
    pub has_data: bool,
}

impl HostCommand {
    /// The command of an opcode. Block and key-value commands of one kind share their opcode.
    pub const fn of(opcode: u8) -> Option<Self> {
        const READ: u8 = NvmOpcode::READ.0;
        const COMPARE: u8 = NvmOpcode::COMPARE.0;
        const LIST: u8 = KvOpcode::LIST.0;
        const SCAN: u8 = VendorOpcode::KV_SCAN.0;
        const RETRIEVE_MANY: u8 = VendorOpcode::KV_RETRIEVE_MANY.0;
        const WRITE: u8 = NvmOpcode::WRITE.0;
        const COPY: u8 = NvmOpcode::COPY.0;
        const BULK_STORE: u8 = VendorOpcode::KV_BULK_STORE.0;
        const PIGGYBACK: u8 = VendorOpcode::KV_WRITE_PIGGYBACK.0;
        const PIGGYBACK_PT: u8 = VendorOpcode::KV_WRITE_PT.0;
        const CXL: u8 = VendorOpcode::KV_STORE_CXL.0;
        const CXL_PIGGYBACK: u8 = VendorOpcode::KV_STORE_CXL_PIGGYBACK.0;
        const PRP_TAIL: u8 = VendorOpcode::KV_STORE_PRP_TAIL.0;
        match opcode {
            READ | COMPARE | LIST | SCAN | RETRIEVE_MANY => Some(Self { io: HostIo::Read, has_data: true }),
            WRITE | BULK_STORE => Some(Self { io: HostIo::Write, has_data: true }),
            // Values in pieces are counted when they are whole.
            COPY | PIGGYBACK | PIGGYBACK_PT | CXL | CXL_PIGGYBACK | PRP_TAIL => {
                Some(Self { io: HostIo::Write, has_data: false })
            }
            _ => None,
        }
    }
}
