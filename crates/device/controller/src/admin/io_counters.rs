//! I/O commands of hosts, counted by opcode: one increment on the hot path, summed up when somebody asks.

use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::VendorOpcode;

/// Commands whose effect is to read. Block and key-value commands of one kind share their opcode.
const READS: [u8; 3] = [NvmOpcode::READ.0, NvmOpcode::COMPARE.0, KvOpcode::LIST.0];

/// Commands that write, each value once however many transfer commands it takes.
const WRITES: [u8; 8] = [
    NvmOpcode::WRITE.0,
    NvmOpcode::COPY.0,
    VendorOpcode::KV_WRITE_PIGGYBACK.0,
    VendorOpcode::KV_WRITE_PT.0,
    VendorOpcode::KV_STORE_CXL.0,
    VendorOpcode::KV_STORE_CXL_PIGGYBACK.0,
    VendorOpcode::KV_STORE_PRP_TAIL.0,
    VendorOpcode::KV_BULK_STORE.0,
];

/// Commands since the subsystem was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoCounters {
    by_opcode: [u64; 256],
}

impl Default for IoCounters {
    fn default() -> Self {
        Self { by_opcode: [0; 256] }
    }
}

impl IoCounters {
    /// A command came, whatever becomes of it.
    #[inline]
    pub fn note(&mut self, opcode: u8) {
        self.by_opcode[usize::from(opcode)] += 1;
    }

    /// Read commands.
    pub fn reads(&self) -> u64 {
        self.sum(&READS)
    }

    /// Write commands.
    pub fn writes(&self) -> u64 {
        self.sum(&WRITES)
    }

    fn sum(&self, opcodes: &[u8]) -> u64 {
        opcodes.iter().map(|opcode| self.by_opcode[usize::from(*opcode)]).sum()
    }
}
