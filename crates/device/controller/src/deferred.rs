//! Long work that is deferred to a thread of its own, so that the thread which answers hosts never waits for the disk.
//!
//! A host in another process waits a few seconds at most for the answer to a message: a register write that asks for a
//! shutdown, a doorbell behind which there is a format. CSTS and the command's completion report when the work is done.

use byway_spec::Command;
use byway_spec::base::admin::AdminOpcode;

use crate::ticket::Ticket;

/// Whether long work is deferred, and the work that is.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    is_enabled: bool,
    /// A fetched admin command. The admin queue waits for it.
    command: Option<(Ticket, Command)>,
    /// A shutdown that CC.SHN asked for. The admin queue waits for it.
    shutdown: bool,
}

/// Deferred work.
#[derive(Debug)]
pub(crate) enum LongWork {
    /// An admin command.
    Command(Ticket, Command),
    /// A shutdown.
    Shutdown,
}

impl Deferred {
    /// Defers long work from now on.
    pub fn enable(&mut self) {
        self.is_enabled = true;
    }

    /// Whether long work is deferred.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Drops the work: controller reset.
    pub fn clear(&mut self) {
        (self.command, self.shutdown) = (None, false);
    }

    /// Whether there is work. No admin command is fetched until it is done.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.command.is_some() || self.shutdown
    }

    /// Takes the next work.
    pub fn take(&mut self) -> Option<LongWork> {
        if let Some((ticket, command)) = self.command.take() {
            return Some(LongWork::Command(ticket, command));
        }
        std::mem::take(&mut self.shutdown).then_some(LongWork::Shutdown)
    }

    /// Defers a shutdown, if long work is deferred; whether it is.
    pub fn defer_shutdown(&mut self) -> bool {
        self.shutdown |= self.is_enabled;
        self.is_enabled
    }

    /// Defers an admin command if it takes long; gives its ticket back otherwise.
    pub fn defer_if_long(&mut self, ticket: Ticket, command: &Command) -> Option<Ticket> {
        if !self.is_enabled || !is_long(command) {
            return Some(ticket);
        }
        self.command = Some((ticket, *command));
        None
    }
}

/// Whether an admin command may take as long as a sync, or as writing a whole namespace.
fn is_long(command: &Command) -> bool {
    matches!(
        AdminOpcode(command.opcode()),
        AdminOpcode::FORMAT_NVM | AdminOpcode::SANITIZE | AdminOpcode::NAMESPACE_MANAGEMENT
    )
}
