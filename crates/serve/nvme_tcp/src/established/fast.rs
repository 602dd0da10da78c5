//! Commands that are executed without the run lock (decision 73): where they were read, as all others are.

use byway_executor::{CapsuleDevice, CapsuleQueue, FastCommand};
use byway_nvme_tcp::{DataCheck, HostPdu, Incoming};
use byway_spec::{Command, Completion};

use super::receive::{OWED_BYTES, Receiving};
use super::{Established, ExecuteContext};
use crate::close_reason::CloseReason;
use crate::data::{Data, data_of};
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::subsystem::{Entry, Subsystem};

impl Established {
    /// Takes received bytes as far as their commands need no run lock; whether what follows needs it. The rights of `fast` stand for the
    /// check of the queue.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn receive_fast(
        &mut self,
        input: &mut &[u8],
        out: &mut Outbox,
        (subsystem, fast): (&Subsystem, &mut CapsuleQueue),
        now_ns: u64,
    ) -> Result<bool, CloseReason> {
        if !self.may_be_fast() {
            return Ok(true);
        }
        self.queue.heard(now_ns);
        let mut borrowed: Option<&[u8]> = None;
        while !out.is_full() {
            match self.reader.next(input) {
                Ok(None) => break,
                Ok(Some(Incoming::Pdu { pdu: HostPdu::Command(command), data_bytes: 0 })) => {
                    self.responder.advance_head();
                    if !self.read_fast(&command, out, fast)? {
                        self.deferred = Some(command);
                        return Ok(true);
                    }
                }
                Ok(Some(Incoming::Pdu { pdu, data_bytes })) => {
                    let is_fast =
                        matches!(&pdu, HostPdu::Command(command) if is_store(command, data_bytes, fast));
                    self.take(pdu, data_bytes, &mut ExecuteContext { out, device: None, now_ns })?;
                    if !is_fast {
                        return Ok(true);
                    }
                }
                Ok(Some(Incoming::Data(piece))) => borrowed = self.take_data(piece),
                Ok(Some(Incoming::End(check))) => {
                    let (data, is_intact) = (borrowed.take(), check == DataCheck::Intact);
                    if !(is_intact && self.store_fast(data, out, fast)?) {
                        let end = |device: &mut CapsuleDevice<'_>| {
                            self.take_end(
                                data,
                                is_intact,
                                &mut ExecuteContext { out, device: Some(device), now_ns },
                            )
                        };
                        subsystem.work(Entry::Recalled, end).unwrap_or(Err(CloseReason::DeviceFailed))?;
                    }
                }
                Err(violation) => return Err(self.refuse(violation, out)),
            }
        }
        borrowed.into_iter().for_each(|piece| self.gathered.extend_from_slice(piece));
        Ok(false)
    }

    /// Grants the queue what it may execute without the run lock, under it.
    pub fn grant(&self, device: &mut CapsuleDevice<'_>, fast: &mut CapsuleQueue) {
        if let Queue::Device(queue) = &self.queue
            && self.queue.check().is_ok()
        {
            device.grant(queue.at(), fast);
        }
    }

    /// Whether the connection is between commands, and the next one has only itself to wait for.
    #[inline]
    fn may_be_fast(&self) -> bool {
        matches!(self.incoming, Receiving::Nothing)
            && self.admission.is_none()
            && !self.fused.awaits_second()
            && self.responder.owed_bytes() < OWED_BYTES
            && self.lock.as_ref().is_none_or(|lock| lock.is_authenticated() && !lock.has_stored())
    }

    /// Executes a command that reads; false where that takes the run lock.
    #[inline]
    fn read_fast(
        &mut self,
        command: &Command,
        out: &mut Outbox,
        fast: &mut CapsuleQueue,
    ) -> Result<bool, CloseReason> {
        let Some(kind @ (FastCommand::Read | FastCommand::Get)) = fast.kind_of(command) else {
            return Ok(false);
        };
        let Ok(Data::ToHost(reply_bytes @ 1..)) = data_of(command, true, None) else { return Ok(false) };
        self.check_room()?;
        if !out.admits(reply_bytes) {
            return Ok(false);
        }
        let head_bytes = self.responder.data_head_bytes();
        let room = out.room(head_bytes + reply_bytes);
        let reply = room.get_mut(head_bytes..).unwrap_or_default();
        let Some(answer) = fast.execute(kind, command, None, reply) else {
            out.retract(reply_bytes);
            return Ok(false);
        };
        let completion = Completion::new(0, 0, command.cid(), answer.status).with_result(answer.dw0.into());
        self.responder.add_outstanding(1);
        self.responder.complete(completion, head_bytes, reply_bytes, None, out);
        Ok(true)
    }

    /// Executes the store whose data has come; false where that takes the run lock in another way.
    #[inline]
    fn store_fast(
        &mut self,
        borrowed: Option<&[u8]>,
        out: &mut Outbox,
        fast: &mut CapsuleQueue,
    ) -> Result<bool, CloseReason> {
        let Receiving::Capsule { command, .. } = self.incoming else { return Ok(false) };
        self.check_room()?;
        let data = borrowed.unwrap_or(&self.gathered);
        let Some(answer) = fast.execute(FastCommand::Put, &command, Some(data), &mut []) else {
            return Ok(false);
        };
        self.incoming = Receiving::Nothing;
        self.gathered.clear();
        let completion = Completion::new(0, 0, command.cid(), answer.status).with_result(answer.dw0.into());
        self.responder.add_outstanding(1);
        self.responder.respond(completion, out);
        Ok(true)
    }
}

/// Whether a command with so much data in its capsule is a store for the fast path.
fn is_store(command: &Command, data_bytes: u32, fast: &CapsuleQueue) -> bool {
    fast.kind_of(command) == Some(FastCommand::Put)
        && data_of(command, true, Some(data_bytes as usize)) == Ok(Data::InCapsule)
}
