//! Features that move data, and the binding of device memory windows.

use byway_spec::base::feature::{HostBehavior, Timestamp};
use byway_spec::{Command, Status};
use zerocopy::{FromBytes, IntoBytes};

use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::queue::BoundWindow;
use crate::subsystem::Subsystem;

const PS_PER_MS: u64 = 1_000_000_000;

/// Timestamp attributes, bit 0: the clock may have stood still since it was set. A device that nobody runs does not
/// see time pass.
const MAY_HAVE_STOPPED: u8 = 1;

/// Timestamp attributes, bits 3:1: set by the host.
const SET_BY_HOST: u8 = 1 << 1;

impl Controller {
    pub(super) fn get_timestamp(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let (set, at_ps) = self.admin.features.timestamp;
        let [a, b, c, d, e, f] = set.ms;
        let passed_ms = self.admin.now_ps.saturating_sub(at_ps) / PS_PER_MS;
        let ms = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) + passed_ms;
        let [a, b, c, d, e, f, ..] = ms.to_le_bytes();
        let now =
            Timestamp { ms: [a, b, c, d, e, f], attributes: set.attributes | MAY_HAVE_STOPPED, reserved: 0 };
        self.send(port, command, now.as_bytes())
    }

    pub(super) fn set_timestamp(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<(), CommandError> {
        let mut bytes = [0; size_of::<Timestamp>()];
        self.receive(port, command, &mut bytes)?;
        let [a, b, c, d, e, f, ..] = bytes;
        let set = Timestamp { ms: [a, b, c, d, e, f], attributes: SET_BY_HOST, reserved: 0 };
        self.admin.features.timestamp = (set, self.admin.now_ps);
        Ok(())
    }

    pub(super) fn get_host_behavior(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let behavior = *self.admin.features.behavior;
        self.send(port, command, behavior.as_bytes())
    }

    pub(super) fn set_host_behavior(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<(), CommandError> {
        let mut bytes = [0; size_of::<HostBehavior>()];
        self.receive(port, command, &mut bytes)?;
        let behavior = HostBehavior::read_from_bytes(&bytes).map_err(|_| NOT_A_BEHAVIOR)?;
        if behavior.acre > 1 || behavior.etdas > 1 || behavior.lbafee > 1 {
            return Err(NOT_A_BEHAVIOR);
        }
        *self.admin.features.behavior = behavior;
        Ok(())
    }

    /// Binds a window of device memory to submission queue CDW11[15:0] for the command's namespace. DW0 of the
    /// completion is the window's place: device memory holds windows in this order. A queue has one window; the one
    /// it had is given back.
    pub(super) fn bind_window(
        &mut self,
        subsystem: &mut Subsystem,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let qid = command.cdw11 as u16;
        if qid == 0 || self.submission.get(usize::from(qid)).is_none_or(Option::is_none) {
            return Err(NO_QUEUE);
        }
        subsystem.attached(command.nsid, self.id)?.0.kv()?;
        self.release_window(subsystem, qid);
        let window = subsystem.bind_window(command.nsid)?;
        if let Some(Some(queue)) = self.submission.get_mut(usize::from(qid)) {
            queue.window = Some(window);
        }
        Ok(Outcome::with(subsystem.window_place(window.nsid, window.index)))
    }

    /// The place of the window that submission queue CDW11[15:0] has in the command's namespace.
    pub(super) fn bound_window(
        &self,
        subsystem: &Subsystem,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let queue = self
            .submission
            .get(usize::from(command.cdw11 as u16))
            .and_then(Option::as_ref)
            .ok_or(NO_QUEUE)?;
        let mine = |window: &BoundWindow| window.nsid == command.nsid && subsystem.is_bound(*window);
        let window = queue.window.filter(mine);
        let window = window
            .ok_or(CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "no window is bound to the queue"))?;
        Ok(Outcome::with(subsystem.window_place(window.nsid, window.index)))
    }
}

const NO_QUEUE: CommandError = CommandError::invalid_field("no such submission queue").at_byte(44);
const NOT_A_BEHAVIOR: CommandError = CommandError::invalid_field("a host behavior is neither on nor off");
