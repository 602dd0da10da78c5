//! Commands that a queue did not take.

use super::Failed;
use crate::command::Command;
use crate::error::Error;

/// A command that was not taken, given back.
#[derive(Debug)]
pub struct Refused {
    /// The command as it was.
    pub command: Command,
    /// Why. [`crate::ErrorKind::QueueFull`]: take completions, then submit it again.
    pub error: Error,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl From<Refused> for Failed {
    #[cold]
    fn from(Refused { command, error }: Refused) -> Self {
        Self::with_memory(error, command.into_memory())
    }
}
