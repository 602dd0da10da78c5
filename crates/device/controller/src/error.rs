//! Errors of commands: a status for the host and a sentence for its error log.

use byway_dma::DmaFault;
use byway_spec::Status;

/// A command's failure. Becomes its completion's status; the cause goes to the error log and to traces.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause} ({status:?})")]
pub struct CommandError {
    /// The status in the completion.
    pub status: Status,
    /// A sentence for the error log.
    pub cause: &'static str,
    /// Byte and bit of the command that is at fault, where one is (error log, parameter error location).
    pub location: u16,
    /// Command-specific result that goes with the status (DW0).
    pub dw0: u32,
}

/// Parameter error location of an error that no single field causes (Base, Error Information log).
pub const NO_LOCATION: u16 = 0xffff;

impl CommandError {
    /// A failure with `status`.
    pub const fn new(status: Status, cause: &'static str) -> Self {
        Self { status, cause, location: NO_LOCATION, dw0: 0 }
    }

    /// Invalid Field in Command.
    pub const fn invalid_field(cause: &'static str) -> Self {
        Self::new(Status::INVALID_FIELD, cause)
    }

    /// Data transfer length does not match the command.
    pub const fn data_length(cause: &'static str) -> Self {
        Self::new(Status::DATA_SGL_LENGTH_INVALID, cause)
    }

    /// The command field at `byte` is what is wrong.
    #[must_use]
    pub const fn at_byte(mut self, byte: u16) -> Self {
        self.location = byte;
        self
    }
}

impl From<DmaFault> for CommandError {
    fn from(_: DmaFault) -> Self {
        Self::new(Status::DATA_TRANSFER_ERROR, "an address that the host did not map")
    }
}

impl From<Status> for CommandError {
    fn from(status: Status) -> Self {
        Self::new(status, "refused")
    }
}
