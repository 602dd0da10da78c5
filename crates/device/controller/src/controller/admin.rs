//! Admin commands and asynchronous events.

use byway_queue::Doorbells;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::{Command, Status};
use tracing::warn;

use super::Controller;
use crate::admin::{self, AdminState, Context, REQUEST};
use crate::error::CommandError;
use crate::opcode::admin_only_reports;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::subsystem::Subsystem;

impl Controller {
    /// Executes a command of the admin queue.
    pub(super) fn execute_admin(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        if !admin_only_reports(command.opcode()) {
            port.end_grants();
        }
        self.with_context(subsystem, port, |_, cx| admin::check(cx, command))?;
        subsystem.follow_device()?;
        match AdminOpcode(command.opcode()) {
            AdminOpcode::ABORT => self.abort(subsystem, port, doorbells, command),
            AdminOpcode::DELETE_SQ => self.delete_submission_queue(subsystem, port, command),
            AdminOpcode::DOORBELL_BUFFER_CONFIG => self.configure_doorbell_buffer(port, doorbells, command),
            AdminOpcode::CREATE_CQ | AdminOpcode::CREATE_SQ => {
                let create = |_: &mut AdminState, cx: &mut Context<'_, '_>| admin::create_queue(cx, command);
                let doorbell = self.with_context(subsystem, port, create)?;
                self.start_doorbell(port, doorbells, doorbell);
                Ok(Outcome::OK)
            }
            _ => self.with_context(subsystem, port, |state, cx| state.execute(cx, command)),
        }
    }

    fn with_context<R>(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        work: impl FnOnce(&mut AdminState, &mut Context<'_, '_>) -> R,
    ) -> R {
        let Self { id, registers, queues, admin, room, capsules, .. } = self;
        let mut context =
            Context { id: *id, registers, is_fabric: capsules.is_some(), queues, subsystem, port, room };
        work(admin, &mut context)
    }

    /// Ends each run: completes Asynchronous Event Requests that events wait for, and checks the keep alive timer.
    #[inline]
    pub(super) fn report_events(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        if self.admin.take_expired_keep_alive(now_ps) {
            self.keep_alive_expired();
        }
        if self.admin.has_requests() {
            self.report_to_requests(subsystem, port, doorbells, now_ps);
        }
    }

    /// Fails the controller: its host was silent for longer than the keep alive timeout.
    pub(super) fn keep_alive_expired(&mut self) {
        warn!(controller = self.id.0, timeout_ms = self.admin.keep_alive_ms(), "keep alive expired");
        self.admin.log_keep_alive_expired();
        self.fail();
    }

    fn report_to_requests(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        self.admin.collect_events(subsystem, self.id);
        while let Some(cid) = self.admin.next_request() {
            let rings = self.capsules.is_none().then_some(doorbells);
            let Some(ticket) = self.queues.resume(rings, cid) else { return };
            let Some(event) = self.admin.take_event() else { return };
            port.meter.begin(now_ps);
            subsystem.count_unexecuted(REQUEST, Status::SUCCESS);
            self.complete(port, ticket, Status::SUCCESS, event.into_bits(), 0);
        }
    }
}
