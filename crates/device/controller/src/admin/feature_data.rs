//! Features that move data, and the binding of device memory windows.

use byway_spec::base::feature::{HostBehavior, Timestamp};
use byway_spec::{Command, Status};
use zerocopy::{FromBytes, IntoBytes};

use super::AdminState;
use super::context::Context;
use crate::error::CommandError;
use crate::outcome::Outcome;
use crate::queue::BoundWindow;

impl AdminState {
    pub(super) fn get_timestamp(
        &self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        cx.send(command, self.features.timestamp(self.now_ps).as_bytes())
    }

    pub(super) fn set_timestamp(
        &mut self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<(), CommandError> {
        let mut bytes = [0; size_of::<Timestamp>()];
        cx.receive(command, &mut bytes)?;
        let [a, b, c, d, e, f, ..] = bytes;
        self.features.set_timestamp(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), self.now_ps);
        Ok(())
    }

    pub(super) fn get_host_behavior(
        &self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        cx.send(command, self.features.behavior().as_bytes())
    }

    pub(super) fn set_host_behavior(
        &mut self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<(), CommandError> {
        let mut bytes = [0; size_of::<HostBehavior>()];
        cx.receive(command, &mut bytes)?;
        let behavior = HostBehavior::read_from_bytes(&bytes).map_err(|_| NOT_A_BEHAVIOR)?;
        if behavior.acre > 1 || behavior.etdas > 1 || behavior.lbafee > 1 {
            return Err(NOT_A_BEHAVIOR);
        }
        self.features.set_behavior(behavior);
        Ok(())
    }
}

/// Binds a window of device memory to submission queue CDW11[15:0] for the command's namespace. DW0 of the
/// completion is the window's place: device memory holds windows in this order. A queue has one window; the one
/// it had is given back.
pub(super) fn bind_window(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let qid = command.cdw11 as u16;
    if qid == 0 || cx.queues.submission(qid).is_none() {
        return Err(NO_QUEUE);
    }
    cx.subsystem.attached(command.nsid, cx.id)?.0.kv()?;
    if let Some(window) = cx.queues.submission_mut(qid).and_then(|queue| queue.window.take()) {
        cx.subsystem.unbind_window(window);
    }
    let window = cx.subsystem.bind_window(command.nsid)?;
    if let Some(queue) = cx.queues.submission_mut(qid) {
        queue.window = Some(window);
    }
    Ok(Outcome::with(cx.subsystem.window_place(window.nsid, window.index)))
}

/// The place of the window that submission queue CDW11[15:0] has in the command's namespace.
pub(super) fn bound_window(cx: &Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let queue = cx.queues.submission(command.cdw11 as u16).ok_or(NO_QUEUE)?;
    let mine = |window: &BoundWindow| window.nsid == command.nsid && cx.subsystem.is_bound(*window);
    let window = queue.window.filter(mine);
    let window =
        window.ok_or(CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "no window is bound to the queue"))?;
    Ok(Outcome::with(cx.subsystem.window_place(window.nsid, window.index)))
}

const NO_QUEUE: CommandError = CommandError::invalid_field("no such submission queue").at_byte(44);
const NOT_A_BEHAVIOR: CommandError = CommandError::invalid_field("a host behavior is neither on nor off");
