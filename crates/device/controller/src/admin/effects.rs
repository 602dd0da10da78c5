//! Commands Supported and Effects (log page 05h), a page for each command set, and the same of features (12h). Linux
//! drops a key-value namespace without the page of its set.

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::FeatureId;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::{Effects, EffectsLog, FeaturesLog, ManagementLog};
use byway_spec::kv::KvOpcode;
use byway_spec::memory::MemoryOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::programs::ProgramOpcode;
use byway_spec::vendor::VendorOpcode;
use zerocopy::{FromZeros, IntoBytes};

use super::context::Context;
use super::feature;
use super::transfers::EnabledTransfers;
use crate::error::CommandError;
use crate::opcode::FIRST_VENDOR_OPCODE;
use crate::query::command::{is_plan, is_query};

/// Supported; affects one namespace, as every I/O command.
const SUPPORTED: Effects = Effects::new().with_csupp(true).with_csp(Effects::SCOPE_NAMESPACE);
const CHANGES_DATA: Effects = SUPPORTED.with_lbcc(true);
const OF_CONTROLLER: Effects = SUPPORTED.with_csp(Effects::SCOPE_CONTROLLER);
/// Linux scans namespaces again after a command that changes the inventory.
const CHANGES_INVENTORY: Effects = SUPPORTED.with_nic(true).with_csp(Effects::SCOPE_SUBSYSTEM);
/// No other command to the namespace may be outstanding.
const FORMATS: Effects = CHANGES_DATA.with_ncc(true).with_cse(1);

/// Affects the whole subsystem; no other command may be outstanding.
const SANITIZES: Effects = CHANGES_DATA.with_csp(Effects::SCOPE_SUBSYSTEM).with_cse(2);

const ADMIN: [(AdminOpcode, Effects); 19] = [
    (AdminOpcode::DELETE_SQ, OF_CONTROLLER),
    (AdminOpcode::CREATE_SQ, OF_CONTROLLER),
    (AdminOpcode::GET_LOG_PAGE, OF_CONTROLLER),
    (AdminOpcode::DELETE_CQ, OF_CONTROLLER),
    (AdminOpcode::CREATE_CQ, OF_CONTROLLER),
    (AdminOpcode::IDENTIFY, OF_CONTROLLER),
    (AdminOpcode::ABORT, OF_CONTROLLER),
    (AdminOpcode::SET_FEATURES, OF_CONTROLLER),
    (AdminOpcode::GET_FEATURES, OF_CONTROLLER),
    (AdminOpcode::ASYNC_EVENT_REQUEST, OF_CONTROLLER),
    (AdminOpcode::NAMESPACE_MANAGEMENT, CHANGES_INVENTORY),
    (AdminOpcode::NAMESPACE_ATTACHMENT, CHANGES_INVENTORY),
    (AdminOpcode::KEEP_ALIVE, OF_CONTROLLER),
    (AdminOpcode::DOORBELL_BUFFER_CONFIG, OF_CONTROLLER),
    (AdminOpcode::FORMAT_NVM, FORMATS),
    (AdminOpcode::SANITIZE, SANITIZES),
    (AdminOpcode::LOAD_PROGRAM, SUPPORTED),
    (AdminOpcode::PROGRAM_ACTIVATION, SUPPORTED),
    (AdminOpcode::MEMORY_RANGE_SET, SUPPORTED),
];

const NVM: [(NvmOpcode, Effects); 12] = [
    (NvmOpcode::FLUSH, SUPPORTED),
    (NvmOpcode::WRITE, CHANGES_DATA),
    (NvmOpcode::READ, SUPPORTED),
    (NvmOpcode::COMPARE, SUPPORTED),
    (NvmOpcode::WRITE_ZEROES, CHANGES_DATA),
    (NvmOpcode::DATASET_MANAGEMENT, CHANGES_DATA),
    (NvmOpcode::VERIFY, SUPPORTED),
    (NvmOpcode::COPY, CHANGES_DATA),
    (NvmOpcode::RESERVATION_REGISTER, SUPPORTED),
    (NvmOpcode::RESERVATION_REPORT, SUPPORTED),
    (NvmOpcode::RESERVATION_ACQUIRE, SUPPORTED),
    (NvmOpcode::RESERVATION_RELEASE, SUPPORTED),
];

const KV: [(KvOpcode, Effects); 10] = [
    (KvOpcode::FLUSH, SUPPORTED),
    (KvOpcode::STORE, CHANGES_DATA),
    (KvOpcode::RETRIEVE, SUPPORTED),
    (KvOpcode::LIST, SUPPORTED),
    (KvOpcode::DELETE, CHANGES_DATA),
    (KvOpcode::EXIST, SUPPORTED),
    (KvOpcode::RESERVATION_REGISTER, SUPPORTED),
    (KvOpcode::RESERVATION_REPORT, SUPPORTED),
    (KvOpcode::RESERVATION_ACQUIRE, SUPPORTED),
    (KvOpcode::RESERVATION_RELEASE, SUPPORTED),
];

const MEMORY: [(MemoryOpcode, Effects); 4] = [
    (MemoryOpcode::FILL, CHANGES_DATA),
    (MemoryOpcode::COPY, CHANGES_DATA),
    (MemoryOpcode::READ, SUPPORTED),
    (MemoryOpcode::WRITE, CHANGES_DATA),
];

/// The page of command set `csi`: of the commands known here, those that a controller has.
pub(super) fn page(
    csi: Csi,
    has_admin: impl Fn(AdminOpcode) -> bool,
    has_io: impl Fn(u8) -> bool,
) -> Result<Vec<u8>, CommandError> {
    let mut log = EffectsLog::new_zeroed();
    let admin = ADMIN.into_iter().filter(|(opcode, _)| has_admin(*opcode));
    fill(&mut log.admin, admin.map(|(opcode, effects)| (opcode.0, effects)));
    fill(&mut log.io, io_commands(csi)?.into_iter().filter(|(opcode, _)| has_io(*opcode)));
    Ok(log.as_bytes().to_vec())
}

fn io_commands(csi: Csi) -> Result<Vec<(u8, Effects)>, CommandError> {
    match csi {
        Csi::NVM => {
            let queries = VendorOpcode::ALL.iter().filter(|opcode| is_query(**opcode) && !is_plan(**opcode));
            let queries = queries.map(|opcode| (opcode.0, SUPPORTED));
            Ok(NVM.map(|(opcode, effects)| (opcode.0, effects)).into_iter().chain(queries).collect())
        }
        Csi::KV => {
            let vendor = VendorOpcode::ALL.iter().map(|opcode| (opcode.0, vendor_effects(*opcode)));
            Ok(KV.map(|(opcode, effects)| (opcode.0, effects)).into_iter().chain(vendor).collect())
        }
        Csi::SLM => Ok(MEMORY.map(|(opcode, effects)| (opcode.0, effects)).to_vec()),
        Csi::CP => Ok(vec![(ProgramOpcode::EXECUTE.0, CHANGES_DATA)]),
        _ => Err(CommandError::invalid_field("no such command set").at_byte(59)),
    }
}

fn vendor_effects(opcode: VendorOpcode) -> Effects {
    match opcode {
        VendorOpcode::KV_SCAN | VendorOpcode::KV_RETRIEVE_MANY | VendorOpcode::KV_EXEC => SUPPORTED,
        _ if is_query(opcode) => SUPPORTED,
        _ => CHANGES_DATA,
    }
}

/// The page of command set `csi`: commands that are not in it end with Invalid Command Opcode here.
pub(super) fn effects_page(
    cx: &Context<'_, '_>,
    transfers: EnabledTransfers,
    csi: Csi,
) -> Result<Vec<u8>, CommandError> {
    let has_admin = |opcode| has_admin_command(cx, opcode);
    page(csi, has_admin, |opcode| has_io_command(cx, transfers, csi, opcode))
}

/// Whether the controller has an admin command that the device knows. Over fabrics Connect makes queues, and no doorbells
/// are written.
pub(super) fn has_admin_command(cx: &Context<'_, '_>, opcode: AdminOpcode) -> bool {
    let (in_rings, options) = (!cx.is_fabric, cx.subsystem.options());
    match opcode {
        AdminOpcode::DELETE_SQ | AdminOpcode::CREATE_SQ | AdminOpcode::DELETE_CQ | AdminOpcode::CREATE_CQ => {
            in_rings
        }
        AdminOpcode::DOORBELL_BUFFER_CONFIG => in_rings && options.doorbell_buffers,
        AdminOpcode::FORMAT_NVM => options.namespace_management && !cx.registers.is_admin_only(),
        AdminOpcode::SANITIZE => options.namespace_management && !cx.subsystem.has_engines(),
        AdminOpcode::NAMESPACE_MANAGEMENT
        | AdminOpcode::NAMESPACE_ATTACHMENT
        | AdminOpcode::LOAD_PROGRAM
        | AdminOpcode::PROGRAM_ACTIVATION
        | AdminOpcode::MEMORY_RANGE_SET => options.namespace_management,
        _ => true,
    }
}

/// Whether every namespace of command set `csi` has an I/O command that the device knows.
fn has_io_command(cx: &Context<'_, '_>, transfers: EnabledTransfers, csi: Csi, opcode: u8) -> bool {
    if cx.registers.is_admin_only() || csi != Csi::NVM && !cx.registers.serves_all_sets() {
        return false;
    }
    let exported = cx.subsystem.engine_commands();
    match NvmOpcode(opcode) {
        _ if is_query(VendorOpcode(opcode)) => cx.subsystem.query_text_max_bytes() > 0,
        _ if opcode == VendorOpcode::KV_EXEC.0 => cx.subsystem.has_exec(),
        _ if opcode >= FIRST_VENDOR_OPCODE => transfers.has_command(VendorOpcode(opcode)),
        _ if csi != Csi::NVM => true,
        NvmOpcode::COMPARE => exported.compare,
        NvmOpcode::WRITE_ZEROES => exported.write_zeroes,
        NvmOpcode::DATASET_MANAGEMENT => exported.deallocate,
        NvmOpcode::VERIFY => exported.verify,
        NvmOpcode::COPY => exported.copy,
        _ => true,
    }
}

/// The page of features (12h): those of a namespace, and those of the controller.
pub(super) fn features_page(is_fabric: bool) -> Vec<u8> {
    let mut log = FeaturesLog::new_zeroed();
    for (fid, entry) in (0..=u8::MAX).zip(&mut log.features) {
        if let Some(capabilities) = feature::capabilities(FeatureId(fid), is_fabric) {
            *entry = if capabilities.per_namespace() { SUPPORTED } else { OF_CONTROLLER };
        }
    }
    log.as_bytes().to_vec()
}

/// The page of management interface commands (13h): there are none.
pub(super) fn management_page() -> Vec<u8> {
    ManagementLog::new_zeroed().as_bytes().to_vec()
}

fn fill(table: &mut [Effects; 256], rows: impl IntoIterator<Item = (u8, Effects)>) {
    for (opcode, effects) in rows {
        table[usize::from(opcode)] = effects;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_command_set_has_its_own_commands_beside_the_same_admin_commands() {
        let (nvm, kv) =
            (page(Csi::NVM, |_| true, |_| true).unwrap(), page(Csi::KV, |_| true, |_| true).unwrap());
        assert_eq!(nvm[..1024], kv[..1024]);
        let io = |page: &[u8], opcode: u8| page[1024 + usize::from(opcode) * 4];
        assert_eq!((io(&nvm, 0x02), io(&nvm, 0x01), io(&nvm, 0x06)), (1, 3, 0));
        assert_eq!((io(&kv, 0x02), io(&kv, 0x01), io(&kv, 0x06), io(&kv, 0x80)), (1, 3, 1, 3));
    }
}
