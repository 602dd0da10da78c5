//! Deferring long work.

use byway_queue::Doorbells;
use byway_spec::Command;
use byway_spec::base::register::Csts;

use super::Controller;
use crate::counting::Typed;
use crate::deferred::LongWork;
use crate::opcode;
use crate::port::Port;
use crate::subsystem::Subsystem;
use crate::ticket::Ticket;

impl Controller {
    /// Defers long work to [`Controller::run_deferred`] from now on: [`Controller::run`] and
    /// [`Controller::write_register`] only begin it.
    pub fn defer_long_work(&mut self) {
        self.deferred.enable();
    }

    /// Whether there is work for [`Controller::run_deferred`].
    pub fn has_deferred(&self, subsystem: &Subsystem) -> bool {
        self.deferred.is_enabled() && (self.deferred.has_work() || subsystem.is_sanitizing())
    }

    /// Does the next deferred work, at modelled time `now_ps`.
    pub fn run_deferred(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        match self.deferred.take() {
            Some(LongWork::Command(ticket, command)) => {
                port.meter.begin(now_ps);
                let result = self.execute_admin(subsystem, port, doorbells, &command);
                let changes = subsystem.syncs_completions() && opcode::changes(true, command.opcode());
                self.count(subsystem, port, Typed::of(0, &command), None, (&result, changes));
                self.finish(port, ticket, result, changes);
                self.queues.set_ready(0);
            }
            Some(LongWork::Shutdown) => {
                self.shut_down(subsystem);
                self.queues.set_ready(0);
            }
            None => sanitize_on(subsystem),
        }
    }

    /// Shuts down, now or later.
    pub(super) fn begin_shutdown(&mut self, subsystem: &mut Subsystem) {
        if self.deferred.defer_shutdown() {
            return self.registers.set_shutdown_status(Csts::SHST_OCCURRING);
        }
        self.shut_down(subsystem);
    }

    /// Defers an admin command if it takes long; gives its ticket back otherwise.
    pub(super) fn defer_if_long(&mut self, ticket: Ticket, command: &Command) -> Option<Ticket> {
        let not_deferred = self.deferred.defer_if_long(ticket, command);
        if not_deferred.is_none() {
            self.queues.set_idle(0);
        }
        not_deferred
    }

    /// Continues a sanitize operation, whether or not a host has enabled the controller; whether there is more to do.
    /// A slice that fails is tried again: the operation has no time limit.
    #[inline]
    pub(super) fn sanitizes_on(&self, subsystem: &mut Subsystem) -> bool {
        subsystem.is_sanitizing()
            && !self.deferred.is_enabled()
            && !matches!(subsystem.sanitize_slice(), Ok(false))
    }
}

/// Continues a sanitize operation by one slice. A slice that fails is tried again by the next call.
pub(super) fn sanitize_on(subsystem: &mut Subsystem) {
    if subsystem.is_sanitizing() {
        let _ = subsystem.sanitize_slice();
    }
}
