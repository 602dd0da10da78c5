//! From no connection to a controller that takes commands.

use std::time::Duration;

use byway_core::{Buffer, Deadline, Error, ErrorKind, Payload, Result};
use byway_fabrics::{
    Accepted, Connect, ConnectData, ConnectRefusal, ControllerChoice, ControllerId, FabricsCommand,
    Parameter, Property, PropertyAccess, RefusalKind,
};
use byway_nvme_tcp::{IcReq, Incoming, Opening, Reader, TermReq};
use byway_spec::base::register::{Cap, Cc, Csts};
use byway_spec::tcp::FatalStatus;
use byway_spec::{Status, fabrics};

use crate::ana::States;
use crate::authenticate;
use crate::channel::Channel;
use crate::connection::{Connection, Way};
use crate::facts::{Bare, Facts};
use crate::line::Line;
use crate::order::order_of;
use crate::peer::Peer;
use crate::result::{NotAttached, checked, ended};
use crate::stream::WaitFor;

/// In-capsule data that every controller takes with fabrics and admin commands.
const ADMIN_CAPSULE_BYTES: usize = 8192;

/// Admin commands at once; a controller's admin queue has 32 entries at least.
pub(crate) const ADMIN_DEPTH: u32 = 31;

/// A controller that takes commands.
pub(crate) struct Attached {
    pub line: Line,
    pub controller: ControllerId,
    pub facts: Facts,
}

impl Attached {
    /// The ANA states of its namespaces; enables their events.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn states(&mut self, peer: &Peer) -> Result<States> {
        let Some(ana) = &self.facts.ana else { return Ok(States::default()) };
        ana.begin(&Bare::new(&mut self.line, peer.options.admin_timeout))
    }
}

/// Connects to a subsystem, and starts a controller.
///
/// # Errors
/// One sentence says why not.
pub(crate) fn attach(peer: &Peer) -> Result<Attached, NotAttached> {
    let deadline = Deadline::after(peer.options.connect_timeout);
    if peer.options.concatenate {
        make_key(peer, deadline)?;
    }
    let (mut line, controller) = connect_admin(peer, deadline)?;
    let cap = start(&mut line, deadline)?;
    let facts = Facts::ask(&mut line, peer, cap)?;
    Ok(Attached { line, controller, facts })
}

/// The admin queue of a controller that is made for it.
pub(crate) fn connect_admin(peer: &Peer, deadline: Deadline) -> Result<(Line, ControllerId), NotAttached> {
    let connect = connect_of_admin(peer);
    let (line, accepted) = connect_queue(peer, connect, ControllerChoice::Dynamic, ADMIN_DEPTH, deadline)?;
    Ok((line, accepted.controller))
}

/// Has an authentication in the clear make the key by which every connection then is a TLS connection. The controller that was asked
/// ends with that.
fn make_key(peer: &Peer, deadline: Deadline) -> Result<(), NotAttached> {
    peer.security.renew(None)?;
    let mut line = open(peer, ADMIN_DEPTH, deadline)?;
    let accepted = introduce(peer, &mut line, connect_of_admin(peer), ControllerChoice::Dynamic, deadline)?;
    let accepted = accepted.map_err(|refusal| refused(peer, 0, &refusal))?;
    let psk = authenticate::concatenate(peer, &mut line, accepted, deadline)?;
    line.stream().close();
    Ok(peer.security.renew(Some(psk))?)
}

fn connect_of_admin(peer: &Peer) -> Connect {
    let keep_alive_ms = u32::try_from(peer.options.keep_alive.as_millis()).unwrap_or(u32::MAX);
    Connect { keep_alive_ms, ..connect_of(0, ADMIN_DEPTH as u16) }
}

/// Connect of a queue with one entry more than commands.
pub(crate) fn connect_of(qid: u16, depth: u16) -> Connect {
    Connect {
        qid,
        sqsize_z: depth,
        priority: 0,
        no_flow_control: true,
        individual_deletion: false,
        keep_alive_ms: 0,
    }
}

/// A connection of its own for one queue.
pub(crate) fn connect_queue(
    peer: &Peer,
    connect: Connect,
    controller: ControllerChoice,
    depth: u32,
    deadline: Deadline,
) -> Result<(Line, Accepted), NotAttached> {
    let mut line = open(peer, depth, deadline)?;
    let accepted = introduce(peer, &mut line, connect, controller, deadline)?;
    let accepted = accepted.map_err(|refusal| refused(peer, connect.qid, &refusal))?;
    authenticate::authenticate(peer, &mut line, connect.qid, accepted, deadline)?;
    Ok((line, accepted))
}

/// Whether a subsystem has this controller of this host: asked by a connection for a queue that no controller has, which is
/// refused for that, or before it for a controller that is not there.
///
/// # Errors
/// When there is no answer. Any other answer says nothing against the controller.
pub(crate) fn has_controller(
    peer: &Peer,
    controller: ControllerId,
    deadline: Deadline,
) -> Result<bool, NotAttached> {
    let mut line = open(peer, 1, deadline)?;
    let controller = ControllerChoice::Id(controller);
    let answered = introduce(peer, &mut line, connect_of(NO_QUEUE, 1), controller, deadline)?;
    line.stream().close();
    let is_not_there = |refusal: ConnectRefusal| refusal.kind == RefusalKind::Invalid(Parameter::CNTLID);
    Ok(!answered.err().is_some_and(is_not_there))
}

/// A queue that no controller has.
const NO_QUEUE: u16 = u16::MAX;

/// A connection after ICReq and ICResp, before Connect.
fn open(peer: &Peer, depth: u32, deadline: Deadline) -> Result<Line, NotAttached> {
    let mut channel = Channel::connect(peer, deadline)?;
    let connection = agree(peer, &mut channel, depth, deadline)
        .map_err(|error| error.doing(format!("connect to {}", peer.shown())))?;
    Ok(Line { connection, channel })
}

/// ICReq and ICResp.
fn agree(peer: &Peer, channel: &mut Channel, depth: u32, deadline: Deadline) -> Result<Connection> {
    let proposal = IcReq { digests: peer.options.digests, ..IcReq::default() };
    let wire = proposal.encode();
    let mut unsent = &wire[..];
    while !unsent.is_empty() {
        let sent = channel.send_bytes(unsent).map_err(ended)?;
        unsent = unsent.get(sent..).unwrap_or_default();
        if sent == 0 {
            wait(channel, WaitFor::BytesOrRoom, deadline)?;
        }
    }
    let mut reader = Reader::<Opening>::new();
    loop {
        let mut room = [0; 152];
        let mut into = [std::io::IoSliceMut::new(&mut []), std::io::IoSliceMut::new(&mut room)];
        let bytes = channel.receive(&mut into).map_err(ended)?;
        if bytes == 0 {
            channel.flush().map_err(ended)?;
            wait(channel, WaitFor::Bytes, deadline)?;
            continue;
        }
        let mut input = room.get(..bytes).unwrap_or_default();
        match reader.next(&mut input).map_err(broken)? {
            Some(Incoming::Pdu { pdu: Opening::Accepted(answer), .. }) => {
                let agreed = proposal.accept(&answer).map_err(|_| no_such_digests())?;
                return Ok(Connection::new(agreed, depth, ADMIN_CAPSULE_BYTES));
            }
            Some(Incoming::Pdu { pdu: Opening::Refused(TermReq { status, information }), .. }) => {
                let wants_tls = status == FatalStatus::SEQUENCE_ERROR && peer.security.tls().is_none();
                let hint = if wants_tls { "; it may want TLS (tls-key-file=, concat=on)" } else { "" };
                let said =
                    format!("the controller refuses the connection: {status}, field {information}{hint}");
                return Err(Error::device(ErrorKind::Protocol, said));
            }
            _ => {}
        }
    }
}

fn wait(channel: &Channel, what: WaitFor, deadline: Deadline) -> Result<()> {
    let left = deadline.left_or_max();
    if left.is_zero() {
        // The listener may not be a device at all.
        return Err(Error::host(ErrorKind::TimedOut, "the listener there does not answer ICReq"));
    }
    let what = if channel.has_unsent() { WaitFor::BytesOrRoom } else { what };
    let waited = channel.stream().wait(what, None, left);
    waited.map(drop).map_err(|cause| Error::kernel("waiting for the connection failed", cause))
}

#[cold]
fn broken(violation: byway_nvme_tcp::Violation) -> Error {
    let said = format!("the listener there does not speak NVMe/TCP: {violation}");
    Error::device(ErrorKind::Protocol, said)
}

#[cold]
fn no_such_digests() -> Error {
    let said = "the controller answers with other digests than were asked for";
    Error::device(ErrorKind::Unsupported, said)
}

/// Sends Connect, with the host's and the subsystem's names.
fn introduce(
    peer: &Peer,
    line: &mut Line,
    connect: Connect,
    controller: ControllerChoice,
    deadline: Deadline,
) -> Result<Result<Accepted, ConnectRefusal>> {
    let subsystem = peer.place.subsystem.clone();
    let data = ConnectData { host_id: peer.host_id, controller, subsystem, host: peer.host.clone() };
    let entry = FabricsCommand::Connect(connect).encode(0);
    let order = order_of(entry, Way::Out);
    let called = line.call(order, Buffer::copy_of(&data.encode())?.into(), deadline);
    let (completion, _) = called.map_err(|error| error.doing(format!("connect to {}", peer.shown())))?;
    Ok(Accepted::parse(&completion))
}

/// Why a Connect was refused, in a sentence.
#[cold]
fn refused(peer: &Peer, qid: u16, refusal: &ConnectRefusal) -> NotAttached {
    let (subsystem, host, at) = (&peer.place.subsystem, &peer.host, peer.shown());
    let (kind, why) = match refusal.kind {
        RefusalKind::Invalid(Parameter::SUBNQN) => {
            (ErrorKind::NotFound, format!("there is no subsystem {subsystem} at {at}"))
        }
        RefusalKind::InvalidHost | RefusalKind::Invalid(Parameter::HOSTNQN) => {
            (ErrorKind::Denied, format!("{subsystem} does not let {host} in"))
        }
        RefusalKind::Busy => (ErrorKind::Busy, format!("{subsystem} has no room for queue {qid} now")),
        // Of a queue whose last connection has not ended there yet.
        RefusalKind::Other(status) if status.is(Status::COMMAND_SEQUENCE_ERROR) && qid != 0 => {
            (ErrorKind::Busy, format!("{subsystem} has queue {qid} still"))
        }
        RefusalKind::Invalid(Parameter::QID) => {
            (ErrorKind::Busy, format!("{subsystem} does not take queue {qid}: it is there, or one too many"))
        }
        RefusalKind::Invalid(parameter) => {
            let (which, at) = match parameter {
                Parameter::Command(at) => ("command", at),
                Parameter::Data(at) => ("data", at),
            };
            (ErrorKind::InvalidArgument, format!("{subsystem} refuses byte {at} of the {which} of Connect"))
        }
        RefusalKind::RestartDiscovery => {
            (ErrorKind::NotFound, format!("{subsystem} has moved; the discovery service knows where to"))
        }
        RefusalKind::AuthenticationRequired => {
            (ErrorKind::Denied, format!("{subsystem} asks {host} to authenticate first"))
        }
        _ => {
            let said = fabrics::status::name(refusal.status()).unwrap_or("a status that is not known");
            (ErrorKind::Device, format!("{subsystem} refuses Connect: {said}"))
        }
    };
    let error = Error::device(kind, why).with_source(Error::status(refusal.status())).covering_source();
    NotAttached { error, is_final: refusal.is_final }
}

/// Starts the controller; its capabilities.
pub(crate) fn start(line: &mut Line, deadline: Deadline) -> Result<Cap> {
    let cap = Cap::from_bits(property(line, Property::Cap, deadline)?);
    let css = if cap.css() & Cap::CSS_IO_SETS != 0 { Cc::CSS_IO_SETS } else { Cc::CSS_NVM };
    let cc = Cc::new().with_en(true).with_css(css).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    set_cc(line, cc, deadline)?;
    // CAP.TO is in units of 500 ms and may be 0.
    let timeout = Duration::from_millis(500 * u64::from(cap.to())).max(Duration::from_secs(2));
    let ready_by = Deadline::after(timeout);
    loop {
        let csts = Csts::from_bits(property(line, Property::Csts, deadline)? as u32);
        if csts.cfs() {
            return Err(Error::device(ErrorKind::DeviceLost, "the controller reports a fatal state"));
        }
        if csts.rdy() {
            return Ok(cap);
        }
        if ready_by.is_over() {
            return Err(Error::device(ErrorKind::TimedOut, "the controller does not become ready"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Shuts the controller down normally (CC.SHN).
pub(crate) fn shut_down(line: &mut Line) -> Result<()> {
    let cc = Cc::new().with_en(true).with_shn(Cc::SHN_NORMAL);
    let cc = cc.with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    set_cc(line, cc, Deadline::after(Duration::from_secs(1)))
}

fn set_cc(line: &mut Line, cc: Cc, deadline: Deadline) -> Result<()> {
    let property = PropertyAccess(Property::Cc);
    let set = FabricsCommand::PropertySet { property, value: u64::from(cc.into_bits()) };
    let (completion, _) = line.call(order_of(set.encode(0), Way::None), Payload::Empty, deadline)?;
    checked(&completion).map(drop)
}

fn property(line: &mut Line, property: Property, deadline: Deadline) -> Result<u64> {
    let get = FabricsCommand::PropertyGet(PropertyAccess(property));
    let (completion, _) = line.call(order_of(get.encode(0), Way::None), Payload::Empty, deadline)?;
    Ok(checked(&completion)?.result())
}
