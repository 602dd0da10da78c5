//! Whether a command moves data, by its opcode and its fields. The descriptor of a command that moves none is ignored, whatever
//! it says (Base 2.1, sections 5.1.11 and 5.1.25: Data Pointer), so this is asked first.

use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, SelectCdw10};
use byway_spec::base::command::Direction;
use byway_spec::base::feature::{FeatureCdw10, FeatureSelect};
use byway_spec::kv::KvOpcode;
use byway_spec::memory::MemoryOpcode;
use byway_spec::programs::{LoadProgramCdw10, RangeSetCdw10};

use crate::namespace::Namespace;
use crate::subsystem::Subsystem;

/// Whether an admin command moves data. Not for fabrics commands: their type says so.
#[must_use]
pub fn admin_moves_data(command: &Command) -> bool {
    let feature = FeatureCdw10::from_bits(command.cdw10);
    match AdminOpcode(command.opcode()) {
        AdminOpcode::GET_FEATURES => feature.fid().has_data() && feature.sel() != FeatureSelect::CAPABILITIES,
        AdminOpcode::SET_FEATURES => feature.fid().has_data(),
        AdminOpcode::NAMESPACE_MANAGEMENT => {
            SelectCdw10::from_bits(command.cdw10).sel() == SelectCdw10::CREATE
        }
        AdminOpcode::LOAD_PROGRAM => {
            LoadProgramCdw10::from_bits(command.cdw10).sel() == LoadProgramCdw10::LOAD && command.cdw14 != 0
        }
        AdminOpcode::MEMORY_RANGE_SET => {
            RangeSetCdw10::from_bits(command.cdw10).sel() == RangeSetCdw10::CREATE && command.cdw11 != 0
        }
        _ => has_direction(command),
    }
}

impl Subsystem {
    /// Whether an I/O command moves data: key-value commands may have a value or a buffer of 0 bytes.
    #[inline]
    pub fn io_moves_data(&self, command: &Command) -> bool {
        let is_empty = || {
            let opcode = KvOpcode(command.opcode());
            matches!(opcode, KvOpcode::STORE | KvOpcode::RETRIEVE | KvOpcode::LIST)
                && matches!(self.namespace(command.nsid), Some(Namespace::Kv(_)))
        };
        if self.is_volatile(command.nsid) {
            return has_direction(command) && self.moves_volatile_data(command);
        }
        has_direction(command) && (command.cdw10 != 0 || !is_empty())
    }
}

impl Subsystem {
    /// The same of a namespace of memory or programs: Execute Program may have no ranges.
    #[cold]
    fn moves_volatile_data(&self, command: &Command) -> bool {
        match self.namespace(command.nsid) {
            Some(Namespace::Programs(_)) => command.cdw3 != 0,
            _ => command.opcode() == MemoryOpcode::COPY.0 || command.cdw12 != 0,
        }
    }
}

#[inline]
fn has_direction(command: &Command) -> bool {
    command.direction() != Direction::None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(opcode: AdminOpcode, cdw10: u32) -> bool {
        let mut command = Command::new(opcode.0, 1, 0);
        command.cdw10 = cdw10;
        admin_moves_data(&command)
    }

    #[test]
    fn features_with_a_data_structure_move_data() {
        const TIMESTAMP: u32 = 0x0e;
        const NUMBER_OF_QUEUES: u32 = 0x07;
        const CAPABILITIES: u32 = 3 << 8;
        for opcode in [AdminOpcode::GET_FEATURES, AdminOpcode::SET_FEATURES] {
            assert!(admin(opcode, TIMESTAMP));
            assert!(!admin(opcode, NUMBER_OF_QUEUES));
        }
        assert!(!admin(AdminOpcode::GET_FEATURES, TIMESTAMP | CAPABILITIES));
    }

    #[test]
    fn namespace_management_moves_data_to_create() {
        assert!(admin(AdminOpcode::NAMESPACE_MANAGEMENT, 0));
        assert!(!admin(AdminOpcode::NAMESPACE_MANAGEMENT, 1));
    }
}
