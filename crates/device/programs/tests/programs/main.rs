//! Programs, from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

mod assembler;
mod built_in;
mod ebpf;
mod object;
mod random;
#[cfg(feature = "wasm")]
mod wasm;

use std::sync::Arc;

use byway_programs::{Execution, Fault, Memory, Program, RangeLimits, Ranges, Refusal};
use byway_spec::programs::{MemoryRangeDescriptor, ProgramType};

/// A memory with `bytes`, padded to dwords, and one range for each length, one behind the other.
fn memory(bytes: &[u8], lengths: &[u32]) -> (Memory, Ranges) {
    let mut padded = bytes.to_vec();
    let size_bytes = lengths.iter().sum::<u32>().max(bytes.len() as u32).next_multiple_of(4).max(4);
    padded.resize(size_bytes as usize, 0);
    let mut memory = Memory::new(size_bytes.into()).unwrap();
    memory.write(0, &padded).unwrap();
    let mut start = 0;
    let descriptors: Vec<_> = lengths
        .iter()
        .map(|&length_bytes| {
            let descriptor = MemoryRangeDescriptor { nsid: 1, length_bytes, start, ..Default::default() };
            start += u64::from(length_bytes);
            descriptor
        })
        .collect();
    let ranges = Ranges::check(&descriptors, &RangeLimits::default(), |_| Some(size_bytes.into())).unwrap();
    (memory, ranges)
}

/// Runs a program, `quantum` steps at a time, at most `steps_max` in all.
fn run_by(
    program: Program,
    (memory, ranges): (&mut Memory, &Ranges),
    parameters: [u64; 2],
    (quantum, steps_max): (u64, u64),
) -> Result<u64, Fault> {
    let mut execution = Execution::new(Arc::new(program), ranges, parameters, steps_max);
    loop {
        let mut slices = ranges.borrow([(1, &mut *memory)]).unwrap();
        if let byway_programs::Progress::Done(value) = execution.advance(&mut slices, quantum)? {
            return Ok(value);
        }
    }
}

/// The pool of threads that runs long programs takes them over.
const fn is_send<T: Send>() {}
const _: () = is_send::<Execution>();

fn load(bytes: &[u8]) -> Result<Program, Refusal> {
    Program::load(ProgramType::EBPF, None, bytes)
}
