//! Results of commands.

use crate::error::CommandError;
use crate::id::{ControllerId, QueryId, RunId};
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

/// What a command waits for that does not end at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExternalWork {
    /// A command of an external engine.
    Engine {
        /// The namespace that the engine keeps.
        nsid: u32,
        /// The command's slot in the engine.
        place: Place,
    },
    /// A query: more of its result, or its end.
    Query(QueryId),
    /// The end of a program.
    Program(RunId),
}

/// A command that waits for work outside the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExternalCommand {
    /// What it waits for.
    pub work: ExternalWork,
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
    /// Longest data in bytes that may stand behind the completion; 0 if none may.
    pub inline_max_bytes: u16,
}

impl ExternalWork {
    /// Whether it belongs to the engine of namespace `nsid`.
    pub(crate) fn is_in_engine_of(self, nsid: u32) -> bool {
        matches!(self, Self::Engine { nsid: own, .. } if own == nsid)
    }
}

impl From<ExternalWork> for ExternalCommand {
    /// A command that waits for `work`, without data for its host.
    fn from(work: ExternalWork) -> Self {
        Self { work, reply: Reply::default() }
    }
}

/// Work that has ended, and that a command waited for.
#[derive(Debug)]
pub struct Done {
    /// The controller that the command came over, which may be gone.
    pub owner: ControllerId,
    /// What the command waited for.
    pub work: ExternalWork,
    /// How it ended: dwords 0 and 1 of its completion, or why it failed.
    pub result: Result<[u32; 2], CommandError>,
    /// What its error was, in words of its own.
    pub text: Option<String>,
    /// Modelled time at which it ended, in picoseconds: its completion comes no earlier. 0 where its work takes no modelled time.
    pub at_ps: u64,
}
