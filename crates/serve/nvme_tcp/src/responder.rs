//! Responses of a connection: SQ head pointer, outstanding commands, and the PDUs that complete them.

use byway_nvme_tcp::{C2hData, C2hEnd, CommandId, ControllerPdu, Digest, ReadyToTransfer, Writer};
use byway_spec::fabrics::SQHD_NO_FLOW_CONTROL;
use byway_spec::{Command, Completion, Status};

use crate::discovery::Answer;
use crate::outbox::Outbox;

/// The sending half of a connection.
#[derive(Debug)]
pub struct Responder {
    writer: Writer<ControllerPdu>,
    /// Received commands, modulo the entries of the queue (SQHD).
    head: u32,
    entries: u32,
    /// The host disabled SQ flow control.
    no_flow_control: bool,
    /// Commands that the device has and that are not completed.
    outstanding: usize,
    /// Bytes of reads that external engines have, or whose data is not sent.
    owed_bytes: usize,
}

impl Responder {
    /// The responses of a connection that is not yet connected to a queue.
    pub fn new(writer: Writer<ControllerPdu>) -> Self {
        Self { writer, head: 0, entries: u32::MAX, no_flow_control: false, outstanding: 0, owed_bytes: 0 }
    }

    /// Binds it to a queue of `entries`; Connect was the first command.
    pub fn bind(&mut self, entries: u32, no_flow_control: bool) {
        self.entries = entries;
        self.head = 1 % entries;
        self.no_flow_control = no_flow_control;
    }

    /// Counts a received command.
    #[inline]
    pub fn advance_head(&mut self) {
        self.head = if self.head + 1 < self.entries { self.head + 1 } else { 0 };
    }

    /// Entries of the queue.
    pub fn entries(&self) -> usize {
        self.entries as usize
    }

    /// Commands that the device has and that are not completed.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Counts commands that the device took.
    #[inline]
    pub fn add_outstanding(&mut self, commands: usize) {
        self.outstanding += commands;
    }

    /// Forgets all commands: the controller was reset.
    pub fn clear_outstanding(&mut self) {
        self.outstanding = 0;
    }

    /// Bytes of reads that are not sent.
    pub fn owed_bytes(&self) -> usize {
        self.owed_bytes
    }

    /// Counts the data of a read that completes later.
    pub fn add_owed(&mut self, bytes: usize) {
        self.owed_bytes += bytes;
    }

    /// Counts the data of a read that has completed.
    pub fn remove_owed(&mut self, bytes: usize) {
        self.owed_bytes = self.owed_bytes.saturating_sub(bytes);
    }

    /// Bytes of the header in front of read data.
    #[inline]
    pub fn data_head_bytes(&self) -> usize {
        self.writer.data_head_bytes()
    }

    /// Whether data PDUs carry a digest.
    #[inline]
    pub fn digests_data(&self) -> bool {
        self.writer.digests_data()
    }

    /// Sends an R2T.
    pub fn solicit(&mut self, request: &ReadyToTransfer, out: &mut Outbox) {
        out.push(self.writer.ready_to_transfer(request).head());
    }

    /// Sends a completion with a result.
    pub fn send_result(&self, command: &Command, status: Status, result: u64, out: &mut Outbox) {
        self.send(Completion::new(0, 0, command.cid(), status).with_result(result), out);
    }

    /// Sends a completion; if it succeeded, with the data that was written into the room of `out`. `known` is the data's digest.
    pub fn complete(
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

    /// Sends the completion of an outstanding command.
    pub fn respond(&mut self, completion: Completion, out: &mut Outbox) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.send(completion, out);
    }

    fn send(&self, completion: Completion, out: &mut Outbox) {
        let sqhd = if self.no_flow_control { SQHD_NO_FLOW_CONTROL } else { self.head as u16 };
        out.push(self.writer.response(&Completion { sqhd, ..completion }).head());
    }

    /// Fails a command that never reached the device.
    pub fn fail(&self, command: &Command, status: Status, out: &mut Outbox) {
        self.send(Completion::new(0, 0, command.cid(), status), out);
    }

    /// Sends the answer of a discovery controller, or of authentication.
    pub fn answer(&mut self, command: &Command, answer: Answer, reply_bytes: usize, out: &mut Outbox) {
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
}
