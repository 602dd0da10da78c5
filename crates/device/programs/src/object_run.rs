//! Runs of a program over one object: a copy of its bytes, an input, and room for an output.

use std::sync::Arc;

use crate::builtin::BuiltIn;
use crate::fault::Fault;
use crate::program::{Execution, Program, Progress};

/// Longest output in bytes.
pub const OUTPUT_MAX_BYTES: usize = 1 << 20;

/// Bytes of the input that holds the two parameters of a program of the device.
const PARAMETERS_BYTES: usize = 16;

/// A run of a program over an object.
///
/// A loaded program sees three ranges (the object, the input, room of [`OUTPUT_MAX_BYTES`] for the output), is given the number of bytes
/// that its host takes and 0, and returns the length of its output. A program of the device takes its two parameters from the input,
/// least significant byte first, each 0 for an empty input; a number that it returns is its output, in 8 bytes.
#[derive(Debug)]
pub struct ObjectRun {
    execution: Execution,
    sees: Sees,
    returns: Returns,
    object: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The ranges of a run.
#[derive(Debug, Clone, Copy)]
enum Sees {
    Object,
    ObjectAndOutput,
    All,
}

/// What the number says that a program returns.
#[derive(Debug, Clone, Copy)]
enum Returns {
    /// It is the output.
    Number,
    /// So many items of this many bytes each are the output.
    Items { bytes: u64 },
}

impl ObjectRun {
    /// A run over `object`, of whose output the host takes `taken_bytes`, that ends after `steps_max` steps.
    ///
    /// # Errors
    /// [`Fault::Parameter`] for an input that holds no parameters of a program of the device.
    pub fn new(
        program: Arc<Program>,
        object: Vec<u8>,
        input: Vec<u8>,
        taken_bytes: u32,
        steps_max: u64,
    ) -> Result<Self, Fault> {
        let (parameters, sees, returns) = match program.as_built_in() {
            None => ([taken_bytes.into(), 0], Sees::All, Returns::Items { bytes: 1 }),
            Some(built_in) => {
                let parameters = parameters_of(&input)?;
                let (sees, returns) = of_built_in(built_in, parameters);
                (parameters, sees, returns)
            }
        };
        let output = match sees {
            Sees::Object => Vec::new(),
            Sees::ObjectAndOutput | Sees::All => vec![0; OUTPUT_MAX_BYTES],
        };
        let (mut object, mut input, mut output) = (object, input, output);
        let ranges = ranges(sees, &mut object, &mut input, &mut output);
        let lengths = ranges.iter().map(|range| range.len() as u32).collect();
        let execution = Execution::over(program, lengths, parameters, steps_max);
        Ok(Self { execution, sees, returns, object, input, output })
    }

    /// Steps that it may still make.
    #[must_use]
    pub const fn steps_left(&self) -> u64 {
        self.execution.steps_left()
    }

    /// Runs about `steps` steps, and no longer than `has_time` says, which is asked every few microseconds. Gives the output once the program
    /// has ended.
    ///
    /// # Errors
    /// [`Fault`]: the run is over, without an output.
    pub fn advance_while(&mut self, steps: u64, has_time: impl Fn() -> bool) -> Result<Option<&[u8]>, Fault> {
        let Self { execution, sees, returns, object, input, output } = self;
        let mut ranges = ranges(*sees, object, input, output);
        let progress = execution.advance_while(&mut ranges, steps, has_time)?;
        let Progress::Done(value) = progress else { return Ok(None) };
        match *returns {
            Returns::Number => *output = value.to_le_bytes().to_vec(),
            Returns::Items { bytes } => {
                let len = value.checked_mul(bytes).filter(|len| *len <= output.len() as u64);
                output.truncate(len.ok_or(Fault::ResultTooLarge)? as usize);
            }
        }
        Ok(Some(output))
    }
}

fn ranges<'a>(
    sees: Sees,
    object: &'a mut [u8],
    input: &'a mut [u8],
    output: &'a mut [u8],
) -> Vec<&'a mut [u8]> {
    match sees {
        Sees::Object => vec![object],
        Sees::ObjectAndOutput => vec![object, output],
        Sees::All => vec![object, input, output],
    }
}

fn of_built_in(built_in: BuiltIn, [first, _]: [u64; 2]) -> (Sees, Returns) {
    match built_in {
        BuiltIn::Aggregate | BuiltIn::Crc32c | BuiltIn::Crc64 => (Sees::Object, Returns::Number),
        BuiltIn::Decompress => (Sees::ObjectAndOutput, Returns::Items { bytes: 1 }),
        // The bytes of a record are the low half of the first parameter.
        BuiltIn::Filter => (Sees::ObjectAndOutput, Returns::Items { bytes: first & u64::from(u32::MAX) }),
    }
}

fn parameters_of(input: &[u8]) -> Result<[u64; 2], Fault> {
    if input.is_empty() {
        return Ok([0; 2]);
    }
    if input.len() != PARAMETERS_BYTES {
        return Err(Fault::Parameter("the input of a program of the device is two parameters of 8 bytes"));
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (first, second) = input.split_at(PARAMETERS_BYTES / 2);
    Ok([number(first), number(second)])
}
