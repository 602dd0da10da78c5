//! I/O commands counted by opcode and by kind of data pointer: one increment on the hot path, summed up when read.

use byway_spec::Command;
use byway_spec::base::command::DataPointer;
use byway_spec::vendor::VendorOpcode;

/// The kind of a data pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pointer {
    Prp,
    Sgl,
    Inline,
    Reserved,
}

const POINTERS: usize = 4;
const OPCODES: usize = 256;

/// The opcode of a command and the kind of its data pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pointer: Pointer,
    opcode: u8,
}

impl Counted {
    /// Its opcode.
    #[inline]
    pub fn opcode(self) -> u8 {
        self.opcode
    }

    /// Of a command whose data moves by a transport's descriptor.
    pub(super) const fn of_transport(opcode: u8) -> Self {
        Self { pointer: Pointer::Sgl, opcode }
    }

    /// Of a command with its data in its capsule.
    pub(super) const fn of_inline(opcode: u8) -> Self {
        Self { pointer: Pointer::Inline, opcode }
    }

    /// Of a command that came with an inline payload, or without.
    #[inline]
    pub fn of(command: &Command, is_inline: bool) -> Self {
        let pointer = match command.cdw0.psdt() {
            DataPointer::Prp => Pointer::Prp,
            DataPointer::Sgl if is_inline => Pointer::Inline,
            DataPointer::Sgl | DataPointer::SglMetadata => Pointer::Sgl,
            DataPointer::Reserved => Pointer::Reserved,
        };
        Self { pointer, opcode: command.opcode() }
    }
}

/// Commands since the subsystem was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoCounters {
    counts: [[u64; OPCODES]; POINTERS],
}

impl Default for IoCounters {
    fn default() -> Self {
        Self { counts: [[0; OPCODES]; POINTERS] }
    }
}

impl IoCounters {
    /// Counts a command, whether or not it succeeds.
    #[inline]
    pub fn note(&mut self, counted: Counted) {
        self.note_many(counted, 1);
    }

    /// Counts commands that are the same.
    #[inline]
    pub fn note_many(&mut self, Counted { pointer, opcode }: Counted, commands: u64) {
        self.counts[pointer as usize][usize::from(opcode)] += commands;
    }

    /// Commands by kind of data pointer, each with its name. Only this shows which descriptors a host's kernel chose. Commands
    /// with a payload in their own dwords have no descriptor.
    pub fn payloads(&self) -> [(&'static str, u64); 6] {
        let in_dwords = |opcodes: [VendorOpcode; 2]| self.with_opcodes(&opcodes.map(|opcode| opcode.0));
        [
            ("prp", self.with_pointer(Pointer::Prp)),
            ("sgl", self.with_pointer(Pointer::Sgl)),
            ("inline", self.with_pointer(Pointer::Inline)),
            ("piggyback", in_dwords([VendorOpcode::KV_WRITE_PIGGYBACK, VendorOpcode::KV_TRANSFER])),
            ("piggyback_pt", in_dwords([VendorOpcode::KV_WRITE_PT, VendorOpcode::KV_TRANSFER_PT])),
            ("cxl", in_dwords([VendorOpcode::KV_STORE_CXL, VendorOpcode::KV_STORE_CXL_PIGGYBACK])),
        ]
    }

    fn with_opcodes(&self, opcodes: &[u8]) -> u64 {
        let of = |opcode: u8| self.counts.iter().map(move |row| row[usize::from(opcode)]);
        opcodes.iter().flat_map(|opcode| of(*opcode)).sum()
    }

    /// Of the commands that move data by their opcode (Base 2.1, section 3.3.3.1: its two lowest bits).
    fn with_pointer(&self, pointer: Pointer) -> u64 {
        let row = self.counts[pointer as usize].iter().enumerate();
        row.filter(|(opcode, _)| opcode & 3 != 0).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_spec::base::sgl::SglDescriptor;
    use byway_spec::kv::KvOpcode;
    use byway_spec::nvm::NvmOpcode;

    #[test]
    fn a_command_is_counted_by_its_descriptor_if_it_moves_data() {
        let mut counters = IoCounters::default();
        let mut store = Command::new(KvOpcode::STORE.0, 0, 1);
        counters.note(Counted::of(&store, false));
        counters.note(Counted::of(&Command::new(NvmOpcode::FLUSH.0, 0, 1), false));
        store.set_sgl1(SglDescriptor::data_block(4096, 64));
        counters.note(Counted::of(&store, false));
        counters.note(Counted::of(&store, true));
        counters.note(Counted::of(&store, true));
        counters.note(Counted::of(&Command::new(VendorOpcode::KV_TRANSFER_PT.0, 0, 1), false));
        let payloads = counters.payloads();
        let wanted =
            [("prp", 1), ("sgl", 1), ("inline", 2), ("piggyback", 0), ("piggyback_pt", 1), ("cxl", 0)];
        assert_eq!(payloads, wanted);
    }
}
