//! Programs from a host, run over memory.

use std::sync::Arc;

use byway_programs::{Execution, Memory, Program, ProgramPart, RangeLimits, Ranges, SlotLimits, Slots};
use byway_spec::programs::{MemoryRangeDescriptor, ProgramType};

/// Bytes of the memory: a range of 64 bytes lies in the middle of it.
const MEMORY_BYTES: usize = 192;

/// Most instructions of a run.
const STEPS: u64 = 5000;

/// The first place for programs of hosts is behind those of the device.
const INDEX: u16 = 8;

/// The program as its two halves, loaded one after the other.
fn load_in_halves(program_type: ProgramType, bytes: &[u8]) -> Option<Arc<Program>> {
    let mut slots = Slots::new(SlotLimits::default());
    let size_bytes = u32::try_from(bytes.len()).ok()?;
    let middle = bytes.len() / 2;
    for (offset, bytes) in [(0, &bytes[..middle]), (middle as u32, &bytes[middle..])] {
        let part = ProgramPart { index: INDEX, program_type, identifier: None, size_bytes, offset, bytes };
        slots.load(&part).ok()?;
    }
    slots.activate(INDEX).ok()?;
    slots.program(INDEX).ok()
}

/// Runs a program, and checks that memory outside its range is as before.
fn run(program: Arc<Program>, quantum: u64) -> Option<()> {
    let mut memory = Memory::new(MEMORY_BYTES as u64).ok()?;
    memory.write(0, &[0xa5; MEMORY_BYTES]).ok()?;
    let range =
        MemoryRangeDescriptor { nsid: 1, length_bytes: 64, start: 64, ..MemoryRangeDescriptor::default() };
    let ranges = Ranges::check(&[range], &RangeLimits::default(), |_| Some(MEMORY_BYTES as u64)).ok()?;
    let mut execution = Execution::new(program, &ranges, [1, u64::MAX], STEPS);
    for _ in 0..=STEPS / quantum {
        let mut slices = ranges.borrow([(1, &mut memory)])?;
        if !matches!(execution.advance(&mut slices, quantum), Ok(byway_programs::Progress::Pending)) {
            break;
        }
    }
    let mut bytes = [0; MEMORY_BYTES];
    memory.read(0, &mut bytes).ok()?;
    assert!(bytes[..64] == [0xa5; 64] && bytes[128..] == [0xa5; 64], "a program wrote outside its range");
    Some(())
}

/// Any bytes as a program in eBPF.
pub fn ebpf(bytes: &[u8]) {
    program(ProgramType::EBPF, bytes);
}

/// Any bytes as a module of WebAssembly.
pub fn wasm(bytes: &[u8]) {
    program(ProgramType::WASM, bytes);
}

fn program(program_type: ProgramType, bytes: &[u8]) {
    if let Some(program) = load_in_halves(program_type, bytes) {
        run(Arc::clone(&program), 7);
        run(program, STEPS);
    }
}
