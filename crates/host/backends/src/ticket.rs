//! A queue's record of an outstanding command, and of its completion.

use std::io;
use std::time::{Duration, Instant};

use byway_core::{Error, ErrorKind, Failed, Finished, Memory};

use crate::request::Request;
use crate::target::Target;
use crate::work;

/// A command to a file or a block device, of which an interface has the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub tag: u64,
    pub request: Request,
    /// When it is given up, if it was not begun until then.
    pub until: Option<Instant>,
}

impl Ticket {
    /// Whether its time is over.
    #[inline]
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Its completion from what the interface did: how many bytes were moved, or the system's answer.
    #[inline(always)]
    pub(crate) fn ended(self, target: &Target, moved: io::Result<usize>, memory: Memory) -> Finished {
        match work::wrong(target, self.request, moved) {
            None => Finished { tag: self.tag, result: Ok(work::outcome(memory)) },
            Some(error) => failed(self.tag, error, memory),
        }
    }
}

/// The completion of a command that failed.
pub(crate) fn failed(tag: u64, error: Error, memory: Memory) -> Finished {
    Finished { tag, result: Err(Failed::with_memory(error, memory)) }
}

/// When a command is given up that is submitted now with this timeout. `first` is the earliest such time of a queue's commands.
pub(crate) fn until_after(timeout: Duration, first: &mut Option<Instant>) -> Option<Instant> {
    // A deadline beyond the clock's range never passes.
    let until = Instant::now().checked_add(timeout);
    *first = first.iter().copied().chain(until).min();
    until
}

/// For a command that waited for as long as it may.
#[cold]
pub(crate) fn too_late() -> Error {
    Error::host(ErrorKind::TimedOut, "its time was over before it was begun")
}

/// For a command that was cancelled in time.
#[cold]
pub(crate) fn taken_back() -> Error {
    Error::host(ErrorKind::Cancelled, "it was taken back before it was begun")
}

/// For an interface that fails as a whole.
#[cold]
pub(crate) fn broken(cause: io::Error) -> Error {
    Error::kernel("the queue failed", cause)
}
