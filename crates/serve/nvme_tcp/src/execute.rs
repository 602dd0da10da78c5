//! Executing commands: on the device, or by a discovery controller; and what is sent of it.

use byway_controller::{FusedCommand, Posted};
use byway_local::CapsuleDevice;
use byway_nvme_tcp::{C2hData, C2hEnd, CommandId, Digest};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::fabrics::SQHD_NO_FLOW_CONTROL;
use byway_spec::{Command, Completion, Status};

use crate::discovery::Answer;
use crate::ended::Ended;
use crate::outbox::Outbox;
use crate::queue::{DeviceQueue, Queue};
use crate::session::{Hand, Open};

impl Open {
    /// Executes a command that has all of its data, and whose host takes `reply_bytes`.
    pub(crate) fn execute(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        reply_bytes: usize,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        if command.opcode() == AdminOpcode::FABRICS.0 {
            return self.execute_fabrics(command, data, hand);
        }
        match &mut self.queue {
            Queue::Unconnected => {
                self.fail(command, Status::COMMAND_SEQUENCE_ERROR.with_dnr(), hand.out);
                Ok(())
            }
            Queue::Discovery(discovery) => {
                discovery.controller.note(&self.premises.directory);
                let answer = discovery.controller.execute(command);
                self.answer(command, answer, reply_bytes, hand.out);
                self.tell_discovered(hand.out);
                Ok(())
            }
            Queue::Device(queue) => {
                let at = queue.at();
                self.execute_at(at, command, data, reply_bytes, hand)?;
                if at.1 == 0 { self.after_admin(command, hand) } else { Ok(()) }
            }
        }
    }

    /// Executes a command on the device: what it reads is written behind the head of the PDU that brings it.
    pub(crate) fn execute_at(
        &mut self,
        at: DeviceQueue,
        command: &Command,
        data: Option<&[u8]>,
        reply_bytes: usize,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        let Hand { out, device: Some(device), .. } = hand else { return Err(Ended::DeviceFailed) };
        if !out.admits(reply_bytes) {
            self.fail(command, Status::COMMAND_INTERRUPTED, out);
            return Ok(());
        }
        let head_bytes = if reply_bytes > 0 { self.writer.data_head_bytes() } else { 0 };
        let room = out.room(head_bytes + reply_bytes);
        let reply = room.get_mut(head_bytes..).unwrap_or_default();
        let kept = device.execute(at, command, data, reply, self.writer.digests_data());
        let kept = kept.map_err(|_| Ended::Overrun)?.map(Digest::known);
        self.outstanding += 1;
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
            self.complete(completion, head_bytes, reply_bytes, kept, out);
        }
        if mine.is_none() {
            self.owed_bytes += reply_bytes;
        }
        if !self.late.is_empty() {
            self.send_late(out, device);
        }
        Ok(())
    }

    /// Executes two fused commands on the device. They read nothing.
    pub(crate) fn execute_fused(
        &mut self,
        at: DeviceQueue,
        pair: [FusedCommand<'_>; 2],
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        let Hand { out, device: Some(device), .. } = hand else { return Err(Ended::DeviceFailed) };
        device.execute_fused(at, pair).map_err(|_| Ended::Overrun)?;
        self.outstanding += pair.len();
        self.late.extend(std::iter::from_fn(|| device.take_completion(at)));
        self.send_late(out, device);
        Ok(())
    }

    /// Sends a completion, with the data that stands in the room of `out` if the command succeeded.
    /// Its digest may be known.
    fn complete(
        &mut self,
        completion: Completion,
        head_bytes: usize,
        reply_bytes: usize,
        known: Option<Digest>,
        out: &mut Outbox,
    ) {
        if reply_bytes == 0 || !completion.status().is_success() {
            return self.respond(completion, out);
        }
        let alone = self.no_flow_control && completion.result() == 0;
        let end = if alone { C2hEnd::Success } else { C2hEnd::Response };
        let at = C2hData { command: CommandId(completion.cid), offset_bytes: 0, end };
        let room = out.room(head_bytes + reply_bytes);
        let (head, reply) = room.split_at_mut(head_bytes);
        let pieces = [&*reply];
        let frame = self.writer.data(&at, &pieces);
        head.copy_from_slice(frame.head());
        let digest = frame.tail_by(known);
        out.commit(head_bytes + reply_bytes);
        digest.into_iter().for_each(|digest| out.push(&digest));
        match alone {
            true => self.outstanding = self.outstanding.saturating_sub(1),
            false => self.respond(completion, out),
        }
    }

    #[cold]
    fn send_late(&mut self, out: &mut Outbox, device: &mut CapsuleDevice<'_>) {
        let mut late = std::mem::take(&mut self.late);
        late.drain(..).for_each(|posted| self.send_posted(posted, out, device));
        self.late = late;
    }

    /// Sends a completion that came by itself, with the data that goes with it: moved once, to where it is sent from.
    fn send_posted(&mut self, posted: Posted, out: &mut Outbox, device: &mut CapsuleDevice<'_>) {
        let Posted { completion, data, room_bytes } = posted;
        self.owed_bytes = self.owed_bytes.saturating_sub(room_bytes as usize);
        if completion.status().is(Status::ABORT_REQUESTED) {
            self.withdraw(completion.cid, out, device);
        }
        let Some(at) = data else { return self.respond(completion, out) };
        let (head_bytes, room_bytes) = (self.writer.data_head_bytes(), at.reply.room_bytes as usize);
        let room = out.room(head_bytes + room_bytes);
        device.take_data(&at, room.get_mut(head_bytes..).unwrap_or_default());
        self.complete(completion, head_bytes, room_bytes, None, out);
    }

    /// Answers a command that the device had.
    fn respond(&mut self, completion: Completion, out: &mut Outbox) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.send(completion, out);
    }

    /// Sends a completion.
    pub(crate) fn send(&self, completion: Completion, out: &mut Outbox) {
        let sqhd = if self.no_flow_control { SQHD_NO_FLOW_CONTROL } else { self.head as u16 };
        out.push(self.writer.response(&Completion { sqhd, ..completion }).head());
    }

    /// Answers a command that the device never had.
    pub(crate) fn fail(&self, command: &Command, status: Status, out: &mut Outbox) {
        self.send(Completion::new(0, 0, command.cid(), status), out);
    }

    /// Answers a command of a discovery controller, or of authentication.
    pub(crate) fn answer(&mut self, command: &Command, answer: Answer, reply_bytes: usize, out: &mut Outbox) {
        let done = Completion::new(0, 0, command.cid(), Status::SUCCESS);
        match answer {
            Answer::Data(_) if !out.admits(reply_bytes) => {
                self.fail(command, Status::COMMAND_INTERRUPTED, out);
            }
            Answer::Data(data) if data.len() <= reply_bytes => {
                let head_bytes = self.writer.data_head_bytes();
                let room = out.room(head_bytes + reply_bytes);
                let reply = room.get_mut(head_bytes..).unwrap_or_default();
                let (filled, rest) = reply.split_at_mut(data.len());
                filled.copy_from_slice(&data);
                rest.fill(0);
                self.outstanding += 1;
                self.complete(done, head_bytes, reply_bytes, None, out);
            }
            Answer::Data(_) => self.fail(command, Status::DATA_SGL_LENGTH_INVALID.with_dnr(), out),
            Answer::Done(dw0) => self.send(done.with_result(dw0.into()), out),
            Answer::Later => self.outstanding += 1,
            Answer::Failed(status) => self.fail(command, status, out),
        }
    }

    /// Sends what has come of commands by itself.
    pub(crate) fn look(
        &mut self,
        out: &mut Outbox,
        device: Option<&mut CapsuleDevice<'_>>,
    ) -> Result<(), Ended> {
        self.queue.check()?;
        let (Queue::Device(queue), Some(device)) = (&self.queue, device) else {
            self.tell_discovered(out);
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

    /// A host that came by a port that is no more has nobody to ask.
    fn check_port(&self) -> Result<(), Ended> {
        let has_port = |port| self.premises.directory.listing().has_port(port);
        if self.place.port.is_none_or(has_port) { Ok(()) } else { Err(Ended::Dismissed) }
    }

    /// Tells a host that asks a discovery controller for events that what it was told is out of date.
    fn tell_discovered(&mut self, out: &mut Outbox) {
        let Queue::Discovery(discovery) = &mut self.queue else { return };
        discovery.controller.note(&self.premises.directory);
        if let Some(event) = discovery.controller.take_event() {
            self.respond(event, out);
        }
    }
}
