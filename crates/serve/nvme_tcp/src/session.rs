//! The protocol of one connection: bytes of a host in, commands executed, bytes for the host out. It has no socket, and only the
//! device that it is lent.

use std::sync::Arc;

use byway_executor::{CapsuleDevice, CapsuleQueue};
use byway_nvme_tcp::{IcReq, Incoming, Offer, Reader, Violation};
use byway_spec::tcp::PduType;

use crate::close_reason::CloseReason;
use crate::counters::ConnectionState;
use crate::endpoints::Endpoints;
use crate::established::{Established, ExecuteContext};
use crate::outbox::Outbox;
use crate::subsystem::Subsystem;
use crate::target_state::TargetState;
use crate::tls_identity::TlsIdentity;

/// Data in one H2CData PDU, at most (MAXH2CDATA).
const MAX_H2C_DATA_BYTES: u32 = 1 << 20;

/// The protocol state of a connection.
#[derive(Debug)]
pub struct Session {
    out: Outbox,
    phase: Phase,
    target: Arc<TargetState>,
    endpoints: Endpoints,
    began_ns: u64,
}

#[derive(Debug)]
enum Phase {
    /// ICReq is expected.
    Opening(Reader<IcReq>),
    /// Commands are executed.
    Established(Box<Established>),
    /// Nothing is read any more.
    Over,
}

impl Session {
    /// A new connection.
    pub fn new(target: Arc<TargetState>, endpoints: Endpoints, now_ns: u64) -> Self {
        let phase = Phase::Opening(Reader::<IcReq>::new());
        let out = Outbox::new(target.data.share());
        Self { out, phase, target, endpoints, began_ns: now_ns }
    }

    /// Bytes to send.
    #[inline]
    pub fn out(&self) -> &Outbox {
        &self.out
    }

    /// Bytes to send.
    #[inline]
    pub fn out_mut(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// The ends of the connection.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The state of its target.
    pub fn target(&self) -> &TargetState {
        &self.target
    }

    /// When it was accepted.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Takes bytes received after ICReq, until all are consumed or responses must be sent first.
    ///
    /// # Errors
    /// Why the connection ends. Pending bytes are still sent.
    pub fn receive(
        &mut self,
        input: &mut &[u8],
        device: Option<&mut CapsuleDevice<'_>>,
        now_ns: u64,
    ) -> Result<(), CloseReason> {
        match &mut self.phase {
            Phase::Established(established) => {
                established.receive(input, &mut ExecuteContext { out: &mut self.out, device, now_ns })
            }
            Phase::Opening(_) => Ok(()),
            Phase::Over => {
                *input = &[];
                Ok(())
            }
        }
    }

    /// The same as far as commands need no run lock; whether what follows needs it.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn receive_fast(
        &mut self,
        input: &mut &[u8],
        fast: (&Subsystem, &mut CapsuleQueue),
        now_ns: u64,
    ) -> Result<bool, CloseReason> {
        let Phase::Established(established) = &mut self.phase else { return Ok(true) };
        established.receive_fast(input, &mut self.out, fast, now_ns)
    }

    /// Grants the queue what it may execute without the run lock.
    pub fn grant(&self, device: &mut CapsuleDevice<'_>, fast: &mut CapsuleQueue) {
        if let Some(established) = self.established() {
            established.grant(device, fast);
        }
    }

    /// As [`Self::receive`], after the device failed: only an admin queue is served, which may read CSTS.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn receive_of_failed(&mut self, input: &mut &[u8], now_ns: u64) -> Result<(), CloseReason> {
        if self.is_admin() { self.receive(input, None, now_ns) } else { Err(CloseReason::DeviceFailed) }
    }

    /// Whether it is an admin queue of a device.
    pub fn is_admin(&self) -> bool {
        self.established().is_some_and(|established| established.queue().is_admin())
    }

    /// Whether ICReq is expected. It needs no device.
    pub fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Opening(_))
    }

    /// Takes ICReq if it is expected and complete. `tls` is the identity of the key, if the connection uses TLS.
    ///
    /// # Errors
    /// Why the connection ends.
    pub(crate) fn begin(&mut self, input: &mut &[u8], tls: Option<TlsIdentity>) -> Result<(), CloseReason> {
        let Phase::Opening(reader) = &mut self.phase else { return Ok(()) };
        let request = match reader.next(input) {
            Ok(Some(Incoming::Pdu { pdu, .. })) => pdu,
            Ok(_) => return Ok(()),
            Err(violation) => return Err(Self::turn_away(reader, &mut self.out, violation)),
        };
        if tls.is_none() && self.target.directory.listing().requires_tls(&self.endpoints) {
            Self::turn_away(reader, &mut self.out, Violation::OutOfSequence(PduType::IC_REQ));
            return Err(CloseReason::Clear);
        }
        let digests = self.target.options.digests;
        let offer = Offer { digests, max_h2c_data_bytes: MAX_H2C_DATA_BYTES, ..Offer::default() };
        let (answer, agreed) = request.answer(&offer);
        self.out.push(&answer.encode());
        let Phase::Opening(reader) = std::mem::replace(&mut self.phase, Phase::Over) else { return Ok(()) };
        let reader = reader.open(&agreed);
        let established = Established::new(reader, &agreed, self.target.clone(), self.endpoints, tls);
        self.phase = Phase::Established(Box::new(established));
        Ok(())
    }

    /// Ends a connection before ICReq with a termination request.
    #[cold]
    fn turn_away(reader: &mut Reader<IcReq>, out: &mut Outbox, violation: Violation) -> CloseReason {
        let mut request = Vec::new();
        reader.refuse(&violation, &mut request);
        out.push(&request);
        CloseReason::Violation(violation)
    }

    /// Room for solicited data that comes next, if it is large enough to be received there directly.
    pub fn direct_room(&mut self) -> Option<&mut [u8]> {
        if let Phase::Established(established) = &mut self.phase { established.direct_room() } else { None }
    }

    /// Takes `bytes` received into that room; the next [`Self::receive`] executes the command that they complete.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn received_directly(&mut self, bytes: usize) -> Result<(), CloseReason> {
        let Phase::Established(established) = &mut self.phase else { return Ok(()) };
        established.received_directly(bytes, &mut self.out)
    }

    /// Whether much solicited data is expected.
    pub fn awaits_large(&self) -> bool {
        self.established().is_some_and(Established::awaits_large)
    }

    /// Whether the host owes solicited data.
    pub fn is_owed(&self) -> bool {
        self.established().is_some_and(Established::is_owed)
    }

    /// Bytes of buffers held for the host.
    pub fn held_bytes(&self) -> usize {
        self.out.room_bytes() + self.established().map_or(0, Established::held_bytes)
    }

    /// The connection after ICReq.
    pub fn established(&self) -> Option<&Established> {
        if let Phase::Established(established) = &self.phase { Some(established) } else { None }
    }

    /// The state, for metrics.
    pub fn state(&self) -> ConnectionState {
        self.established().map_or(ConnectionState::Connecting, Established::state)
    }

    /// Whether it is an I/O queue of a device.
    pub fn is_io(&self) -> bool {
        self.established().is_some_and(|established| established.queue().is_io())
    }

    /// Whether what comes next may affect more than its own queue.
    pub fn needs_all(&self) -> bool {
        self.established().is_some_and(Established::needs_all)
    }

    /// The subsystem that is to answer a Connect.
    pub fn requested_subsystem(&self) -> Option<Arc<Subsystem>> {
        self.established()?.requested_subsystem()
    }

    /// Has the subsystem answer the Connect; whether the host is connected.
    pub fn admit(&mut self, subsystem: &Subsystem, device: &mut CapsuleDevice<'_>, now_ns: u64) -> bool {
        let Phase::Established(established) = &mut self.phase else { return false };
        established.admit(subsystem, &mut self.out, device, now_ns)
    }

    /// Whether asynchronous completions are possible, or the queue is gone.
    pub fn waits(&self) -> bool {
        self.established().is_some_and(Established::waits)
    }

    /// Whether commands wait for data or for their fused half, so that they can be aborted.
    pub fn has_waiting_commands(&self) -> bool {
        self.established().is_some_and(Established::has_waiting_commands)
    }

    /// Frees spare buffers of an idle connection.
    pub fn release_buffers(&mut self) {
        self.out.release_buffers();
        if let Phase::Established(established) = &mut self.phase {
            established.release_buffers();
        }
    }

    /// Sends asynchronous completions and events.
    ///
    /// # Errors
    /// The controller is gone.
    pub fn poll_completions(&mut self, device: Option<&mut CapsuleDevice<'_>>) -> Result<(), CloseReason> {
        let Phase::Established(established) = &mut self.phase else { return Ok(()) };
        established.poll_completions(&mut self.out, device)
    }

    /// Processes a stored authentication message, without the device.
    ///
    /// # Errors
    /// The host failed to authenticate.
    pub fn authenticate(&mut self, now_ns: u64) -> Result<(), CloseReason> {
        let Phase::Established(established) = &mut self.phase else { return Ok(()) };
        established.authenticate(&mut self.out, now_ns)
    }

    /// Reads nothing any more.
    pub fn close(&mut self) {
        self.phase = Phase::Over;
    }

    /// The same, and removes its queue from the device.
    pub fn leave(&mut self, subsystem: &Subsystem, device: &mut CapsuleDevice<'_>, why: &CloseReason) {
        if let Phase::Established(established) = std::mem::replace(&mut self.phase, Phase::Over) {
            established.leave(subsystem, device, why);
        }
    }
}
