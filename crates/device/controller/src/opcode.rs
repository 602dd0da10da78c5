//! Properties of opcodes that are the same in every namespace.

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::reservation::ReservationOpcode;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::VendorOpcode;

use crate::query::command::is_query;
use crate::reservation::Access;

/// I/O opcodes from here on are vendor specific.
pub(crate) const FIRST_VENDOR_OPCODE: u8 = 0x80;

/// Bit for each reservation opcode.
const RESERVATION_OPCODES: u64 = {
    let (mut bits, mut at) = (0, 0);
    while at < ReservationOpcode::ALL.len() {
        bits |= 1 << ReservationOpcode::ALL[at].0;
        at += 1;
    }
    bits
};

/// Whether an I/O opcode is one of a reservation command.
#[inline]
pub(crate) const fn is_reservation(opcode: u8) -> bool {
    opcode < 64 && RESERVATION_OPCODES >> opcode & 1 != 0
}

/// Whether a command changes what the device keeps: data, the inventory of namespaces, or access to them.
pub(crate) fn changes(is_admin: bool, opcode: u8) -> bool {
    if is_admin {
        return [AdminOpcode::FORMAT_NVM, AdminOpcode::NAMESPACE_MANAGEMENT]
            .map(|known| known.0)
            .contains(&opcode);
    }
    access(opcode) != Access::Read && opcode != ReservationOpcode::REPORT.0
}

/// Whether an admin command only reports: what commands of other queues rest on stays as it is. Hosts send such commands all the time,
/// Keep Alive above all.
#[must_use]
pub fn admin_only_reports(opcode: u8) -> bool {
    const REPORTS: [AdminOpcode; 5] = [
        AdminOpcode::KEEP_ALIVE,
        AdminOpcode::ASYNC_EVENT_REQUEST,
        AdminOpcode::IDENTIFY,
        AdminOpcode::GET_FEATURES,
        AdminOpcode::GET_LOG_PAGE,
    ];
    REPORTS.contains(&AdminOpcode(opcode))
}

/// How an I/O command accesses its namespace. Opcodes of one value mean the same kind of access in every command set.
#[inline]
pub(crate) const fn access(opcode: u8) -> Access {
    match opcode {
        RETRIEVE_OR_READ | COMPARE | VERIFY | LIST | EXIST | SCAN | RETRIEVE_MANY | EXEC => Access::Read,
        _ if is_query(VendorOpcode(opcode)) => Access::Read,
        _ => Access::Write,
    }
}

const RETRIEVE_OR_READ: u8 = NvmOpcode::READ.0;
const COMPARE: u8 = NvmOpcode::COMPARE.0;
const VERIFY: u8 = NvmOpcode::VERIFY.0;
const LIST: u8 = KvOpcode::LIST.0;
const EXIST: u8 = KvOpcode::EXIST.0;
const SCAN: u8 = VendorOpcode::KV_SCAN.0;
const EXEC: u8 = VendorOpcode::KV_EXEC.0;
const RETRIEVE_MANY: u8 = VendorOpcode::KV_RETRIEVE_MANY.0;
