//! Runs a verified program, a bounded number of instructions at a time.

use byway_sys::checksum::crc32c_append;

use super::access::{STACK, Space, TABLE_ADDRESS, table};
use super::instruction::{FRAME_POINTER, Helper, Instruction, Register, Source};
use super::{Verified, arithmetic};
use crate::fault::Fault;
use crate::program::Progress;

/// Most functions that are entered at a time, the program itself included.
pub const CALL_DEPTH_MAX: usize = 8;

/// Bytes of the stack of one function.
const STACK_BYTES: usize = 512;

/// Bytes that a helper works on in the time of one instruction.
const BYTES_PER_STEP: u64 = 32;

/// A power of two above the number of registers: an index below it needs no check.
const REGISTERS: usize = 16;

/// What a function returns to: its caller's place and the registers that a call keeps, r6 to r9.
#[derive(Debug)]
struct Frame {
    back: usize,
    kept: [u64; 4],
}

/// The state of a run between two calls of [`advance`](Self::advance).
#[derive(Debug)]
pub(crate) struct Machine {
    registers: [u64; REGISTERS],
    next: usize,
    frames: Vec<Frame>,
    stack: Vec<u8>,
    table: Vec<u8>,
    /// Steps that a helper took beyond its budget: they are taken off the next one.
    overrun: u64,
}

/// Where execution goes behind an instruction.
enum Flow {
    /// To the next one.
    Next,
    /// To the next one, behind a helper that took the time of this many more steps.
    NextAfter(u64),
    /// To the one at this index.
    Jump(usize),
    /// The program ends with this result.
    Return(u64),
}

impl Machine {
    /// A run from the first instruction, over ranges of these lengths in bytes.
    pub fn new(lengths: impl ExactSizeIterator<Item = u32>, parameters: [u64; 2]) -> Self {
        let mut registers = [0; REGISTERS];
        [registers[1], registers[2]] = [TABLE_ADDRESS, lengths.len() as u64];
        [registers[3], registers[4]] = parameters;
        registers[FRAME_POINTER as usize] = frame_pointer(1);
        let (frames, stack) = (Vec::new(), vec![0; STACK_BYTES]);
        Self { registers, next: 0, frames, stack, table: table(lengths), overrun: 0 }
    }

    /// Runs `steps` instructions, and takes them off. A helper at the end may take longer, which the next call makes up for.
    ///
    /// # Errors
    /// [`Fault`]: the run is over.
    pub fn advance(
        &mut self,
        program: &Verified,
        ranges: &mut [&mut [u8]],
        steps: &mut u64,
    ) -> Result<Progress, Fault> {
        self.charge_overrun(steps);
        // In variables of their own: through `self` each instruction would wait for what the last one stored.
        let (mut next, mut left) = (self.next, *steps);
        while left > 0 {
            // The verifier has made sure that execution stays within the program.
            let Some(instruction) = program.0.get(next) else { return Err(Fault::OutsideProgram) };
            left -= 1;
            match self.execute(instruction, next, ranges)? {
                Flow::Next => next += 1,
                Flow::Jump(target) => next = target,
                Flow::NextAfter(more) => {
                    next += 1;
                    self.overrun = more;
                    self.charge_overrun(&mut left);
                }
                Flow::Return(value) => {
                    *steps = left;
                    return Ok(Progress::Done(value));
                }
            }
        }
        (self.next, *steps) = (next, 0);
        Ok(Progress::Pending)
    }

    /// Takes the overrun off the budget, as far as that goes.
    fn charge_overrun(&mut self, steps: &mut u64) {
        let charged = self.overrun.min(*steps);
        self.overrun -= charged;
        *steps -= charged;
    }

    #[inline]
    fn execute(
        &mut self,
        instruction: &Instruction,
        at: usize,
        ranges: &mut [&mut [u8]],
    ) -> Result<Flow, Fault> {
        match *instruction {
            Instruction::Arithmetic { operation, width, to, source } => {
                let result = arithmetic::compute(operation, width, self.get(to), self.operand(source));
                self.set(to, result);
            }
            Instruction::JumpIf { comparison, width, left, right, target } => {
                if arithmetic::holds(comparison, width, self.get(left), self.operand(right)) {
                    return Ok(Flow::Jump(target as usize));
                }
            }
            Instruction::Load { size, is_signed, to, base, offset } => {
                let address = self.get(base).wrapping_add_signed(offset.into());
                let value = self.space(ranges).load(size, is_signed, address)?;
                self.set(to, value);
            }
            Instruction::Store { size, base, offset, source } => {
                let (address, value) =
                    (self.get(base).wrapping_add_signed(offset.into()), self.operand(source));
                self.space(ranges).store(size, address, value)?;
            }
            Instruction::LoadImmediate { to, value } => {
                self.set(to, value);
                return Ok(Flow::Jump(at + 2));
            }
            Instruction::Negate { width, to } => self.set(to, arithmetic::negate(width, self.get(to))),
            Instruction::ByteSwap { order, to } => self.set(to, arithmetic::byte_swap(order, self.get(to))),
            Instruction::Jump { target } => return Ok(Flow::Jump(target as usize)),
            Instruction::Call { target } => return self.call(at, target as usize),
            Instruction::CallHelper { helper: Helper::Crc32c } => return self.crc32c(ranges),
            Instruction::Exit => return Ok(self.exit()),
            Instruction::Second => {}
        }
        Ok(Flow::Next)
    }

    #[inline]
    const fn get(&self, register: Register) -> u64 {
        self.registers[register as usize % REGISTERS]
    }

    #[inline]
    const fn set(&mut self, register: Register, value: u64) {
        self.registers[register as usize % REGISTERS] = value;
    }

    #[inline]
    const fn operand(&self, source: Source) -> u64 {
        match source {
            Source::Register(register) => self.get(register),
            Source::Immediate(value) => value as i64 as u64,
        }
    }

    #[inline]
    fn space<'a, 'm>(&'a mut self, ranges: &'a mut [&'m mut [u8]]) -> Space<'a, 'm> {
        Space { stack: &mut self.stack, table: &self.table, ranges }
    }

    /// Enters a function with a stack of its own.
    fn call(&mut self, at: usize, target: usize) -> Result<Flow, Fault> {
        let depth = self.frames.len() + 2;
        if depth > CALL_DEPTH_MAX {
            return Err(Fault::Depth);
        }
        let kept = [6, 7, 8, 9].map(|register| self.registers[register]);
        self.frames.push(Frame { back: at + 1, kept });
        self.stack.resize(depth * STACK_BYTES, 0);
        self.set(FRAME_POINTER, frame_pointer(depth));
        Ok(Flow::Jump(target))
    }

    /// Leaves a function, or ends the program.
    fn exit(&mut self) -> Flow {
        let Some(Frame { back, kept }) = self.frames.pop() else { return Flow::Return(self.registers[0]) };
        self.registers[6..10].copy_from_slice(&kept);
        let depth = self.frames.len() + 1;
        self.stack.truncate(depth * STACK_BYTES);
        self.set(FRAME_POINTER, frame_pointer(depth));
        Flow::Jump(back)
    }

    fn crc32c(&mut self, ranges: &mut [&mut [u8]]) -> Result<Flow, Fault> {
        let (address, bytes, seed) = (self.get(1), self.get(2), self.get(3));
        let crc = crc32c_append(seed as u32, self.space(ranges).bytes(address, bytes)?);
        self.set(0, crc.into());
        Ok(Flow::NextAfter(bytes / BYTES_PER_STEP))
    }
}

/// The end of the stack of the function at a depth, counted from 1. Stacks grow down.
const fn frame_pointer(depth: usize) -> u64 {
    STACK << 32 | (depth * STACK_BYTES) as u64
}
