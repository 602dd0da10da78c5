//! PDUs of a connection, their data, and commands whose data is complete.
//!
//! A command runs to completion where it was read. In-capsule data is borrowed from the receive buffer, solicited data from the
//! command's own buffer; data that the command reads is written into the send buffer.

use byway_controller::{CAPSULE_DATA_BYTES, admin_moves_data};
use byway_nvme_tcp::{DataCheck, HostPdu, Incoming, Violation};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::{Command, Status};

use super::{Established, ExecuteContext};
use crate::close_reason::CloseReason;
use crate::data::{Data, data_of, reply_bytes};
use crate::outbox::Outbox;
use crate::pending::Coming;
use crate::queue::Queue;

/// Bytes of reads in external engines, from which on nothing more is executed: two of the largest commands.
pub(super) const OWED_BYTES: usize = 32 << 20;

/// The data being received.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Receiving {
    /// None.
    Nothing,
    /// In-capsule data of this command.
    Capsule { command: Command, bytes: u32 },
    /// Solicited data.
    Solicited(Coming),
    /// Data to drop: of a termination request.
    Dropped,
}

impl Established {
    /// Takes received bytes until all are consumed, or responses must be sent first.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut ExecuteContext<'_, '_>) -> Result<(), CloseReason> {
        self.queue.check()?;
        self.queue.heard(cx.now_ns);
        if let Some(command) = self.deferred.take() {
            self.arrive(&command, None, cx)?;
        }
        // Data in one piece is borrowed; it is copied only if the end of the PDU is still to come.
        let mut borrowed: Option<&[u8]> = None;
        while self.reads_on(cx) {
            match self.reader.next(input) {
                Ok(None) => break,
                Ok(Some(Incoming::Pdu { pdu: HostPdu::Command(command), data_bytes: 0 }))
                    if self.must_defer(&command, cx) =>
                {
                    self.responder.advance_head();
                    self.deferred = Some(command);
                }
                Ok(Some(Incoming::Pdu { pdu, data_bytes })) => self.take(pdu, data_bytes, cx)?,
                Ok(Some(Incoming::Data(piece))) => borrowed = self.take_data(piece),
                Ok(Some(Incoming::End(check))) => {
                    self.take_end(borrowed.take(), check == DataCheck::Intact, cx)?;
                }
                Err(violation) => return Err(self.refuse(violation, cx.out)),
            }
        }
        borrowed.into_iter().for_each(|piece| self.gathered.extend_from_slice(piece));
        Ok(())
    }

    /// Whether an admin command is left to a caller with every queue in the controller.
    fn must_defer(&self, command: &Command, cx: &ExecuteContext<'_, '_>) -> bool {
        self.queue.is_admin() && cx.device.as_ref().is_some_and(|device| !device.may_execute_admin(command))
    }

    /// Whether what comes next may affect more than its own queue: all of an admin queue but commands without data.
    pub fn needs_all(&self) -> bool {
        let is_whole = self.deferred.is_none() && matches!(self.incoming, Receiving::Nothing);
        self.queue.is_admin() && !is_whole
    }

    /// Whether to read on: the last command left nothing to be done in another way, and the host need not wait.
    fn reads_on(&self, cx: &ExecuteContext<'_, '_>) -> bool {
        let has_work = self.admission.is_some()
            || self.lock.as_ref().is_some_and(|lock| lock.has_stored())
            || self.needs_all() && cx.device.as_ref().is_some_and(|device| !device.is_alone());
        let must_wait = self.must_wait(cx) && matches!(self.incoming, Receiving::Nothing);
        !has_work && !must_wait
    }

    /// Whether nothing more may be executed until the host takes responses or external engines complete commands. Admin commands
    /// do not wait for engines.
    fn must_wait(&self, cx: &ExecuteContext<'_, '_>) -> bool {
        let is_full = || cx.device.as_ref().is_some_and(|device| device.is_full());
        let is_behind = self.responder.owed_bytes() >= OWED_BYTES || is_full();
        cx.out.is_full() || (is_behind && !self.queue.is_admin())
    }

    /// Ends the connection with a termination request.
    pub(super) fn refuse(&mut self, violation: Violation, out: &mut Outbox) -> CloseReason {
        let mut request = Vec::new();
        self.reader.refuse(&violation, &mut request);
        out.push(&request);
        CloseReason::Violation(violation)
    }

    pub(super) fn take(
        &mut self,
        pdu: HostPdu,
        data_bytes: u32,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        match pdu {
            HostPdu::Command(command) => {
                self.responder.advance_head();
                if data_bytes == 0 {
                    return self.arrive(&command, None, cx);
                }
                self.incoming = Receiving::Capsule { command, bytes: data_bytes };
            }
            HostPdu::Data(data) => match self.pending.accept(&data, data_bytes) {
                Ok(coming) => self.incoming = Receiving::Solicited(coming),
                Err(violation) => return Err(self.refuse(violation, cx.out)),
            },
            HostPdu::Terminate(request) if data_bytes == 0 => return Err(CloseReason::Terminated(request)),
            HostPdu::Terminate(request) => {
                self.incoming = Receiving::Dropped;
                return Err(CloseReason::Terminated(request));
            }
        }
        Ok(())
    }

    /// Takes a piece of data; returns it if it is all of a command's in-capsule data.
    pub(super) fn take_data<'a>(&mut self, piece: &'a [u8]) -> Option<&'a [u8]> {
        match self.incoming {
            Receiving::Capsule { bytes, .. } if piece.len() == bytes as usize => return Some(piece),
            Receiving::Capsule { .. } => self.gathered.extend_from_slice(piece),
            Receiving::Solicited(coming) => self.pending.take(coming, piece),
            Receiving::Nothing | Receiving::Dropped => {}
        }
        None
    }

    pub(super) fn take_end(
        &mut self,
        borrowed: Option<&[u8]>,
        is_intact: bool,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        match std::mem::replace(&mut self.incoming, Receiving::Nothing) {
            Receiving::Capsule { command, .. } if !is_intact => {
                self.gathered.clear();
                self.check_room()?;
                if self.is_fused(&command) {
                    return self.arrive_fused(&command, Err(Status::TRANSIENT_TRANSPORT_ERROR), cx);
                }
                self.responder.fail(&command, Status::TRANSIENT_TRANSPORT_ERROR, cx.out);
                Ok(())
            }
            Receiving::Capsule { command, .. } => {
                let mut gathered = std::mem::take(&mut self.gathered);
                let arrived = self.arrive(&command, borrowed.or(Some(&gathered)), cx);
                gathered.clear();
                self.gathered = gathered;
                arrived
            }
            Receiving::Solicited(coming) => self.take_solicited(coming, is_intact, cx),
            Receiving::Nothing | Receiving::Dropped => Ok(()),
        }
    }

    /// Ends a PDU of solicited data, and executes the command when its data is complete.
    fn take_solicited(
        &mut self,
        coming: Coming,
        is_intact: bool,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let Some(whole) = self.pending.end(coming, is_intact) else {
            self.ask(cx.out);
            return Ok(());
        };
        let done = match whole.is_corrupt {
            _ if self.fused.take_data(&whole) => self.settle_fused(cx),
            _ if !self.claim(&whole.command, cx) => Ok(()),
            true => {
                self.responder.fail(&whole.command, Status::TRANSIENT_TRANSPORT_ERROR, cx.out);
                Ok(())
            }
            false => self.execute(&whole.command, Some(whole.data()), reply_bytes(&whole.command), cx),
        };
        self.pending.reuse(whole);
        self.ask(cx.out);
        done
    }

    /// Takes a command with its in-capsule data.
    fn arrive(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        self.check_room()?;
        if let Some(status) = self.lock.as_ref().and_then(|lock| lock.refusal(command)) {
            self.responder.fail(command, status, cx.out);
            return Ok(());
        }
        if self.is_fused(command) {
            return self.arrive_fused(command, Ok(data), cx);
        }
        self.arrive_single(command, data, cx)
    }

    /// The same for a command that is not fused.
    pub(super) fn arrive_single(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let moves_data = self.moves_data(command, cx);
        match data_of(command, moves_data, data.map(<[u8]>::len)) {
            Ok(Data::InCapsule) => {
                self.execute(command, Some(data.unwrap_or_default()), reply_bytes(command), cx)
            }
            Ok(Data::None) => self.execute(command, None, 0, cx),
            Ok(Data::ToHost(bytes)) => self.execute(command, None, bytes, cx),
            // Fabrics and discovery commands have in-capsule data only.
            Ok(Data::AtHost) if !self.queue.is_of_device() => {
                self.responder.fail(command, Status::SGL_TYPE_INVALID.with_dnr(), cx.out);
                Ok(())
            }
            Ok(Data::AtHost) => {
                self.register_waiting(command, cx);
                self.pending.wait(*command);
                self.ask(cx.out);
                Ok(())
            }
            Err(status) => {
                self.responder.fail(command, status, cx.out);
                Ok(())
            }
        }
    }

    /// Whether a command moves data, whatever its descriptor says. For fabrics commands the type says so.
    #[inline]
    fn moves_data(&self, command: &Command, cx: &ExecuteContext<'_, '_>) -> bool {
        if command.opcode() == AdminOpcode::FABRICS.0 {
            return true;
        }
        match (&self.queue, &cx.device) {
            (Queue::Device(queue), Some(device)) => device.moves_data(queue.qid, command),
            (Queue::Discovery(_), _) => admin_moves_data(command),
            _ => true,
        }
    }

    pub(super) fn check_room(&self) -> Result<(), CloseReason> {
        let taken = self.responder.outstanding() + self.pending.len() + self.fused.waiting();
        if taken >= self.responder.entries() { Err(CloseReason::Overrun) } else { Ok(()) }
    }

    /// Solicits data of waiting commands, within the budget.
    pub(super) fn ask(&mut self, out: &mut Outbox) {
        while let Some(asked) = self.pending.ask() {
            self.responder.solicit(&asked, out);
        }
    }

    /// Raises the limit of in-capsule data to that of I/O queues.
    pub(super) fn take_io_capsules(&mut self) {
        self.reader.set_capsule_data_bytes(CAPSULE_DATA_BYTES);
    }
}
