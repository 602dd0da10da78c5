//! Results of commands.

use crate::error::CommandError;
use crate::id::ControllerId;
use crate::namespace::engine::Place;

/// The result of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Finished, with the command-specific result of its completion.
    Done {
        /// Completion dword 0.
        dw0: u32,
        /// Completion dword 1.
        dw1: u32,
    },
    /// An Asynchronous Event Request: completes with an event. The controller resumes it by its identifier.
    Later,
    /// Begun in an external engine, as a query or as a program; the controller completes it when that is reported done.
    External(ExternalCommand),
    /// Finished once everything stored so far is durable on the medium below, beyond the power-protected state that it
    /// is in already.
    OnceSynced,
}

impl Outcome {
    /// Finished with no result.
    pub const OK: Outcome = Outcome::Done { dw0: 0, dw1: 0 };

    /// Finished with `dw0`.
    pub const fn with(dw0: u32) -> Outcome {
        Outcome::Done { dw0, dw1: 0 }
    }
}

/// Stands for a namespace in a command that waits for a query: its place is the query's identifier.
pub const QUERIES: u32 = 0;

/// Stands for a namespace in a command that waits for a program.
pub const PROGRAMS: u32 = u32::MAX;

/// A command that an external engine executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExternalCommand {
    /// The namespace, or [`QUERIES`] or [`PROGRAMS`].
    pub nsid: u32,
    /// Its slot in the engine.
    pub place: Place,
    /// The part of its memory that goes to the host when it is done.
    pub reply: Reply,
}

/// Data that goes to a host once a command is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reply {
    /// Bytes of the command's memory.
    pub data_bytes: u32,
    /// Size of the host's buffer in bytes: `data_bytes` or more.
    pub room_bytes: u32,
}

/// A command that an external engine has finished.
#[derive(Debug)]
pub struct Done {
    /// The controller that it came over, which may be gone.
    pub owner: ControllerId,
    /// The namespace, or [`QUERIES`] or [`PROGRAMS`].
    pub nsid: u32,
    /// Its slot in the engine.
    pub place: Place,
    /// How it ended: dwords 0 and 1 of its completion, or why it failed.
    pub result: Result<[u32; 2], CommandError>,
    /// What its error was, in words of its own.
    pub text: Option<String>,
}
