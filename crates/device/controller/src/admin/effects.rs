//! Commands Supported and Effects (log page 05h), a page for each command set. Linux drops a key-value namespace
//! without the page of its set.

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::{Effects, EffectsLog};
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::VendorOpcode;
use zerocopy::{FromZeros, IntoBytes};

use crate::error::CommandError;

const SUPPORTED: Effects = Effects::new().with_csupp(true);
const CHANGES_DATA: Effects = SUPPORTED.with_lbcc(true);
/// Linux scans namespaces again after a command that changes the inventory.
const CHANGES_INVENTORY: Effects = SUPPORTED.with_nic(true);
/// Alone in its namespace, as no other command may be outstanding while it is formatted.
const FORMATS: Effects = CHANGES_DATA.with_ncc(true).with_cse(1);

const ADMIN: [(AdminOpcode, Effects); 15] = [
    (AdminOpcode::DELETE_SQ, SUPPORTED),
    (AdminOpcode::CREATE_SQ, SUPPORTED),
    (AdminOpcode::GET_LOG_PAGE, SUPPORTED),
    (AdminOpcode::DELETE_CQ, SUPPORTED),
    (AdminOpcode::CREATE_CQ, SUPPORTED),
    (AdminOpcode::IDENTIFY, SUPPORTED),
    (AdminOpcode::ABORT, SUPPORTED),
    (AdminOpcode::SET_FEATURES, SUPPORTED),
    (AdminOpcode::GET_FEATURES, SUPPORTED),
    (AdminOpcode::ASYNC_EVENT_REQUEST, SUPPORTED),
    (AdminOpcode::NAMESPACE_MANAGEMENT, CHANGES_INVENTORY),
    (AdminOpcode::NAMESPACE_ATTACHMENT, CHANGES_INVENTORY),
    (AdminOpcode::KEEP_ALIVE, SUPPORTED),
    (AdminOpcode::DOORBELL_BUFFER_CONFIG, SUPPORTED),
    (AdminOpcode::FORMAT_NVM, FORMATS),
];

const NVM: [(NvmOpcode, Effects); 8] = [
    (NvmOpcode::FLUSH, SUPPORTED),
    (NvmOpcode::WRITE, CHANGES_DATA),
    (NvmOpcode::READ, SUPPORTED),
    (NvmOpcode::COMPARE, SUPPORTED),
    (NvmOpcode::WRITE_ZEROES, CHANGES_DATA),
    (NvmOpcode::DATASET_MANAGEMENT, CHANGES_DATA),
    (NvmOpcode::VERIFY, SUPPORTED),
    (NvmOpcode::COPY, CHANGES_DATA),
];

const KV: [(KvOpcode, Effects); 6] = [
    (KvOpcode::FLUSH, SUPPORTED),
    (KvOpcode::STORE, CHANGES_DATA),
    (KvOpcode::RETRIEVE, SUPPORTED),
    (KvOpcode::LIST, SUPPORTED),
    (KvOpcode::DELETE, CHANGES_DATA),
    (KvOpcode::EXIST, SUPPORTED),
];

/// The page of command set `csi`.
pub(super) fn page(csi: Csi) -> Result<Vec<u8>, CommandError> {
    let mut log = EffectsLog::new_zeroed();
    fill(&mut log.admin, ADMIN.map(|(opcode, effects)| (opcode.0, effects)));
    match csi {
        Csi::NVM => fill(&mut log.io, NVM.map(|(opcode, effects)| (opcode.0, effects))),
        Csi::KV => {
            fill(&mut log.io, KV.map(|(opcode, effects)| (opcode.0, effects)));
            fill(&mut log.io, VendorOpcode::ALL.iter().map(|opcode| (opcode.0, CHANGES_DATA)));
        }
        _ => return Err(CommandError::invalid_field("no such command set").at_byte(59)),
    }
    Ok(log.as_bytes().to_vec())
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
        let (nvm, kv) = (page(Csi::NVM).unwrap(), page(Csi::KV).unwrap());
        assert_eq!(nvm[..1024], kv[..1024]);
        let io = |page: &[u8], opcode: u8| page[1024 + usize::from(opcode) * 4];
        assert_eq!((io(&nvm, 0x02), io(&nvm, 0x01), io(&nvm, 0x06)), (1, 3, 0));
        assert_eq!((io(&kv, 0x02), io(&kv, 0x01), io(&kv, 0x06), io(&kv, 0x80)), (1, 3, 1, 3));
    }
}
