//! One connection: bytes of a host in, commands executed, bytes for the host out. It has no socket, and no device but the one
//! that it is lent.

use std::sync::Arc;

use byway_controller::Posted;
use byway_fabrics::authentication::Parties;
use byway_fabrics::tls::TlsPsk;
use byway_local::CapsuleDevice;
use byway_nvme_tcp::{ControllerPdu, HostPdu, IcReq, Incoming, Offer, Reader, Violation, Writer};
use byway_spec::tcp::PduType;

use crate::authentication::Lock;
use crate::connect::Admission;
use crate::counters::ConnectionState;
use crate::ended::Ended;
use crate::fused::FusedPairs;
use crate::outbox::Outbox;
use crate::pending::Pending;
use crate::premises::{Place, Premises};
use crate::queue::Queue;
use crate::receive::Receiving;
use crate::site::Site;

/// Most data in one H2CData PDU (MAXH2CDATA).
const MAX_H2C_DATA_BYTES: u32 = 1 << 20;

/// Less data than this is received with what else comes.
const DIRECT_BYTES_MIN: usize = 4 << 10;

/// A connection.
#[derive(Debug)]
pub struct Session {
    /// What is to be sent.
    pub out: Outbox,
    phase: Phase,
    pub(crate) premises: Arc<Premises>,
    pub(crate) place: Place,
    /// When it began.
    pub(crate) began_ns: u64,
    /// Whose connection it is, where TLS says so.
    pub(crate) secured: Option<Secured>,
}

/// What TLS says of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Secured {
    /// Whose it is.
    pub parties: Parties,
    /// Its key was made by an authentication, so that there is nothing left to show.
    pub by_authentication: bool,
}

impl Secured {
    /// What the key says by which the host came.
    pub fn by(psk: &TlsPsk) -> Self {
        Self { parties: psk.parties().clone(), by_authentication: psk.is_generated() }
    }
}

#[derive(Debug)]
enum Phase {
    /// ICReq is awaited.
    Opening(Reader<IcReq>),
    /// Commands come.
    Open(Box<Open>),
    /// Nothing is read any more.
    Over,
}

/// A connection that is agreed on.
#[derive(Debug)]
pub(crate) struct Open {
    pub reader: Reader<HostPdu>,
    pub writer: Writer<ControllerPdu>,
    pub queue: Queue,
    /// A Connect that its subsystem is still to answer.
    pub asked: Option<Box<Admission>>,
    /// The host has to show who it is.
    pub lock: Option<Box<Lock>>,
    pub incoming: Receiving,
    /// In-capsule data that came in pieces.
    pub gathered: Vec<u8>,
    pub pending: Pending,
    /// Fused commands that are not executed yet.
    pub fused: FusedPairs,
    /// Commands that the device has and that are not answered.
    pub outstanding: usize,
    /// Data that its host waits for of commands that other engines have, or that nobody has sent.
    pub owed_bytes: usize,
    /// Commands that came, modulo the entries of the queue.
    pub head: u32,
    /// Entries of the queue.
    pub entries: u32,
    /// The host does without flow control of the queue.
    pub no_flow_control: bool,
    pub premises: Arc<Premises>,
    pub place: Place,
    /// Whose connection it is, where TLS says so.
    pub secured: Option<Secured>,
    /// That its host was not connected was told.
    pub is_refused: bool,
    /// Completions that came before the one that was looked for.
    pub late: Vec<Posted>,
}

/// What there is at hand while something that came is taken.
pub(crate) struct Hand<'a, 'd> {
    /// What is to be sent.
    pub out: &'a mut Outbox,
    /// The device of the subsystem that the host is connected to; none before it is, and of a discovery controller.
    pub device: Option<&'a mut CapsuleDevice<'d>>,
    /// When it came.
    pub now_ns: u64,
}

impl Session {
    /// A connection that begins.
    pub fn new(premises: Arc<Premises>, place: Place, now_ns: u64) -> Self {
        let phase = Phase::Opening(Reader::<IcReq>::new());
        let out = Outbox::new(premises.data.share());
        Self { out, phase, premises, place, began_ns: now_ns, secured: None }
    }

    /// Takes what was received behind ICReq, until all of it is read or the host must take answers first.
    ///
    /// # Errors
    /// Why the connection ends. What is to be sent is sent first.
    pub fn receive(
        &mut self,
        input: &mut &[u8],
        device: Option<&mut CapsuleDevice<'_>>,
        now_ns: u64,
    ) -> Result<(), Ended> {
        match &mut self.phase {
            Phase::Open(open) => open.receive(input, &mut Hand { out: &mut self.out, device, now_ns }),
            Phase::Opening(_) => Ok(()),
            Phase::Over => {
                *input = &[];
                Ok(())
            }
        }
    }

    /// The same where the device failed before: its host may ask at the admin queue how the controller is, and nothing else.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn receive_of_failed(&mut self, input: &mut &[u8], now_ns: u64) -> Result<(), Ended> {
        if self.is_admin() { self.receive(input, None, now_ns) } else { Err(Ended::DeviceFailed) }
    }

    /// Whether it is an admin queue of a device.
    pub fn is_admin(&self) -> bool {
        self.open().is_some_and(|open| open.queue.is_admin())
    }

    /// Whether ICReq is awaited. It needs no device.
    pub fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Opening(_))
    }

    /// Takes ICReq, if it is awaited and has come.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn begin(&mut self, input: &mut &[u8]) -> Result<(), Ended> {
        let Phase::Opening(reader) = &mut self.phase else { return Ok(()) };
        let asked = match reader.next(input) {
            Ok(Some(Incoming::Pdu { pdu, .. })) => pdu,
            Ok(_) => return Ok(()),
            Err(violation) => return Err(Self::turn_away(reader, &mut self.out, violation)),
        };
        let is_clear = self.secured.is_none();
        if is_clear && self.premises.directory.listing().requires_tls(&self.place) {
            Self::turn_away(reader, &mut self.out, Violation::OutOfSequence(PduType::IC_REQ));
            return Err(Ended::Clear);
        }
        let digests = self.premises.options.digests;
        let offer = Offer { digests, max_h2c_data_bytes: MAX_H2C_DATA_BYTES, ..Offer::default() };
        let (answer, agreed) = asked.answer(&offer);
        self.out.push(&answer.encode());
        let Phase::Opening(reader) = std::mem::replace(&mut self.phase, Phase::Over) else { return Ok(()) };
        let open = Open {
            reader: reader.open(&agreed),
            writer: Writer::<ControllerPdu>::new(&agreed),
            queue: Queue::Unconnected,
            asked: None,
            lock: None,
            incoming: Receiving::Nothing,
            gathered: Vec::new(),
            pending: Pending::new(self.premises.data.share()),
            fused: FusedPairs::default(),
            outstanding: 0,
            owed_bytes: 0,
            head: 0,
            entries: u32::MAX,
            no_flow_control: false,
            premises: self.premises.clone(),
            place: self.place,
            secured: self.secured.take(),
            is_refused: false,
            late: Vec::new(),
        };
        self.phase = Phase::Open(Box::new(open));
        Ok(())
    }

    /// Ends a connection that is not agreed on with a termination request.
    #[cold]
    fn turn_away(reader: &mut Reader<IcReq>, out: &mut Outbox, violation: Violation) -> Ended {
        let mut request = Vec::new();
        reader.refuse(&violation, &mut request);
        out.push(&request);
        Ended::Violation(violation)
    }

    /// Where the data that comes next belongs, where it is better received there.
    pub fn direct_room(&mut self) -> Option<&mut [u8]> {
        let Phase::Open(open) = &mut self.phase else { return None };
        let (Receiving::Asked(coming), left) = (open.incoming, open.reader.data_left_bytes() as usize) else {
            return None;
        };
        if left < DIRECT_BYTES_MIN {
            return None;
        }
        Some(open.pending.room(coming, left)).filter(|room| !room.is_empty())
    }

    /// So many bytes were received there. What they complete is taken by the next [`Self::receive`].
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn received_there(&mut self, bytes: usize) -> Result<(), Ended> {
        let Phase::Open(open) = &mut self.phase else { return Ok(()) };
        let Receiving::Asked(coming) = open.incoming else { return Ok(()) };
        let mut piece = open.pending.received(coming, bytes);
        while !piece.is_empty() {
            match open.reader.next(&mut piece) {
                Ok(_) => {}
                Err(violation) => return Err(open.refuse(violation, &mut self.out)),
            }
        }
        Ok(())
    }

    /// Whether data is on its way that is better received where it belongs than with what else comes.
    pub fn awaits_large(&self) -> bool {
        self.open().is_some_and(|open| open.pending.awaits_large())
    }

    /// Whether the host was asked for data that has not come.
    pub fn is_owed(&self) -> bool {
        self.open().is_some_and(|open| open.pending.is_owed())
    }

    /// Bytes that are held for the host: commands and their data, what is to be sent, and room for either.
    pub fn held_bytes(&self) -> usize {
        let held = |open: &Open| open.gathered.len() + open.pending.held_bytes() + open.fused.held_bytes();
        self.out.room_bytes() + self.open().map_or(0, held)
    }

    /// The connection, if it is agreed on.
    pub(crate) fn open(&self) -> Option<&Open> {
        if let Phase::Open(open) = &self.phase { Some(open) } else { None }
    }

    /// What the connection is, for figures.
    pub fn state(&self) -> ConnectionState {
        match self.open() {
            None => ConnectionState::Connecting,
            Some(open) if open.lock.as_ref().is_some_and(|lock| !lock.is_proven()) => {
                ConnectionState::Authenticating
            }
            Some(open) => match &open.queue {
                Queue::Unconnected => ConnectionState::Connecting,
                Queue::Device(queue) if queue.qid == 0 => ConnectionState::Admin,
                Queue::Device(_) => ConnectionState::Io,
                Queue::Discovery(_) => ConnectionState::Discovery,
            },
        }
    }

    /// Whether the next command may be about more than its own queue.
    pub fn needs_all(&self) -> bool {
        !self.open().is_some_and(|open| matches!(&open.queue, Queue::Device(queue) if queue.qid > 0))
    }

    /// The subsystem that the host asks to be connected to.
    pub fn asked_site(&self) -> Option<Arc<Site>> {
        self.open()?.asked.as_ref().map(|admission| admission.site.clone())
    }

    /// Connects the host as it asks, and answers; whether it is connected.
    pub fn admit(&mut self, site: &Site, device: &mut CapsuleDevice<'_>, now_ns: u64) -> bool {
        let Phase::Open(open) = &mut self.phase else { return false };
        open.admit(site, &mut self.out, device, now_ns)
    }

    /// Whether completions may come by themselves, or the queue has gone.
    pub fn waits(&self) -> bool {
        let waits = |open: &Open| {
            open.outstanding > 0
                || open.pending.is_short()
                || open.queue.waits()
                || open.queue.check().is_err()
        };
        self.open().is_some_and(waits)
    }

    /// Whether commands wait for what is still to come of them, which may be aborted.
    pub fn awaits(&self) -> bool {
        self.open().is_some_and(|open| open.pending.len() > 0 || open.fused.held() > 0)
    }

    /// Nothing came for a while: memory that is not in use is given back.
    pub fn rest(&mut self) {
        self.out.rest();
        if let Phase::Open(open) = &mut self.phase {
            open.pending.rest();
        }
    }

    /// Sends what has come of commands by itself.
    ///
    /// # Errors
    /// The controller is gone.
    pub fn look(&mut self, device: Option<&mut CapsuleDevice<'_>>) -> Result<(), Ended> {
        let Phase::Open(open) = &mut self.phase else { return Ok(()) };
        open.look(&mut self.out, device)
    }

    /// Does what a host's authentication asks for. It takes its time, and no device.
    ///
    /// # Errors
    /// The host did not show who it is.
    pub fn authenticate(&mut self, now_ns: u64) -> Result<(), Ended> {
        let Phase::Open(open) = &mut self.phase else { return Ok(()) };
        open.authenticate(&mut self.out, now_ns)
    }

    /// Reads nothing any more.
    pub fn close(&mut self) {
        self.phase = Phase::Over;
    }

    /// The same, and gives up what the subsystem has of it.
    pub fn leave(&mut self, site: &Site, device: &mut CapsuleDevice<'_>, why: &Ended) {
        if let Phase::Open(open) = std::mem::replace(&mut self.phase, Phase::Over) {
            open.leave(site, device, why);
        }
    }
}
