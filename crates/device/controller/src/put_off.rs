//! Work that takes long, put off for an owner whose hosts wait for answers meanwhile.
//!
//! A host in another process waits some seconds for the answer to a message, however slow the disk is: a register write that
//! asks for a shutdown, a doorbell behind which there is a format. An owner that [puts off](Controller::put_off) long
//! work has [`Controller::run`] and [`Controller::write_register`] begin it alone, and does it by
//! [`Controller::do_put_off`] in a thread that nobody waits for. CSTS and the command's completion tell how far it is.

use byway_queue::Doorbells;
use byway_spec::Command;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::register::Csts;

use crate::admin::effects;
use crate::completion::Ticket;
use crate::controller::Controller;
use crate::counting::Typed;
use crate::port::Port;
use crate::subsystem::Subsystem;

/// What was put off.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    /// The owner does long work at another time.
    pub is_on: bool,
    /// An admin command that was fetched. Those behind it wait for it.
    command: Option<(Ticket, Command)>,
    /// A shutdown that CC.SHN asked for. Admin commands that come after it wait for it.
    shutdown: bool,
}

impl PutOff {
    /// Forgets everything that was put off: controller reset.
    pub fn clear(&mut self) {
        (self.command, self.shutdown) = (None, false);
    }

    /// Whether no admin command is fetched until another is done.
    #[inline]
    pub fn holds_admin(&self) -> bool {
        self.command.is_some() || self.shutdown
    }
}

/// Whether an admin command may take as long as the disk does, or as a whole namespace does.
fn is_long(command: &Command) -> bool {
    matches!(
        AdminOpcode(command.opcode()),
        AdminOpcode::FORMAT_NVM | AdminOpcode::SANITIZE | AdminOpcode::NAMESPACE_MANAGEMENT
    )
}

impl Controller {
    /// Leaves long work to [`Controller::do_put_off`] from now on.
    pub fn put_off(&mut self) {
        self.put_off.is_on = true;
    }

    /// Whether there is work for [`Controller::do_put_off`].
    pub fn has_put_off(&self, subsystem: &Subsystem) -> bool {
        let is_asked_for = self.put_off.command.is_some() || self.put_off.shutdown;
        self.put_off.is_on && (is_asked_for || subsystem.is_sanitizing())
    }

    /// Does the next of what was put off, at modelled time `now_ps`.
    pub fn do_put_off(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        if let Some((ticket, command)) = self.put_off.command.take() {
            port.meter.begin(now_ps);
            let result = self.execute_admin(subsystem, port, doorbells, &command);
            let changes = subsystem.synced_completions && effects::changes(true, command.opcode());
            self.count(subsystem, port, Typed::of(0, &command), None, (&result, changes));
            self.finish(port, ticket, result, changes);
            self.ready.insert(0);
        } else if std::mem::take(&mut self.put_off.shutdown) {
            self.shut_down(subsystem);
            self.ready.insert(0);
        } else if subsystem.is_sanitizing() {
            // A slice that fails is tried again; the operation goes on for as long as it takes.
            let _ = subsystem.sanitize_slice();
        }
    }

    /// Shuts down, now or later.
    pub(crate) fn begin_shutdown(&mut self, subsystem: &mut Subsystem) {
        if !self.put_off.is_on {
            return self.shut_down(subsystem);
        }
        self.registers.set_shutdown_status(Csts::SHST_OCCURRING);
        self.put_off.shutdown = true;
    }

    /// Keeps an admin command for later, if it takes long; gives it back otherwise.
    pub(crate) fn keep_if_long(&mut self, ticket: Ticket, command: &Command) -> Option<Ticket> {
        if !self.put_off.is_on || !is_long(command) {
            return Some(ticket);
        }
        self.put_off.command = Some((ticket, *command));
        self.ready.remove(0);
        None
    }
}
