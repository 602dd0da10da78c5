//! Group commit: commands that were executed and complete only once the image is synced. Flush always, and every command
//! that changes data where an acknowledgement is to survive real power loss.
//!
//! One sync covers every command that waits when it begins. The device runs meanwhile: what it executes then waits for
//! the next sync. Which thread syncs is decided by `GroupCommit` of `byway-executor`.

use byway_spec::{Completion, Status};

use crate::queue::{QueueSet, Queues};
use crate::ticket::Ticket;

/// Commands that await durability, in the state of one controller.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    /// No sync that covers them has begun.
    waiting: Vec<Uncommitted>,
    /// The sync under way covers them.
    covered: Vec<Uncommitted>,
}

/// A command that was executed, with the completion that waits for a sync.
#[derive(Debug)]
pub(crate) struct Uncommitted {
    pub ticket: Ticket,
    pub entry: Completion,
    /// When the completion would have been due, by modelled time.
    pub due_ps: u64,
}

impl Uncommitted {
    /// The completion once the sync has ended as `synced` says. A command that had failed keeps its status.
    pub fn finish(mut self, queues: &Queues, synced: Result<(), Status>) -> Self {
        if let Err(status) = synced
            && self.entry.status().is_success()
        {
            self.entry = Completion::new(self.entry.sqid, self.entry.sqhd, self.entry.cid, status);
        }
        self.entry.sqhd = queues.newest_head(&self.ticket, self.entry.sqhd);
        self
    }
}

impl GroupCommit {
    /// Whether no command waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.covered.is_empty()
    }

    /// Drops everything: controller reset.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.covered.clear();
    }

    /// Keeps a command until the next sync.
    pub fn push(&mut self, command: Uncommitted) {
        self.waiting.push(command);
    }

    /// Whether commands wait for a sync that has not begun.
    #[inline]
    pub fn wants_sync(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a command of queue `sqid` waits for a sync that has not begun.
    pub fn has_waiting(&self, sqid: u16) -> bool {
        self.waiting.iter().any(|command| command.ticket.sqid == sqid)
    }

    /// Queues with commands that wait for a sync that has not begun.
    pub fn waiting_queues(&self) -> usize {
        let mut queues = QueueSet::default();
        self.waiting.iter().for_each(|command| queues.insert(command.ticket.sqid));
        queues.len()
    }

    /// A sync begins and covers the commands that wait; whether there are any.
    pub fn cover(&mut self) -> bool {
        let any = self.wants_sync();
        self.covered.append(&mut self.waiting);
        any
    }

    /// Takes the commands that the sync which ended covers.
    pub fn take_covered(&mut self) -> Vec<Uncommitted> {
        std::mem::take(&mut self.covered)
    }

    /// Takes the emptied vector back, for its capacity.
    pub fn reuse(&mut self, emptied: Vec<Uncommitted>) {
        debug_assert!(emptied.is_empty() && self.covered.is_empty(), "one sync at a time");
        self.covered = emptied;
    }

    /// Takes every command of queue `sqid`.
    pub fn take_queue(&mut self, sqid: u16) -> Vec<Uncommitted> {
        let mut taken = Vec::new();
        for commands in [&mut self.covered, &mut self.waiting] {
            taken.extend(commands.extract_if(.., |command| command.ticket.sqid == sqid));
        }
        taken
    }
}
