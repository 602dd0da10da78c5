//! Programs in eBPF (RFC 9669), without maps, atomic operations and the legacy packet instructions.
//!
//! [`decode`] turns each instruction into an [`Instruction`](instruction::Instruction), and refuses what has no meaning. [`verify`]
//! checks where instructions lead. [`Machine`] runs what both accept, a bounded number of instructions at a time: it checks each
//! access to memory, so that loops need no proof.
//!
//! A program is a function of four arguments, of which the last two are the parameters of the command:
//!
//! ```c
//! struct range { uint64_t base, length; };
//! uint64_t program(const struct range *ranges, uint64_t count, uint64_t first, uint64_t second);
//! ```
//!
//! Helper 1 is CRC-32C: `uint64_t crc32c(const void *bytes, uint64_t length, uint64_t seed)`, of at most [`HELPER_MAX_BYTES`] at a time.

mod access;
mod arithmetic;
mod decode;
mod instruction;
mod machine;
mod verify;

use instruction::Instruction;

pub use access::HELPER_MAX_BYTES;
pub use machine::CALL_DEPTH_MAX;
pub(crate) use machine::Machine;

/// Most instructions of a program, counted in slots of 8 bytes.
pub const INSTRUCTIONS_MAX: usize = 65_536;

/// Bytes of one instruction.
const SLOT_BYTES: usize = 8;

/// Why a program is refused. Instructions are counted from 0, in slots of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsound {
    /// It is empty, or its size is no multiple of 8 bytes.
    #[error("its size is 0, or no multiple of 8 bytes")]
    Size,
    /// It has too many instructions.
    #[error("it has more than {INSTRUCTIONS_MAX} instructions")]
    TooLong,
    /// An operation that is unknown here.
    #[error("instruction {0}: the operation is unknown")]
    Operation(usize),
    /// A register that is not there, or the frame pointer as destination.
    #[error("instruction {0}: the register is unknown or read-only")]
    Register(usize),
    /// A field that the operation does not use is not zero.
    #[error("instruction {0}: a reserved field is not zero")]
    Reserved(usize),
    /// An immediate that has no meaning for the operation.
    #[error("instruction {0}: the immediate is invalid")]
    Immediate(usize),
    /// A jump or a call leads out of the program, or into the second half of a wide instruction.
    #[error("instruction {0}: the target is outside the program")]
    Target(usize),
    /// The helper is unknown.
    #[error("instruction {0}: the helper is unknown")]
    Helper(usize),
    /// The last instruction goes on behind the end.
    #[error("instruction {0}: execution goes on behind the end of the program")]
    End(usize),
    /// A WebAssembly module that is invalid, or needs or lacks what a program may need and has to have.
    #[error("the WebAssembly module is invalid: {0}")]
    Module(&'static str),
}

/// A program that was verified.
#[derive(Debug)]
pub(crate) struct Verified(Box<[Instruction]>);

impl Verified {
    /// Decodes and verifies a program.
    ///
    /// # Errors
    /// [`Unsound`], with the first instruction that is.
    pub fn load(bytes: &[u8]) -> Result<Self, Unsound> {
        let instructions = decode::decode(bytes)?;
        verify::verify(&instructions)?;
        Ok(Self(instructions.into()))
    }
}
