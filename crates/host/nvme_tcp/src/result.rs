//! Results of commands and connections as the API reports them.

use std::io;

use byway_core::{Answer, Error, ErrorKind, Failed, Outcome, Result};
use byway_spec::Completion;

use crate::connection::Ended;

/// A controller that there is no connection to.
#[derive(Debug)]
pub(crate) struct NotAttached {
    pub error: Error,
    /// It would fail again, and is not to be tried again.
    pub is_final: bool,
}

impl From<Error> for NotAttached {
    fn from(error: Error) -> Self {
        Self { error, is_final: false }
    }
}

/// A completion, or its status as an error.
pub(crate) fn checked(completion: &Completion) -> Result<&Completion> {
    match completion.status() {
        status if status.is_success() => Ok(completion),
        status => Err(Error::status(status)),
    }
}

/// What came of a command, in the words of the API.
#[inline]
pub(crate) fn outcome(ended: Ended) -> Result<Outcome, Failed> {
    let Ended { memory, result, commands, .. } = ended;
    match result {
        Ok(completion) if completion.status().is_success() => {
            let commands = u32::from(commands);
            let answer = Answer { dw0: completion.dw0, dw1: completion.dw1, commands, slots: commands };
            let (buffer, vector) = memory.into_buffers();
            Ok(Outcome { answer, buffer, vector })
        }
        Ok(completion) => Err(Failed::with_memory(Error::status(completion.status()), memory)),
        Err(error) => Err(Failed::with_memory(error, memory)),
    }
}

/// For a controller that was given up.
#[cold]
pub(crate) fn gone(why: &str) -> Error {
    Error::device(ErrorKind::DeviceLost, format!("the controller is lost: {why}"))
}

/// Error of a queue that will get no connection any more; `sentence` says why.
#[cold]
pub(crate) fn queue_lost(sentence: &str) -> Error {
    Error::device(ErrorKind::DeviceLost, sentence.to_owned())
}

/// For a connection that the system says has ended.
#[cold]
pub(crate) fn ended(cause: io::Error) -> Error {
    let said = match cause.kind() {
        io::ErrorKind::UnexpectedEof => return Error::device(ErrorKind::DeviceLost, cause.to_string()),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "the controller dropped the connection",
        _ => "the connection failed",
    };
    Error::kernel(said, cause).with_kind(ErrorKind::DeviceLost)
}
