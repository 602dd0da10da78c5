//! Commands about queries, memory, programs and programs over values, most of them nearly in order: any text, any program, any piece of one, any range.
//!
//! What holds for `controller` holds here, and a reset ends every query.

use std::collections::{BTreeMap, BTreeSet};

use byway_controller::{Allowed, ProgramRunner};
use byway_programs::{BuiltIn, Program};
use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, NamespaceCdw11};
use byway_spec::base::identify::Csi;
use byway_spec::kv::KvOpcode;
use byway_spec::memory::{MemoryCopyCdw12, MemoryOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::programs::{
    ExecuteCdw2, LoadProgramCdw10, ProgramActivationCdw10, ProgramOpcode, ProgramType, RangeSetCdw10,
};
use byway_spec::vendor::{BlockObject, ExecFields, PlanFields, QueryCdw11, VendorOpcode};

use crate::answers::Answers;
use crate::controller;
use crate::input::Input;
use crate::machine::{DATA, ENTRIES, KV, Machine, NVM};

/// Namespace of memory.
const MEMORY: u32 = 3;
/// Namespace of programs.
const PROGRAMS: u32 = 4;
/// Bytes of that memory.
const MEMORY_BYTES: u64 = 64 << 10;
/// Things done in one input, at most.
const ACTIONS_MAX: usize = 200;
/// First index that is not one of the device's programs.
const FREE: u16 = 5;
/// The key of the object that is there from the beginning.
const KEY: &[u8; 8] = &[0, 0, 0, 0, 0, 0, 0, 7];

/// `r0 = r3; r0 += r4; exit`: the sum of the parameters.
const SUM: [u8; 24] = [0xbf, 0x30, 0, 0, 0, 0, 0, 0, 0x0f, 0x40, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
/// `goto -1; exit`.
const LOOP: [u8; 16] = [0x05, 0, 0xff, 0xff, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// Stands for a thread that advances programs.
struct Steps;

impl ProgramRunner for Steps {
    fn wake(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

/// Programs that may run over values: some of the device, and both of hosts.
fn allowed() -> impl Iterator<Item = Allowed> {
    let built_in = [BuiltIn::Filter, BuiltIn::Crc32c, BuiltIn::Decompress].map(Allowed::BuiltIn);
    let loaded = [&SUM[..], &LOOP].map(|bytes| {
        let program = Program::load(ProgramType::EBPF, None, bytes).expect("a sound program");
        Allowed::Sha256(*program.sha256().expect("a program of a host"))
    });
    built_in.into_iter().chain(loaded)
}

/// A command that was completed: whether it is an admin command, its opcode and namespace, and whether it succeeded.
pub type Completed = (bool, u8, u32, bool);

/// A device under an input, and what it has completed.
struct Subject {
    machine: Machine,
    answers: Answers,
    submitted: BTreeMap<u16, Completed>,
    completed: BTreeSet<Completed>,
}

/// Drives a controller by `bytes`.
pub fn compute_commands(bytes: &[u8]) {
    drive(bytes);
}

/// Drives a controller by `bytes`; what it has completed.
pub fn drive(bytes: &[u8]) -> BTreeSet<Completed> {
    let mut input = Input::new(bytes);
    let mut subject = Subject::new();
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        subject.act(&mut input);
    }
    subject.machine.run_on();
    subject.machine.check_bounds();
    subject.machine.check_usable();
    assert_eq!(subject.answers.open(), 0, "a reset ends every query");
    subject.completed
}

impl Subject {
    fn new() -> Self {
        let answers = Answers::default();
        let mut machine = Machine::with_exec("gen4x4", allowed().collect());
        machine.subsystem.set_query_engine(answers.engine());
        machine.subsystem.set_program_runner(Box::new(Steps));
        machine.enable();
        machine.create_pair(1, ENTRIES);
        machine.enable_methods();
        let mut subject = Self { machine, answers, submitted: BTreeMap::new(), completed: BTreeSet::new() };
        subject.create(Csi::SLM, MEMORY, MEMORY_BYTES);
        subject.create(Csi::CP, PROGRAMS, 0);
        subject.store(KEY, &[0x5a; 300]);
        subject
    }

    /// Creates and attaches a namespace that is not in the image.
    fn create(&mut self, csi: Csi, nsid: u32, size_bytes: u64) {
        let mut make = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, 0);
        make.cdw11 = NamespaceCdw11::new().with_csi(csi.0).into_bits();
        let mut page = [0; 4096];
        page[..8].copy_from_slice(&size_bytes.to_le_bytes());
        self.send(0, make, &page);
        page = [0; 4096];
        page[0] = 1;
        self.send(0, Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, nsid), &page);
    }

    fn store(&mut self, key: &[u8], value: &[u8]) {
        let mut store = Command::new(KvOpcode::STORE.0, 0, KV);
        store.set_key(key);
        (store.cdw10, store.cdw11) = (value.len() as u32, key.len() as u32);
        self.send(1, store, value);
    }

    /// Executes a command that brings `bytes`, from the beginning of the host's data.
    fn send(&mut self, qid: u16, mut command: Command, bytes: &[u8]) {
        self.machine.write(DATA, bytes);
        command.set_prps(DATA, DATA + 4096);
        let cid = self.machine.submit(qid, command);
        self.submitted.insert(cid, (qid == 0, command.opcode(), command.nsid, false));
        self.machine.ring(qid);
        self.settle();
    }

    /// Lets the device run, and takes every completion.
    fn settle(&mut self) {
        self.machine.run();
        self.machine.answer();
        self.machine.run();
        for qid in [0, 1] {
            while let Some(entry) = self.machine.reap(qid) {
                let Some((is_admin, opcode, nsid, _)) = self.submitted.remove(&entry.cid) else { continue };
                self.completed.insert((is_admin, opcode, nsid, entry.status().is_success()));
            }
        }
    }

    fn act(&mut self, input: &mut Input<'_>) {
        match input.byte() % 26 {
            0 | 1 => self.load(input),
            2 => self.activate(input),
            3 => self.range_set(input),
            4 | 5 => self.execute(input),
            6 => self.memory(input),
            7 => self.copy(input),
            8 | 9 => self.begin(input),
            10 | 11 => self.results(input),
            12 => self.query(VendorOpcode::QUERY_WAIT, input),
            13 => self.query(VendorOpcode::QUERY_END, input),
            14 | 15 => self.write_plan(input),
            16 => self.get_result(input),
            17..=19 => self.advance(input),
            20 => self.change(input),
            21 => self.abort(input),
            22 => self.settle(),
            24 | 25 => self.exec(input),
            _ => controller::act(&mut self.machine, input),
        }
    }

    fn load(&mut self, input: &mut Input<'_>) {
        let program = match input.byte() % 4 {
            0 => SUM.to_vec(),
            1 => LOOP.to_vec(),
            _ => {
                let len = usize::from(input.byte());
                input.bytes(len).to_vec()
            }
        };
        let fields = input.byte();
        let program_type = input.one_of(&[ProgramType::EBPF, ProgramType::EBPF, ProgramType::WASM]);
        let mut load = Command::new(AdminOpcode::LOAD_PROGRAM.0, 0, namespace(PROGRAMS, input));
        let cdw10 = LoadProgramCdw10::new().with_pind(index(input)).with_ptype(program_type.0);
        let cdw10 = cdw10.with_sel(fields & 7 == 7).with_pit(fields >> 3 & 1);
        let middle = if fields & 16 == 0 { 0 } else { program.len() / 2 };
        load.cdw10 = cdw10.into_bits();
        load.cdw11 = if fields & 32 == 0 { program.len() as u32 } else { input.number() };
        for (offset, piece) in [(0, &program[..middle]), (middle, &program[middle..])] {
            (load.cdw14, load.cdw15) = (piece.len() as u32, offset as u32);
            if !piece.is_empty() {
                self.send(0, load, piece);
            }
        }
    }

    fn activate(&mut self, input: &mut Input<'_>) {
        let mut command = Command::new(AdminOpcode::PROGRAM_ACTIVATION.0, 0, namespace(PROGRAMS, input));
        let select = input.one_of(&[1, 1, 1, 0, 2]);
        command.cdw10 = ProgramActivationCdw10::new().with_pind(index(input)).with_sel(select).into_bits();
        self.send(0, command, &[]);
    }

    fn range_set(&mut self, input: &mut Input<'_>) {
        let mut command = Command::new(AdminOpcode::MEMORY_RANGE_SET.0, 0, namespace(PROGRAMS, input));
        let cdw10 = RangeSetCdw10::new().with_sel(input.one_of(&[0, 0, 0, 1, 2]));
        command.cdw10 = cdw10.with_rsid(u16::from(input.byte() % 4)).into_bits();
        let ranges = ranges(input);
        command.cdw11 = (ranges.len() / 32) as u32;
        self.send(0, command, &ranges);
    }

    fn execute(&mut self, input: &mut Input<'_>) {
        let set = u16::from(input.byte() % 4);
        let ranges = if set == 0 { ranges(input) } else { Vec::new() };
        let mut command = Command::new(ProgramOpcode::EXECUTE.0, 0, namespace(PROGRAMS, input));
        command.cdw2 = ExecuteCdw2::new().with_pind(index(input)).with_rsid(set).into_bits();
        (command.cdw3, command.mptr) = ((ranges.len() / 32) as u32, ranges.len() as u64);
        (command.cdw10, command.cdw12) = (input.number(), input.number());
        self.send(1, command, &ranges);
    }

    fn exec(&mut self, input: &mut Input<'_>) {
        let fields = input.byte();
        let key = if fields & 1 == 0 { &KEY[..] } else { input.bytes(usize::from(fields >> 3)) };
        let len = usize::from(input.byte());
        let key_bytes = if fields & 2 == 0 { key.len() as u16 } else { input.word() };
        let request = [&key_bytes.to_le_bytes()[..], key, input.bytes(len)].concat();
        let mut command = Command::new(VendorOpcode::KV_EXEC.0, 0, namespace(KV, input));
        let request_bytes = if fields & 4 == 0 { request.len() as u32 } else { input.number() };
        // Programs of hosts are loaded with the identifier 0.
        let operation = u32::from(input.byte() % 7);
        ExecFields { request_bytes, output_max_bytes: input.number(), operation }.write_to(&mut command);
        self.send(1, command, &request);
    }

    fn memory(&mut self, input: &mut Input<'_>) {
        let opcode = input.one_of(&[MemoryOpcode::FILL, MemoryOpcode::READ, MemoryOpcode::WRITE]);
        let mut command = Command::new(opcode.0, 0, namespace(MEMORY, input));
        let (start, length_bytes) = range(input);
        (command.cdw10, command.cdw11) = (start as u32, (start >> 32) as u32);
        command.cdw12 = length_bytes;
        let len = usize::from(input.byte());
        self.send(1, command, input.bytes(len));
    }

    fn copy(&mut self, input: &mut Input<'_>) {
        let mut command = Command::new(MemoryOpcode::COPY.0, 0, namespace(MEMORY, input));
        let (to, length_bytes) = range(input);
        (command.cdw2, command.cdw10, command.cdw11) = (length_bytes, to as u32, (to >> 32) as u32);
        let format = input.one_of(&[
            MemoryCopyCdw12::FORMAT_BLOCKS,
            MemoryCopyCdw12::FORMAT_BYTES,
            MemoryCopyCdw12::FORMAT_BLOCKS_WIDE_GUARD,
            0,
        ]);
        let ranges_z = input.byte() & 3;
        command.cdw12 = MemoryCopyCdw12::new().with_ranges_z(ranges_z).with_format(format).into_bits();
        let mut sources = Vec::new();
        for _ in 0..=ranges_z {
            let from = if format == MemoryCopyCdw12::FORMAT_BYTES { MEMORY } else { NVM };
            let (start, length_bytes) = range(input);
            sources.extend_from_slice(&u64::from(namespace(from, input)).to_le_bytes());
            sources.extend_from_slice(&start.to_le_bytes());
            let length = if from == NVM { length_bytes / 512 } else { length_bytes };
            sources.extend_from_slice(&u128::from(length).to_le_bytes());
        }
        self.send(1, command, &sources);
    }

    fn begin(&mut self, input: &mut Input<'_>) {
        let text = text(input);
        let fields = input.byte();
        let cdw11 = QueryCdw11::new()
            .with_format(fields & 3)
            .with_header(fields & 4 != 0)
            .with_explain(fields & 8 != 0);
        let mut command = Command::new(VendorOpcode::QUERY.0, 0, 0);
        if fields & 16 == 0 {
            command.nsid = namespace(KV, input);
            command.set_key(KEY);
            command.cdw11 = cdw11.with_key_len(if fields & 32 == 0 { 8 } else { input.byte() }).into_bits();
        } else {
            command.nsid = namespace(NVM, input);
            let (slba, len_bytes) = (u64::from(input.number() & 0x3f), u64::from(input.number()));
            BlockObject { slba, len_bytes }.write_to(&mut command);
            command.cdw11 = cdw11.into_bits();
        }
        command.cdw10 = if fields & 64 == 0 { text.len() as u32 } else { input.number() };
        self.send(1, command, &text);
    }

    fn results(&mut self, input: &mut Input<'_>) {
        let mut command = Command::new(VendorOpcode::QUERY_RESULTS.0, 0, 0);
        command.nsid = input.one_of(&[KV, KV, KV, NVM]);
        (command.cdw10, command.cdw11) = (input.number(), u32::from(input.byte() % 8));
        command.cdw12 = if input.byte() & 3 == 0 { input.number() } else { 0 };
        self.send(1, command, &[]);
    }

    fn query(&mut self, opcode: VendorOpcode, input: &mut Input<'_>) {
        let mut command = Command::new(opcode.0, 0, 0);
        command.nsid = input.one_of(&[KV, KV, KV, NVM]);
        command.cdw11 = u32::from(input.byte() % 8);
        self.send(1, command, &[]);
    }

    fn write_plan(&mut self, input: &mut Input<'_>) {
        let text = text(input);
        let fields = input.byte();
        let mut command = Command::new(VendorOpcode::WRITE_EXECUTION_PLAN.0, 0, namespace(KV, input));
        command.cdw3 = if fields & 7 == 7 { input.dword() } else { PlanFields::WRITE_FLAGS };
        command.cdw11 = if fields & 8 == 0 { 7 } else { input.number() };
        let plan = if fields & 16 == 0 { PlanFields::NEW_PLAN } else { u16::from(input.byte() % 8) };
        let has_more = fields & 32 != 0;
        (command.cdw10, command.cdw12) = (text.len() as u32, u32::from(plan) << 16);
        command.cdw13 = if fields & 64 == 0 { 0 } else { input.number() };
        command.cdw14 = if has_more { input.number() } else { text.len() as u32 };
        self.send(1, command, &text);
    }

    fn get_result(&mut self, input: &mut Input<'_>) {
        let mut command = Command::new(VendorOpcode::GET_RESULT.0, 0, namespace(KV, input));
        command.cdw3 = PlanFields::RESULT_FLAGS;
        (command.cdw10, command.cdw11) = (input.number(), u32::from(input.byte() % 8) << 16);
        command.cdw13 = if input.byte() & 3 == 0 { input.number() } else { 0 };
        self.send(1, command, &[]);
    }

    fn advance(&mut self, input: &mut Input<'_>) {
        let (number, step) = (usize::from(input.byte()), input.byte());
        self.machine.subsystem.advance_programs();
        self.answers.advance(&mut self.machine.subsystem, number, step);
        self.settle();
    }

    /// Changes an object that queries may read.
    fn change(&mut self, input: &mut Input<'_>) {
        match input.byte() % 4 {
            0 => self.store(KEY, &[1; 200]),
            1 => {
                let mut delete = Command::new(KvOpcode::DELETE.0, 0, KV);
                delete.set_key(KEY);
                delete.cdw11 = KEY.len() as u32;
                self.send(1, delete, &[]);
            }
            _ => {
                let mut write = Command::new(NvmOpcode::WRITE.0, 0, NVM);
                write.cdw10 = input.number() & 0x3f;
                self.send(1, write, &[2; 512]);
            }
        }
    }

    /// Aborts one of the commands that were not completed.
    fn abort(&mut self, input: &mut Input<'_>) {
        let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
        let number = usize::from(input.byte()) % self.submitted.len().max(1);
        let Some(cid) = self.submitted.keys().nth(number).copied() else { return };
        abort.cdw10 = u32::from(cid) << 16 | 1;
        self.send(0, abort, &[]);
    }
}

/// The namespace that a command is for, or one time in 16 another.
fn namespace(wanted: u32, input: &mut Input<'_>) -> u32 {
    match input.byte() {
        other @ 240.. => u32::from(other & 7),
        _ => wanted,
    }
}

/// A program of the device, one that a host may load, or any number.
fn index(input: &mut Input<'_>) -> u16 {
    match input.byte() {
        own @ 0..=79 => u16::from(own) % FREE,
        loaded @ 80..=239 => FREE + u16::from(loaded & 1),
        _ => input.word(),
    }
}

/// A range of memory: dwords inside it more often than not.
fn range(input: &mut Input<'_>) -> (u64, u32) {
    match input.byte() {
        0..=199 => (u64::from(input.byte()) * 16, u32::from(input.byte()) * 4),
        200..=229 => (MEMORY_BYTES - u64::from(input.word()), input.number()),
        _ => (input.qword(), input.dword()),
    }
}

/// Up to four ranges as data of a command.
fn ranges(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..input.byte() % 5 {
        let (start, length_bytes) = range(input);
        bytes.extend_from_slice(&namespace(MEMORY, input).to_le_bytes());
        bytes.extend_from_slice(&length_bytes.to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&[0; 16]);
    }
    bytes
}

/// A text: letters, or any bytes.
fn text(input: &mut Input<'_>) -> Vec<u8> {
    let len = usize::from(input.byte());
    if len & 1 == 0 { vec![b'x'; len] } else { input.bytes(len).to_vec() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn corpus_completes_every_command_with_success_and_with_an_error() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/compute_commands");
        let inputs = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        let completed: BTreeSet<Completed> = inputs.flat_map(|bytes| drive(&bytes)).collect();
        let admin =
            [AdminOpcode::LOAD_PROGRAM, AdminOpcode::PROGRAM_ACTIVATION, AdminOpcode::MEMORY_RANGE_SET];
        let memory = [MemoryOpcode::FILL, MemoryOpcode::COPY, MemoryOpcode::READ, MemoryOpcode::WRITE];
        let queries = [
            VendorOpcode::QUERY,
            VendorOpcode::QUERY_RESULTS,
            VendorOpcode::QUERY_WAIT,
            VendorOpcode::QUERY_END,
            VendorOpcode::WRITE_EXECUTION_PLAN,
            VendorOpcode::GET_RESULT,
        ];
        let queries = queries.into_iter().chain([VendorOpcode::KV_EXEC]);
        let wanted = admin.map(|opcode| (true, opcode.0, PROGRAMS)).into_iter();
        let wanted = wanted.chain(memory.map(|opcode| (false, opcode.0, MEMORY)));
        let wanted = wanted.chain(queries.map(|opcode| (false, opcode.0, KV)));
        let wanted =
            wanted.chain([(false, ProgramOpcode::EXECUTE.0, PROGRAMS), (false, VendorOpcode::QUERY.0, NVM)]);
        for (is_admin, opcode, nsid) in wanted {
            for is_success in [true, false] {
                let found = completed.contains(&(is_admin, opcode, nsid, is_success));
                assert!(
                    found,
                    "opcode {opcode:#04x} of namespace {nsid}, success {is_success}: {completed:x?}"
                );
            }
        }
    }
}
