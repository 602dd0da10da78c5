//! One connection: bytes of a host in, commands executed, bytes for the host out. It has no socket.
//!
//! A command runs to its end where it was read: its data is lent from where it was received, or was asked for before, and what
//! it reads is made where it is sent from.

use std::io::ErrorKind;
use std::sync::Arc;

use byway_controller::{CAPSULE_DATA_BYTES, Posted};
use byway_fabrics::Nqn;
use byway_fabrics::authentication::{AuthenticationError, Parties};
use byway_in_process::CapsuleDevice;
use byway_spec::tcp::PduType;
use byway_spec::{Command, Status};
use byway_tcp_codec::{
    ControllerPdu, DataCheck, HostPdu, IcReq, Incoming, Offer, Reader, TermReq, Violation, Writer,
};
use byway_tls::TlsError;

use crate::authentication::Lock;
use crate::counters::ConnectionState;
use crate::data::{Data, data_of};
use crate::fused::FusedPairs;
use crate::outbox::Outbox;
use crate::pending::{Coming, Pending};
use crate::premises::{Place, Premises};
use crate::queue::Queue;

/// Most data in one H2CData PDU (MAXH2CDATA).
const MAX_H2C_DATA_BYTES: u32 = 1 << 20;

/// Less data than this is received with what else comes.
const DIRECT_BYTES_MIN: usize = 4 << 10;

/// Data that a host is owed, from which on nothing more of it is executed: two of the largest commands.
const OWED_BYTES: usize = 32 << 20;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The host is done with it.
    #[error("the host left")]
    Left,
    /// The host broke a rule.
    #[error("{0}")]
    Violation(Violation),
    /// The host gave it up.
    #[error("the host gave the connection up ({}, {})", .0.status, .0.information)]
    Terminated(TermReq),
    /// More commands than the queue has entries for.
    #[error("more commands are outstanding than the queue has entries for")]
    Overrun,
    /// The controller was reset, or is gone.
    #[error("the controller of this queue was reset or is gone")]
    ControllerGone,
    /// Nothing came in time.
    #[error("the host did not connect in time")]
    Silent,
    /// The host did not show who it is.
    #[error("{host} is not authenticated: {why}")]
    NotAuthenticated {
        /// The name that it gave.
        host: Nqn,
        /// Why.
        why: AuthenticationError,
    },
    /// The host did not begin with TLS, which is required here.
    #[error("the host begins in the clear, and TLS is required")]
    Clear,
    /// There is no TLS connection, or none any more.
    #[error("{0}")]
    Tls(TlsError),
    /// No command came in time.
    #[error("nothing came within the keep alive time")]
    KeepAlive,
    /// The host does not take what it asked for.
    #[error("the host takes nothing of what is sent to it")]
    Stuck,
    /// The system's answer.
    #[error("the connection failed: {0}")]
    System(ErrorKind),
}

impl Ended {
    /// A host that closes its connection with something unread leaves as any other does.
    pub fn of_system(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Left,
            other => Self::System(other),
        }
    }
}

impl From<TlsError> for Ended {
    fn from(error: TlsError) -> Self {
        if error == TlsError::Closed { Self::Left } else { Self::Tls(error) }
    }
}

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
    pub(crate) secured: Option<Parties>,
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
    reader: Reader<HostPdu>,
    pub writer: Writer<ControllerPdu>,
    pub queue: Queue,
    /// The host has to show who it is.
    pub lock: Option<Box<Lock>>,
    incoming: Receiving,
    /// In-capsule data that came in pieces.
    gathered: Vec<u8>,
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
    pub secured: Option<Parties>,
    /// Completions that came before the one that was looked for.
    pub late: Vec<Posted>,
}

/// What there is at hand while something that came is taken.
pub(crate) struct Hand<'a, 'd> {
    /// What is to be sent.
    pub out: &'a mut Outbox,
    /// The device.
    pub device: &'a mut CapsuleDevice<'d>,
    /// When it came.
    pub now_ns: u64,
}

/// What data is being received.
#[derive(Debug, Clone, Copy)]
enum Receiving {
    /// None.
    Nothing,
    /// In-capsule data of this command.
    Capsule { command: Command, bytes: u32 },
    /// Data that was asked for.
    Asked(Coming),
    /// Data that nobody wants: of a termination request.
    Unwanted,
}

impl Session {
    /// A connection that begins.
    pub fn new(premises: Arc<Premises>, place: Place, now_ns: u64) -> Self {
        let phase = Phase::Opening(Reader::<IcReq>::new());
        Self { out: Outbox::default(), phase, premises, place, began_ns: now_ns, secured: None }
    }

    /// Takes what was received behind ICReq, until all of it is read or the host must take answers first.
    ///
    /// # Errors
    /// Why the connection ends. What is to be sent is sent first.
    pub fn receive(
        &mut self,
        input: &mut &[u8],
        device: &mut CapsuleDevice<'_>,
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
        if self.secured.is_none() && self.premises.keys.now().require_tls(&self.place) {
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
            lock: None,
            incoming: Receiving::Nothing,
            gathered: Vec::new(),
            pending: Pending::default(),
            fused: FusedPairs::default(),
            outstanding: 0,
            owed_bytes: 0,
            head: 0,
            entries: u32::MAX,
            no_flow_control: false,
            premises: self.premises.clone(),
            place: self.place,
            secured: self.secured.take(),
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

    /// Whether completions may come by themselves, or the queue has gone.
    pub fn waits(&self) -> bool {
        let waits =
            |open: &Open| open.outstanding > 0 || open.queue.is_admin() || open.queue.check().is_err();
        self.open().is_some_and(waits)
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
    pub fn look(&mut self, device: &mut CapsuleDevice<'_>) -> Result<(), Ended> {
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

    /// Reads nothing any more, and gives up what the device has of it.
    pub fn leave(&mut self, device: &mut CapsuleDevice<'_>, why: &Ended) {
        if let Phase::Open(open) = std::mem::replace(&mut self.phase, Phase::Over) {
            open.leave(device, why);
        }
    }
}

impl Open {
    fn receive(&mut self, input: &mut &[u8], hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        self.queue.check()?;
        self.queue.heard(hand.now_ns);
        // All of a command's data in one piece is lent; it is kept only if its end is still to come.
        let mut lent: Option<&[u8]> = None;
        while self.goes_on(hand) {
            match self.reader.next(input) {
                Ok(None) => break,
                Ok(Some(Incoming::Pdu { pdu, data_bytes })) => self.take(pdu, data_bytes, hand)?,
                Ok(Some(Incoming::Data(piece))) => lent = self.take_data(piece),
                Ok(Some(Incoming::End(check))) => {
                    self.take_end(lent.take(), check == DataCheck::Intact, hand)?;
                }
                Err(violation) => return Err(self.refuse(violation, hand.out)),
            }
        }
        lent.into_iter().for_each(|piece| self.gathered.extend_from_slice(piece));
        Ok(())
    }

    /// Whether more is read: nothing that the last command asked for is still to be done, and nothing is waited for but data.
    fn goes_on(&self, hand: &Hand<'_, '_>) -> bool {
        let is_asked = self.lock.as_ref().is_some_and(|lock| lock.is_asked());
        let must_wait = self.must_wait(hand) && matches!(self.incoming, Receiving::Nothing);
        !is_asked && !must_wait
    }

    /// Whether nothing more is to be executed until the host has taken answers, or other engines have done something. Admin
    /// commands wait for no engine.
    fn must_wait(&self, hand: &Hand<'_, '_>) -> bool {
        let is_behind = self.owed_bytes >= OWED_BYTES || hand.device.is_full();
        hand.out.is_full() || (is_behind && !self.queue.is_admin())
    }

    /// Ends the connection with a termination request.
    fn refuse(&mut self, violation: Violation, out: &mut Outbox) -> Ended {
        let mut request = Vec::new();
        self.reader.refuse(&violation, &mut request);
        out.push(&request);
        Ended::Violation(violation)
    }

    fn take(&mut self, pdu: HostPdu, data_bytes: u32, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        match pdu {
            HostPdu::Command(command) => {
                self.head = if self.head + 1 < self.entries { self.head + 1 } else { 0 };
                if data_bytes == 0 {
                    return self.arrive(&command, None, hand);
                }
                self.incoming = Receiving::Capsule { command, bytes: data_bytes };
            }
            HostPdu::Data(data) => match self.pending.accept(&data, data_bytes) {
                Ok(coming) => self.incoming = Receiving::Asked(coming),
                Err(violation) => return Err(self.refuse(violation, hand.out)),
            },
            HostPdu::Terminate(request) if data_bytes == 0 => return Err(Ended::Terminated(request)),
            HostPdu::Terminate(request) => {
                self.incoming = Receiving::Unwanted;
                return Err(Ended::Terminated(request));
            }
        }
        Ok(())
    }

    /// A piece of data; it is given back if it is all that the command brings in its capsule.
    fn take_data<'a>(&mut self, piece: &'a [u8]) -> Option<&'a [u8]> {
        match self.incoming {
            Receiving::Capsule { bytes, .. } if piece.len() == bytes as usize => return Some(piece),
            Receiving::Capsule { .. } => self.gathered.extend_from_slice(piece),
            Receiving::Asked(coming) => self.pending.take(coming, piece),
            Receiving::Nothing | Receiving::Unwanted => {}
        }
        None
    }

    fn take_end(
        &mut self,
        lent: Option<&[u8]>,
        is_intact: bool,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        match std::mem::replace(&mut self.incoming, Receiving::Nothing) {
            Receiving::Capsule { command, .. } if !is_intact => {
                self.gathered.clear();
                self.check_room()?;
                if self.is_fused(&command) {
                    return self.arrive_fused(&command, Err(Status::TRANSIENT_TRANSPORT_ERROR), hand);
                }
                self.fail(&command, Status::TRANSIENT_TRANSPORT_ERROR, hand.out);
                Ok(())
            }
            Receiving::Capsule { command, .. } => {
                let mut gathered = std::mem::take(&mut self.gathered);
                let arrived = self.arrive(&command, lent.or(Some(&gathered)), hand);
                gathered.clear();
                self.gathered = gathered;
                arrived
            }
            Receiving::Asked(coming) => self.take_asked(coming, is_intact, hand),
            Receiving::Nothing | Receiving::Unwanted => Ok(()),
        }
    }

    /// The end of one PDU of data that was asked for: the command is executed when it has all of it.
    fn take_asked(&mut self, coming: Coming, is_intact: bool, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        let Some(whole) = self.pending.end(coming, is_intact) else { return Ok(()) };
        let done = match whole.is_corrupt {
            _ if self.fused.take_data(&whole) => self.settle_fused(hand),
            true => {
                self.fail(&whole.command, Status::TRANSIENT_TRANSPORT_ERROR, hand.out);
                Ok(())
            }
            false => self.execute(&whole.command, Some(whole.data()), 0, hand),
        };
        self.pending.reuse(whole);
        self.ask(hand.out);
        done
    }

    /// A command with what its capsule brought.
    fn arrive(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        self.check_room()?;
        if let Some(status) = self.lock.as_ref().and_then(|lock| lock.refusal(command)) {
            self.fail(command, status, hand.out);
            return Ok(());
        }
        if self.is_fused(command) {
            return self.arrive_fused(command, Ok(data), hand);
        }
        self.arrive_single(command, data, hand)
    }

    /// The same of one that is not fused with another.
    pub(crate) fn arrive_single(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        match data_of(command, data.map(<[u8]>::len)) {
            Ok(Data::InCapsule) => self.execute(command, Some(data.unwrap_or_default()), 0, hand),
            Ok(Data::None) => self.execute(command, None, 0, hand),
            Ok(Data::ToHost(bytes)) => self.execute(command, None, bytes, hand),
            Ok(Data::AtHost) => {
                self.pending.wait(*command);
                self.ask(hand.out);
                Ok(())
            }
            Err(status) => {
                self.fail(command, status, hand.out);
                Ok(())
            }
        }
    }

    fn check_room(&self) -> Result<(), Ended> {
        let taken = self.outstanding + self.pending.len() + self.fused.held();
        if taken >= self.entries as usize { Err(Ended::Overrun) } else { Ok(()) }
    }

    /// Asks for data, as far as there is room for it.
    pub(crate) fn ask(&mut self, out: &mut Outbox) {
        while let Some(asked) = self.pending.ask() {
            out.push(self.writer.ready_to_transfer(&asked).head());
        }
    }

    /// In-capsule data of an I/O queue's commands may be longer.
    pub fn take_io_capsules(&mut self) {
        self.reader.set_capsule_data_bytes(CAPSULE_DATA_BYTES);
    }

    /// Puts a discovery controller, or a queue of the device, behind the connection.
    pub fn seat(&mut self, queue: Queue, entries: u32, no_flow_control: bool) {
        self.queue = queue;
        self.entries = entries;
        self.head = 1 % entries;
        self.no_flow_control = no_flow_control;
    }
}
