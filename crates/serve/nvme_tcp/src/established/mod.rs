//! A connection after ICReq: commands of its host in, responses out.
//!
//! | file | what it does |
//! |---|---|
//! | `receive.rs` | PDUs and their data; commands whose data is complete |
//! | `execute.rs` | executes commands; sends asynchronous completions |
//! | `fast.rs` | executes commands that need no run lock |
//! | `fused.rs`, `abort.rs` | pairs of fused commands; aborts of commands that wait |
//! | `connect.rs`, `fabrics.rs`, `authenticate.rs` | fabrics commands |

mod abort;
mod authenticate;
mod connect;
mod execute;
mod fabrics;
mod fast;
mod fused;
mod receive;

use std::sync::Arc;

use byway_controller::Posted;
use byway_executor::CapsuleDevice;
use byway_nvme_tcp::{Agreement, ControllerPdu, HostPdu, Reader, Writer};
use byway_spec::Command;

use crate::close_reason::CloseReason;
use crate::counters::ConnectionState;
use crate::endpoints::Endpoints;
use crate::fused_pairs::FusedPairs;
use crate::lock::Lock;
use crate::outbox::Outbox;
use crate::pending::Pending;
use crate::queue::Queue;
use crate::responder::Responder;
use crate::subsystem::Subsystem;
use crate::target_state::TargetState;
use crate::tls_identity::TlsIdentity;

use connect::Admission;
use receive::Receiving;

/// Less data than this is received together with what follows it.
const DIRECT_BYTES_MIN: usize = 4 << 10;

/// A connection after ICReq.
#[derive(Debug)]
pub struct Established {
    reader: Reader<HostPdu>,
    responder: Responder,
    queue: Queue,
    /// A checked Connect that its subsystem is to answer.
    admission: Option<Box<Admission>>,
    /// Authentication; `None` where none is required.
    lock: Option<Box<Lock>>,
    incoming: Receiving,
    /// A command without data that came without the run lock and needs it.
    deferred: Option<Command>,
    /// In-capsule data that arrived in pieces.
    gathered: Vec<u8>,
    pending: Pending,
    fused: FusedPairs,
    target: Arc<TargetState>,
    endpoints: Endpoints,
    /// The identity of the TLS key, if the connection uses TLS.
    tls: Option<TlsIdentity>,
    /// A refused Connect was reported.
    is_refused: bool,
    /// Completions of other commands, found while waiting for one.
    late: Vec<Posted>,
}

/// What the thread lends a connection for one call: send buffer, locked device, time.
pub struct ExecuteContext<'a, 'd> {
    /// The send buffer.
    pub out: &'a mut Outbox,
    /// The subsystem's device, under its run lock; `None` before Connect and for discovery.
    pub device: Option<&'a mut CapsuleDevice<'d>>,
    /// The time of the receive.
    pub now_ns: u64,
}

impl Established {
    /// A connection that has agreed on its parameters and awaits Connect.
    pub(crate) fn new(
        reader: Reader<HostPdu>,
        agreed: &Agreement,
        target: Arc<TargetState>,
        endpoints: Endpoints,
        tls: Option<TlsIdentity>,
    ) -> Self {
        Self {
            reader,
            responder: Responder::new(Writer::<ControllerPdu>::new(agreed)),
            queue: Queue::Unconnected,
            admission: None,
            lock: None,
            incoming: Receiving::Nothing,
            deferred: None,
            gathered: Vec::new(),
            pending: Pending::new(target.data.share()),
            fused: FusedPairs::default(),
            target,
            endpoints,
            tls,
            is_refused: false,
            late: Vec::new(),
        }
    }

    /// The queue that the connection is bound to.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Authentication; `None` where none is required.
    pub(crate) fn lock(&self) -> Option<&Lock> {
        self.lock.as_deref()
    }

    /// The subsystem that is to answer a Connect.
    pub fn requested_subsystem(&self) -> Option<Arc<Subsystem>> {
        self.admission.as_ref().map(|admission| admission.subsystem().clone())
    }

    /// Room for solicited data that comes next, if it is large enough to be received there directly.
    pub fn direct_room(&mut self) -> Option<&mut [u8]> {
        let Receiving::Solicited(coming) = self.incoming else { return None };
        let left = self.reader.data_left_bytes() as usize;
        if left < DIRECT_BYTES_MIN {
            return None;
        }
        Some(self.pending.room(coming, left)).filter(|room| !room.is_empty())
    }

    /// Takes `bytes` received into that room; [`Self::receive`] executes the command that they complete.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn received_directly(&mut self, bytes: usize, out: &mut Outbox) -> Result<(), CloseReason> {
        let Receiving::Solicited(coming) = self.incoming else { return Ok(()) };
        let mut piece = self.pending.received(coming, bytes);
        while !piece.is_empty() {
            if let Err(violation) = self.reader.next(&mut piece) {
                return Err(self.refuse(violation, out));
            }
        }
        Ok(())
    }

    /// Whether much solicited data is expected.
    pub fn awaits_large(&self) -> bool {
        self.pending.awaits_large()
    }

    /// Whether the host owes solicited data.
    pub fn is_owed(&self) -> bool {
        self.pending.is_owed()
    }

    /// Bytes of buffers, without the send buffer.
    pub fn held_bytes(&self) -> usize {
        self.gathered.len() + self.pending.held_bytes() + self.fused.held_bytes()
    }

    /// The state, for metrics.
    pub fn state(&self) -> ConnectionState {
        match &self.queue {
            _ if self.lock.as_ref().is_some_and(|lock| !lock.is_authenticated()) => {
                ConnectionState::Authenticating
            }
            Queue::Unconnected => ConnectionState::Connecting,
            Queue::Device(queue) if queue.qid == 0 => ConnectionState::Admin,
            Queue::Device(_) => ConnectionState::Io,
            Queue::Discovery(_) => ConnectionState::Discovery,
        }
    }

    /// Whether asynchronous completions are possible, or the queue is gone.
    pub fn waits(&self) -> bool {
        self.responder.outstanding() > 0
            || self.pending.is_short()
            || self.queue.has_events()
            || self.queue.check().is_err()
    }

    /// Whether commands wait for data or for their fused half, so that they can be aborted.
    pub fn has_waiting_commands(&self) -> bool {
        self.pending.len() > 0 || self.fused.waiting() > 0
    }

    /// Frees spare buffers of an idle connection.
    pub fn release_buffers(&mut self) {
        self.pending.release_buffers();
    }
}
