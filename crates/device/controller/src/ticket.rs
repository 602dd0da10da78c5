//! The right and the duty to complete a command.

use byway_queue::CompletionPermit;

/// The right and the duty to complete one command.
#[derive(Debug)]
#[must_use = "a fetched command is completed exactly once"]
pub struct Ticket {
    /// Submission queue the command came over.
    pub sqid: u16,
    /// Its identifier there.
    pub cid: u16,
    /// Completion queue it completes to.
    pub cqid: u16,
    /// Its slot there.
    pub permit: CompletionPermit,
}
