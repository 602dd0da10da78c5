//! Finished commands, and failed ones with their memory.

use crate::buffer::Buffer;
use crate::buffers::Buffers;
use crate::command::Outcome;
use crate::error::{Error, Result};
use crate::memory::Memory;

/// A command that was finished, well or not.
#[derive(Debug)]
pub struct Finished {
    /// The tag it was submitted with.
    pub tag: u64,
    /// Its outcome, or its error with the buffers that it had taken.
    pub result: Result<Outcome, Failed>,
}

/// A command that failed, with the buffers that it had taken.
#[derive(Debug)]
pub struct Failed {
    /// What failed, and by whose word: the host's, the kernel's or the device's.
    pub error: Error,
    /// Its buffer, if it had one and the device can no longer touch it.
    pub buffer: Option<Buffer>,
    /// The buffers of a vectored command.
    pub vector: Buffers,
}

impl Failed {
    /// A failure that gives this memory back.
    #[must_use]
    #[cold]
    pub fn with_memory(error: Error, memory: impl Into<Memory>) -> Self {
        let (buffer, vector) = memory.into().into_buffers();
        Self { error, buffer, vector }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, buffer: None, vector: Buffers::NONE }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}
