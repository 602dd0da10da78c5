//! Admin commands on a ring over the controller's node: several go on at once.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{AdminCommand, AdminQueue, Error, ErrorKind, Finished, Memory, RefusedAdmin, Result};
use byway_sys::uring::{Completed, Uring};
use byway_sys::{NvmeCommand, NvmeNode};

use super::carried::ended;
use crate::nvme::{NvmeTarget, PIECES_MAX, Passage, Passed};
use crate::ring::Ring;

/// What is known of an admin command under way.
#[derive(Debug, Clone, Copy)]
pub struct AdminTicket {
    tag: u64,
    passed: Passed,
    /// Whether it may change what namespaces are.
    changes: bool,
}

/// Admin commands on their way by a ring.
pub struct IoUringCmdAdmin<
    P: Passage = NvmeNode,
    R: Ring<AdminTicket, NvmeCommand> = Uring<Memory, AdminTicket, NvmeCommand>,
> {
    target: Arc<NvmeTarget<P>>,
    ring: R,
    ready: VecDeque<Finished>,
}

impl IoUringCmdAdmin {
    /// Most commands outstanding at once.
    pub const DEPTH: u32 = 64;
}

impl<P: Passage, R: Ring<AdminTicket, NvmeCommand>> IoUringCmdAdmin<P, R> {
    /// Admin commands of `target`, carried by `ring`, which has room for [`IoUringCmdAdmin::DEPTH`].
    pub fn new(target: Arc<NvmeTarget<P>>, ring: R) -> Self {
        Self { target, ring, ready: VecDeque::new() }
    }

    fn check(&self, command: &AdminCommand) -> Result<Passed> {
        if self.outstanding() >= IoUringCmdAdmin::DEPTH {
            let said =
                format!("{} admin commands are outstanding, as many as can be", IoUringCmdAdmin::DEPTH);
            return Err(Error::host(ErrorKind::QueueFull, said));
        }
        if command.pieces() > PIECES_MAX {
            let said = format!("data in {} buffers, and the kernel takes {PIECES_MAX}", command.pieces());
            return Err(Error::host(ErrorKind::TooLarge, said));
        }
        self.target.passed_admin(command)
    }

    fn finish(&mut self, completed: Completed<Memory, AdminTicket>) -> Finished {
        let Completed { held, ticket, ending, answer } = completed;
        if ticket.changes {
            self.target.changed();
        }
        Finished { tag: ticket.tag, result: ended(&self.target, ticket.passed, ending, answer, held) }
    }

    /// Reaps the completions that are in the ring.
    fn reap(&mut self) {
        while let Some(completed) = self.ring.reap() {
            let finished = self.finish(completed);
            self.ready.push_back(finished);
        }
    }
}

impl<P: Passage, R: Ring<AdminTicket, NvmeCommand>> AdminQueue for IoUringCmdAdmin<P, R> {
    fn submit(&mut self, command: AdminCommand, tag: u64) -> Result<(), RefusedAdmin> {
        let passed = match self.check(&command) {
            Ok(passed) => passed,
            Err(error) => return Err(RefusedAdmin { command, error }),
        };
        let changes = self.target.changes(&command);
        let ticket = AdminTicket { tag, passed, changes };
        let pushed = self.ring.push(Memory::from(command.into_payload()), ticket, passed.command, None, None);
        if let Err(memory) = pushed {
            // The ring is as deep as the queue: it never comes to this.
            let refused = io::Error::from(io::ErrorKind::WouldBlock);
            let ending = byway_sys::uring::Ending::Failed(refused);
            let finished = self.finish(Completed { held: memory, ticket, ending, answer: 0 });
            self.ready.push_back(finished);
        }
        Ok(())
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        if let Some(finished) = self.ready.pop_front() {
            return Ok(Some(finished));
        }
        let completed = self.ring.next_completed().map_err(failed)?;
        Ok(completed.map(|completed| self.finish(completed)))
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        let begun = Instant::now();
        loop {
            self.reap();
            let left = timeout.saturating_sub(begun.elapsed());
            if !self.ready.is_empty() || self.outstanding() == 0 || left.is_zero() {
                return Ok(!self.ready.is_empty());
            }
            self.ring.sleep(1, Some(left)).map_err(failed)?;
        }
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        // Otherwise the submission would wait until the sleeper on the descriptor wakes.
        self.ring.start().map_err(failed)?;
        if !self.ready.is_empty() {
            self.ring.raise();
        }
        self.ring.event().map_err(|cause| Error::kernel("no descriptor for completions", cause))
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        if self.ready.iter().any(|finished| finished.tag == tag) {
            return Ok(());
        }
        if self.ring.cancel(|ticket| ticket.tag == tag).map_err(failed)? {
            return Ok(());
        }
        let said = format!("no admin command with tag {tag} is under way");
        Err(Error::host(ErrorKind::NotFound, said))
    }

    fn outstanding(&self) -> u32 {
        self.ring.under_way() + self.ready.len() as u32
    }
}

impl<P: Passage, R: Ring<AdminTicket, NvmeCommand>> fmt::Debug for IoUringCmdAdmin<P, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "IoUringCmdAdmin({} outstanding)", self.outstanding())
    }
}

#[cold]
fn failed(cause: io::Error) -> Error {
    Error::kernel("the io_uring failed", cause)
}
