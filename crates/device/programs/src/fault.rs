//! Why a run of a program ended without a result.

use byway_spec::Status;

/// A program was stopped. What it wrote to its ranges before stays there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It made all steps that it may, and did not end.
    #[error("the program did not end within its limit of steps")]
    Limit,
    /// An access lies outside what the program may access.
    #[error("access to {bytes} bytes at {address:#x} is outside the program's memory")]
    Access {
        /// Address, in the program's address space.
        address: u64,
        /// Bytes of the access.
        bytes: u64,
    },
    /// Functions called each other more than [`CALL_DEPTH_MAX`](crate::CALL_DEPTH_MAX) deep.
    #[error("functions call each other too deep")]
    Depth,
    /// Execution left the program: its verifier should have refused it.
    #[error("execution left the program")]
    OutsideProgram,
    /// A program in WebAssembly trapped: a division by zero, an access outside its memory, `unreachable`.
    #[error("the program trapped")]
    Trap,
    /// A parameter of a built-in program has no meaning, or ranges are missing.
    #[error("a parameter or range of the built-in program is invalid: {0}")]
    Parameter(&'static str),
    /// A built-in program cannot take the data.
    #[error("the data cannot be processed: {0}")]
    Data(&'static str),
    /// Its range for the result is too small.
    #[error("the result does not fit its range")]
    ResultTooLarge,
}

impl Fault {
    /// The status of the command that started the program. The standard's choice for programs that fail is to confirm.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Limit => Status::INSUFFICIENT_PROGRAM_RESOURCES,
            Self::Parameter(_) | Self::ResultTooLarge => Status::INVALID_FIELD,
            Self::Access { .. } | Self::Depth | Self::OutsideProgram | Self::Trap | Self::Data(_) => {
                Status::INVALID_PROGRAM_DATA
            }
        }
    }

    /// A sentence without figures, for an error log.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Limit => "the program did not end within its limit of steps",
            Self::Access { .. } => "an access is outside the program's memory",
            Self::Depth => "functions call each other too deep",
            Self::OutsideProgram => "execution left the program",
            Self::Trap => "the program trapped",
            Self::Parameter(_) => "a parameter or range of the built-in program is invalid",
            Self::Data(_) => "the data cannot be processed",
            Self::ResultTooLarge => "the result does not fit its range",
        }
    }
}
