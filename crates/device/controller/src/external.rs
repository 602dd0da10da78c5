//! Commands of a controller that external engines execute.
//!
//! Each keeps its completion slot. A queue or a controller that goes meanwhile forgets its commands, and their results
//! are dropped.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::outcome::{ExternalCommand, ExternalWork};
use crate::payload::Mapped;
use crate::ticket::Ticket;

type ByIdentifier = HashMap<(u16, u16), ExternalWork, BuildHasherDefault<WorkHasher>>;

/// Commands of one controller that external engines execute.
#[derive(Debug, Default)]
pub(crate) struct ExternalCommands {
    commands: HashMap<ExternalWork, Outstanding, BuildHasherDefault<WorkHasher>>,
    /// What commands wait for, by submission queue and command identifier. Of two with the same identifier, which no host may use, one.
    by_identifier: ByIdentifier,
    /// Unused lists for the host memory of the next commands.
    #[expect(clippy::vec_box, reason = "each moves as a pointer from one command to the next")]
    spare: Vec<Box<Mapped>>,
}

/// A command that an external engine executes.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub ticket: Ticket,
    pub at: ExternalCommand,
    /// The host's buffer for what it reads, if that is in mapped memory.
    pub mapped: Option<Box<Mapped>>,
}

/// Multiplies: the device numbers its work itself, so no host chooses keys that collide. Of the command identifiers of one queue, which its host
/// chooses, no two have the same lowest 16 bits of the hash.
#[derive(Debug, Default)]
struct WorkHasher(u64);

impl Hasher for WorkHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, volume 3, section 6.4).
        self.0 = (self.0.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_isize(&mut self, discriminant: isize) {
        self.write_u64(discriminant as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }
}

impl ExternalCommands {
    /// Takes every command, in no order: controller reset.
    pub fn take_all(&mut self) -> Vec<ExternalWork> {
        self.by_identifier.clear();
        self.commands.drain().map(|(work, _)| work).collect()
    }

    /// Keeps a command until its engine has finished it. A buffer in mapped memory is swapped out of `mapped`.
    pub fn insert(&mut self, ticket: Ticket, at: ExternalCommand, mapped: Option<&mut Mapped>) {
        let mapped = mapped.map(|from| {
            let mut mapped = self.spare.pop().unwrap_or_default();
            std::mem::swap(&mut *mapped, from);
            mapped
        });
        self.by_identifier.insert((ticket.sqid, ticket.cid), at.work);
        self.commands.insert(at.work, Outstanding { ticket, at, mapped });
    }

    /// Takes the command that waits for `work`.
    pub fn remove(&mut self, work: ExternalWork) -> Option<Outstanding> {
        let command = self.commands.remove(&work)?;
        forget_identifier(&mut self.by_identifier, &command);
        Some(command)
    }

    /// Takes a list back for the next command.
    pub fn reuse(&mut self, mapped: Option<Box<Mapped>>) {
        self.spare.extend(mapped);
    }

    /// What command `cid` of queue `sqid` waits for.
    pub fn find(&self, sqid: u16, cid: u16) -> Option<ExternalWork> {
        self.by_identifier.get(&(sqid, cid)).copied()
    }

    /// Whether a command of queue pair `qid` waits, for its place in the completion queue too.
    pub fn has_commands_of(&self, qid: u16) -> bool {
        self.commands.values().any(|command| command.ticket.sqid == qid || command.ticket.cqid == qid)
    }

    /// Takes every command of queue `sqid`, in no order.
    pub fn take_queue(&mut self, sqid: u16) -> Vec<Outstanding> {
        self.take_each(|command| command.ticket.sqid == sqid)
    }

    /// Takes every command of namespace `nsid`, in no order.
    pub fn take_namespace(&mut self, nsid: u32) -> Vec<Outstanding> {
        self.take_each(|command| command.at.work.is_in_engine_of(nsid))
    }

    fn take_each(&mut self, is_wanted: impl Fn(&Outstanding) -> bool) -> Vec<Outstanding> {
        let Self { commands, by_identifier, .. } = self;
        let taken = commands.extract_if(|_, command| is_wanted(command));
        taken
            .map(|(_, command)| command)
            .inspect(|command| forget_identifier(by_identifier, command))
            .collect()
    }
}

fn forget_identifier(by_identifier: &mut ByIdentifier, command: &Outstanding) {
    let identifier = (command.ticket.sqid, command.ticket.cid);
    if by_identifier.get(&identifier) == Some(&command.at.work) {
        by_identifier.remove(&identifier);
    }
}
