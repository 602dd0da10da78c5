//! Programs, and runs of them that can be interrupted.

use std::sync::Arc;

use byway_spec::programs::ProgramType;
use sha2::{Digest, Sha256};

use crate::builtin::{BuiltIn, Run};
use crate::ebpf::{Machine, Verified};
use crate::fault::Fault;
use crate::range::Ranges;
use crate::refusal::Refusal;
#[cfg(feature = "wasm")]
use crate::wasm;

/// Bytes of a SHA-256.
pub const SHA256_BYTES: usize = 32;

/// A program that was verified, or one of the device. It is in use while a clone of its `Arc` is held.
#[derive(Debug)]
pub struct Program {
    identifier: Option<u64>,
    size_bytes: u64,
    /// Of its bytes as loaded; none of a program of the device.
    sha256: Option<[u8; SHA256_BYTES]>,
    code: Code,
}

/// What a program consists of.
#[derive(Debug)]
enum Code {
    Ebpf(Verified),
    #[cfg(feature = "wasm")]
    Wasm(wasm::Verified),
    BuiltIn(BuiltIn),
}

/// Whether a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It goes on with the next call.
    Pending,
    /// The program returned this number.
    Done(u64),
}

impl Program {
    /// Verifies a program of a host.
    ///
    /// # Errors
    /// [`Refusal::InvalidProgramType`] and [`Refusal::InvalidProgram`].
    pub fn load(program_type: ProgramType, identifier: Option<u64>, bytes: &[u8]) -> Result<Self, Refusal> {
        let code = match program_type {
            ProgramType::EBPF => Code::Ebpf(Verified::load(bytes)?),
            #[cfg(feature = "wasm")]
            ProgramType::WASM => Code::Wasm(wasm::Verified::load(bytes)?),
            _ => return Err(Refusal::InvalidProgramType),
        };
        let sha256 = Some(Sha256::digest(bytes).into());
        Ok(Self { identifier, size_bytes: bytes.len() as u64, sha256, code })
    }

    /// A program of the device.
    #[must_use]
    pub const fn built_in(built_in: BuiltIn) -> Self {
        let identifier = Some(built_in.identifier());
        Self { identifier, size_bytes: 0, sha256: None, code: Code::BuiltIn(built_in) }
    }

    /// Whether programs of this type can be loaded.
    #[must_use]
    pub fn is_loadable(program_type: ProgramType) -> bool {
        program_type == ProgramType::EBPF || (program_type == ProgramType::WASM && cfg!(feature = "wasm"))
    }

    /// Its type.
    #[must_use]
    pub const fn program_type(&self) -> ProgramType {
        match self.code {
            Code::Ebpf(_) => ProgramType::EBPF,
            #[cfg(feature = "wasm")]
            Code::Wasm(_) => ProgramType::WASM,
            Code::BuiltIn(_) => ProgramType::BUILT_IN,
        }
    }

    /// The identifier that the host gave it, or the device.
    #[must_use]
    pub const fn identifier(&self) -> Option<u64> {
        self.identifier
    }

    /// Its size as loaded, in bytes; 0 for a program of the device.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether a run can be interrupted. One that cannot takes about 2 ms at most.
    #[must_use]
    pub const fn is_interruptible(&self) -> bool {
        !matches!(self.code, Code::BuiltIn(BuiltIn::Decompress))
    }

    /// What making the state of a run takes, in steps of about 3 ns.
    #[must_use]
    pub const fn start_steps(&self) -> u64 {
        match &self.code {
            #[cfg(feature = "wasm")]
            Code::Wasm(program) => program.start_steps(),
            Code::Ebpf(_) | Code::BuiltIn(_) => START_STEPS,
        }
    }

    /// Steps that may pass before the clock is read again. Each may touch memory that the kernel has still to give, which takes
    /// as long as 100 steps. A module of WebAssembly has its memory already, and is costly to interrupt.
    const fn steps_between_clock_reads(&self) -> u64 {
        match self.code {
            #[cfg(feature = "wasm")]
            Code::Wasm(_) => 4096,
            Code::Ebpf(_) | Code::BuiltIn(_) => 256,
        }
    }

    /// SHA-256 of its bytes as loaded; `None` of a program of the device.
    #[must_use]
    pub const fn sha256(&self) -> Option<&[u8; SHA256_BYTES]> {
        self.sha256.as_ref()
    }

    /// The program, if it is one of the device.
    #[must_use]
    pub const fn as_built_in(&self) -> Option<BuiltIn> {
        match self.code {
            Code::BuiltIn(built_in) => Some(built_in),
            _ => None,
        }
    }
}

/// What the state of a run takes that allocates a stack at most: about 0.1 µs.
const START_STEPS: u64 = 32;

/// A run of a program over ranges.
#[derive(Debug)]
pub struct Execution {
    program: Arc<Program>,
    state: State,
    steps_left: u64,
}

#[derive(Debug)]
enum State {
    Ebpf(Machine),
    #[cfg(feature = "wasm")]
    Wasm(wasm::Run),
    BuiltIn(Run),
}

impl Execution {
    /// A run of `program` over `ranges`, with two parameters, that ends after `steps_max` steps. A step is an instruction, about one in
    /// WebAssembly; for a program of the device it is 8 to 64 bytes, of a record or of what is checked.
    #[must_use]
    pub fn new(program: Arc<Program>, ranges: &Ranges, parameters: [u64; 2], steps_max: u64) -> Self {
        let lengths = ranges.as_slice().iter().map(|range| range.length_bytes()).collect();
        Self::over(program, lengths, parameters, steps_max)
    }

    /// The same over ranges of these lengths in bytes.
    pub(crate) fn over(
        program: Arc<Program>,
        lengths: Vec<u32>,
        parameters: [u64; 2],
        steps_max: u64,
    ) -> Self {
        let state = match &program.code {
            Code::Ebpf(_) => State::Ebpf(Machine::new(lengths.into_iter(), parameters)),
            #[cfg(feature = "wasm")]
            Code::Wasm(_) => State::Wasm(wasm::Run::new(lengths, parameters)),
            Code::BuiltIn(built_in) => State::BuiltIn(Run::new(*built_in, parameters)),
        };
        Self { program, state, steps_left: steps_max }
    }

    /// Runs about `steps` steps. `ranges` are the bytes of the ranges that the run began with, in their order.
    ///
    /// # Errors
    /// [`Fault`]: the run is over, without a result.
    pub fn advance(&mut self, ranges: &mut [&mut [u8]], steps: u64) -> Result<Progress, Fault> {
        let given = steps.min(self.steps_left);
        let mut left = given;
        let advanced = match (&self.program.code, &mut self.state) {
            (Code::Ebpf(program), State::Ebpf(machine)) => machine.advance(program, ranges, &mut left),
            #[cfg(feature = "wasm")]
            (Code::Wasm(program), State::Wasm(run)) => run.advance(program, ranges, &mut left),
            (_, State::BuiltIn(run)) => run.advance(ranges, &mut left),
            // The state is made for the code.
            _ => Err(Fault::Trap),
        };
        // How many steps a run made that was stopped is not known.
        self.steps_left -= if advanced.is_ok() { given - left } else { given };
        match advanced? {
            Progress::Pending if self.steps_left == 0 => Err(Fault::Limit),
            progress => Ok(progress),
        }
    }

    /// As [`advance`](Self::advance), and no longer than `has_time` says, which is asked every few microseconds.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn advance_while(
        &mut self,
        ranges: &mut [&mut [u8]],
        steps: u64,
        has_time: impl Fn() -> bool,
    ) -> Result<Progress, Fault> {
        let most = self.program.steps_between_clock_reads();
        let mut left = steps;
        loop {
            let slice = left.min(most);
            left -= slice;
            match self.advance(ranges, slice)? {
                Progress::Pending if left > 0 && has_time() => {}
                progress => return Ok(progress),
            }
        }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Steps that it may still make.
    #[must_use]
    pub const fn steps_left(&self) -> u64 {
        self.steps_left
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn finish(mut self, ranges: &mut [&mut [u8]]) -> Result<u64, Fault> {
        loop {
            if let Progress::Done(value) = self.advance(ranges, u64::MAX)? {
                return Ok(value);
            }
        }
    }
}
