//! Execution of commands, by the device or by a discovery controller.

use byway_controller::{FusedCommand, Posted};
use byway_executor::CapsuleDevice;
use byway_nvme_tcp::Digest;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::{Command, Status};

use super::{Established, ExecuteContext};
use crate::close_reason::CloseReason;
use crate::outbox::Outbox;
use crate::queue::{DeviceQueue, Queue};

impl Established {
    /// Executes a command with its data; the host expects `reply_bytes` of read data.
    pub(super) fn execute(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        reply_bytes: usize,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        if command.opcode() == AdminOpcode::FABRICS.0 {
            return self.execute_fabrics(command, data, cx);
        }
        match &mut self.queue {
            Queue::Unconnected => {
                self.responder.fail(command, Status::COMMAND_SEQUENCE_ERROR.with_dnr(), cx.out);
                Ok(())
            }
            Queue::Discovery(discovery) => {
                discovery.controller.update(&self.target.directory);
                let answer = discovery.controller.execute(command);
                self.responder.answer(command, answer, reply_bytes, cx.out);
                self.send_discovery_event(cx.out);
                Ok(())
            }
            Queue::Device(queue) => {
                let at = queue.at();
                self.execute_at(at, command, data, reply_bytes, cx)?;
                if at.1 == 0 { self.after_admin(command, cx) } else { Ok(()) }
            }
        }
    }

    /// Executes a command on the device, which writes read data into the send buffer behind the C2HData header.
    pub(super) fn execute_at(
        &mut self,
        at: DeviceQueue,
        command: &Command,
        data: Option<&[u8]>,
        reply_bytes: usize,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let ExecuteContext { out, device: Some(device), .. } = cx else {
            return Err(CloseReason::DeviceFailed);
        };
        if !out.admits(reply_bytes) {
            self.responder.fail(command, Status::COMMAND_INTERRUPTED, out);
            return Ok(());
        }
        let head_bytes = if reply_bytes > 0 { self.responder.data_head_bytes() } else { 0 };
        let room = out.room(head_bytes + reply_bytes);
        let reply = room.get_mut(head_bytes..).unwrap_or_default();
        let kept = device.execute(at, command, data, reply, self.responder.digests_data());
        let kept = kept.map_err(|_| CloseReason::Overrun)?.map(Digest::known);
        self.responder.add_outstanding(1);
        let mut mine = None;
        while let Some(posted) = device.take_completion(at) {
            match mine {
                None if posted.data.is_none() && posted.completion.cid == command.cid() => {
                    mine = Some(posted.completion);
                }
                _ => self.late.push(posted),
            }
        }
        if let Some(completion) = mine {
            self.responder.complete(completion, head_bytes, reply_bytes, kept, out);
        }
        if mine.is_none() {
            self.responder.add_owed(reply_bytes);
        }
        if !self.late.is_empty() {
            self.send_late(out, device);
        }
        Ok(())
    }

    /// Executes two fused commands on the device. Neither reads data.
    pub(super) fn execute_fused(
        &mut self,
        at: DeviceQueue,
        pair: [FusedCommand<'_>; 2],
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let ExecuteContext { out, device: Some(device), .. } = cx else {
            return Err(CloseReason::DeviceFailed);
        };
        device.execute_fused(at, pair).map_err(|_| CloseReason::Overrun)?;
        self.responder.add_outstanding(pair.len());
        self.late.extend(std::iter::from_fn(|| device.take_completion(at)));
        self.send_late(out, device);
        Ok(())
    }

    #[cold]
    fn send_late(&mut self, out: &mut Outbox, device: &mut CapsuleDevice<'_>) {
        let mut late = std::mem::take(&mut self.late);
        late.drain(..).for_each(|posted| self.send_posted(posted, out, device));
        self.late = late;
    }

    /// Sends an asynchronous completion with its data, copied once into the send buffer.
    fn send_posted(&mut self, posted: Posted, out: &mut Outbox, device: &mut CapsuleDevice<'_>) {
        let Posted { completion, data, room_bytes } = posted;
        self.responder.remove_owed(room_bytes as usize);
        if completion.status().is(Status::ABORT_REQUESTED) {
            self.withdraw(completion.cid, out, device);
        }
        let Some(at) = data else { return self.responder.respond(completion, out) };
        let (head_bytes, room_bytes) = (self.responder.data_head_bytes(), at.reply.room_bytes as usize);
        let room = out.room(head_bytes + room_bytes);
        device.take_data(&at, room.get_mut(head_bytes..).unwrap_or_default());
        self.responder.complete(completion, head_bytes, room_bytes, None, out);
    }

    /// Sends asynchronous completions and events.
    ///
    /// # Errors
    /// The controller is gone.
    pub fn poll_completions(
        &mut self,
        out: &mut Outbox,
        device: Option<&mut CapsuleDevice<'_>>,
    ) -> Result<(), CloseReason> {
        self.queue.check()?;
        let (Queue::Device(queue), Some(device)) = (&self.queue, device) else {
            self.send_discovery_event(out);
            return self.check_port();
        };
        let at = queue.at();
        if at.1 == 0 {
            device.attend(at.0);
        }
        while !out.is_full()
            && let Some(posted) = device.take_completion(at)
        {
            self.send_posted(posted, out, device);
        }
        if self.pending.is_short() {
            self.ask(out);
        }
        Ok(())
    }

    /// Ends a connection whose port was closed.
    fn check_port(&self) -> Result<(), CloseReason> {
        let has_port = |port| self.target.directory.listing().has_port(port);
        if self.endpoints.port.is_none_or(has_port) { Ok(()) } else { Err(CloseReason::Dismissed) }
    }

    /// Sends the event that the discovery log has changed, if the host asked for it.
    fn send_discovery_event(&mut self, out: &mut Outbox) {
        let Queue::Discovery(discovery) = &mut self.queue else { return };
        discovery.controller.update(&self.target.directory);
        if let Some(event) = discovery.controller.take_event() {
            self.responder.respond(event, out);
        }
    }
}
