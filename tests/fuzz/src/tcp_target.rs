//! A target and two hosts that send anything in any order: valid and invalid, complete and cut, reading replies or
//! not.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;

use byway_controller::{CAPSULE_DATA_BYTES, NoInterrupts};
use byway_executor::{Embedded, Hosts, UpkeepBy};
use byway_fabrics::{
    Accepted, Connect, ConnectData, ControllerChoice, ControllerId, FabricsCommand, HostId, Nqn, Property,
    PropertyAccess,
};
use byway_link::ClockMode;
use byway_nvme_tcp::{
    Agreement, C2hEnd, CommandId, ControllerPdu, Digests, H2cData, HostPdu, IcReq, Incoming, Opening, Reader,
    ReadyToTransfer, TransferTag, Writer,
};
use byway_spec::base::register::Cc;
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::{Command, Status};
use byway_tcp_target::SubsystemTerms;
use byway_tcp_target::fuzz::{SocketlessConnection, SocketlessTarget};

use crate::input::Input;
use crate::machine::device;

/// Things done in one input, at most.
const ACTIONS_MAX: usize = 200;

/// Most bytes that a connection may hold: requested data and its buffers, received bytes, and one answer.
const HELD_BYTES_MAX: usize = (32 + 8 + 32 + 17) << 20;

const SUBSYSTEM: &str = "nqn.2026-01.example:byway:fuzz";
const HOST: &str = "nqn.2026-11.example:host";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

const NS_PER_MS: u64 = 1_000_000;

/// Opcodes of either kind of queue that do something.
const OPCODES: [u8; 20] =
    [0, 1, 2, 5, 6, 8, 9, 0xc, 0xd, 0xe, 0x10, 0x11, 0x14, 0x15, 0x18, 0x19, 0x80, 0xb3, 0x84, 0x7f];

/// A target on a device.
struct Served {
    // Before the device, which it reaches.
    target: SocketlessTarget,
    _device: Embedded,
}

impl Served {
    fn new() -> Self {
        let hosts = Hosts {
            interrupts: Arc::new(NoInterrupts),
            doorbells: None,
            threads: NonZeroU16::MIN,
            engines: None,
            upkeep_by: UpkeepBy::default(),
        };
        let device = Embedded::serve(device("gen4x4"), ClockMode::Off, true, hosts).expect("threads");
        let capsules = device.capsules().expect("an unmodelled clock");
        let target = SocketlessTarget::new(SubsystemTerms::of(name(SUBSYSTEM)), capsules).expect("no keys");
        Self { target, _device: device }
    }
}

/// A host's agreement with the target.
struct Talk {
    writer: Writer<HostPdu>,
    reader: Reader<ControllerPdu>,
    /// Parses what the target reads, as long as it is valid PDUs.
    mirror: Option<Reader<HostPdu>>,
}

/// A host's connection, and the host's state of it.
struct Peer {
    connection: SocketlessConnection,
    talk: Option<Talk>,
    /// Bytes received before the agreement.
    early: Vec<u8>,
    controller: Option<ControllerId>,
    /// Commands on their way, by their identifiers: how many, since a host may say one twice.
    sent: HashMap<u16, u32>,
    asked: Vec<ReadyToTransfer>,
    is_ended: bool,
}

/// Each byte selects an action, and the bytes behind it its parameters. In every case the target answers each command
/// once, in valid PDUs, stays within its memory limit, and serves the next host.
pub fn target(bytes: &[u8]) {
    let (mut input, served) = (Input::new(bytes), Served::new());
    let mut now_ns = 1;
    let mut peers = [false, input.byte() & 1 != 0].map(|aside| Peer::new(&served.target, aside, now_ns));
    peers[0].open(Digests::NONE, now_ns);
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        let action = input.byte();
        let known = peers[0].controller;
        let peer = &mut peers[usize::from(action >> 7)];
        peer.act(action & 0x1f, known, &mut input, &mut now_ns);
        peer.connection.run(now_ns);
        assert!(
            peer.connection.held_bytes() <= HELD_BYTES_MAX,
            "{} bytes are held",
            peer.connection.held_bytes()
        );
        if peer.is_ended {
            peer.connection.end(now_ns);
            *peer = Peer::new(&served.target, input.byte() & 7 == 0, now_ns);
        }
    }
    peers.iter_mut().for_each(|peer| peer.connection.end(now_ns));
    assert_eq!(served.target.hosts(), 0, "a host that left has a controller");
    serves_the_next(&served.target, now_ns);
}

/// A host in good order gets a controller, and an answer of it.
fn serves_the_next(target: &SocketlessTarget, now_ns: u64) {
    let mut peer = Peer::new(target, false, now_ns);
    peer.open(Digests::BOTH, now_ns);
    peer.connect(0, ControllerChoice::Dynamic, SUBSYSTEM, 0);
    peer.take(usize::MAX, now_ns);
    assert!(peer.controller.is_some(), "no controller is left");
    let mut identify = Command::new(0x06, 77, 0);
    identify.cdw10 = 1;
    identify.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, 4096));
    peer.set_cc(Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_iosqes(6).with_iocqes(4));
    peer.say(&identify, &[]);
    peer.take(usize::MAX, now_ns);
    assert!(!peer.connection.is_over() && peer.sent.is_empty(), "no answer came");
    peer.connection.end(now_ns);
}

impl Peer {
    fn new(target: &SocketlessTarget, to_discovery: bool, now_ns: u64) -> Self {
        Self {
            connection: target.connect(to_discovery, now_ns),
            talk: None,
            early: Vec::new(),
            controller: None,
            sent: HashMap::new(),
            asked: Vec::new(),
            is_ended: false,
        }
    }

    fn act(&mut self, action: u8, known: Option<ControllerId>, input: &mut Input<'_>, now_ns: &mut u64) {
        match action {
            0 => {
                let noise = input.bytes(usize::from(input.clone().byte()));
                self.put(noise);
            }
            1 => {
                let wishes = input.byte();
                self.open(Digests { header: wishes & 1 > 0, data: wishes & 2 > 0 }, *now_ns);
            }
            2 => self.connect(0, ControllerChoice::Dynamic, SUBSYSTEM, u32::from(input.byte()) * 100),
            3 => {
                let id = known.filter(|_| input.byte() & 7 > 0);
                let id = id.unwrap_or_else(|| ControllerId(input.word()));
                self.connect(u16::from(input.byte() % 6), ControllerChoice::Id(id), SUBSYSTEM, 0);
            }
            4 => self.connect(0, ControllerChoice::Dynamic, DISCOVERY, input.number()),
            5 => self.set_cc(Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_iosqes(6).with_iocqes(4)),
            6 => self.set_cc(Cc::from_bits(input.number())),
            7..=12 => self.say_something(input),
            13 => {
                let command = Command::from_bytes(&input.array());
                let data = input.bytes(usize::from(input.clone().byte()));
                self.say(&command, data);
            }
            14..=17 => self.send_asked(input),
            18 => self.send_unasked(input),
            19..=22 => self.take(input.number() as usize, *now_ns),
            23 => self.pass(u64::from(input.word()) * NS_PER_MS, now_ns),
            24 => self.connection.leave(),
            25 => self.is_ended = true,
            26 => self.say_fabrics(input),
            _ => self.take(usize::MAX, *now_ns),
        }
    }

    /// Sends bytes; what of them are commands is answered, once each.
    fn put(&mut self, bytes: &[u8]) {
        self.connection.put(bytes);
        let Some(Talk { mirror: Some(mirror), .. }) = &mut self.talk else { return };
        let mut left = bytes;
        loop {
            match mirror.next(&mut left) {
                Ok(Some(Incoming::Pdu { pdu: HostPdu::Command(command), .. })) => {
                    *self.sent.entry(command.cid()).or_default() += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => break,
            }
        }
        self.talk.iter_mut().for_each(|talk| talk.mirror = None);
    }

    /// Sends ICReq, and reads the answer.
    fn open(&mut self, digests: Digests, now_ns: u64) {
        let asked = IcReq { digests, ..IcReq::default() };
        self.put(&asked.encode());
        if self.talk.is_some() {
            return;
        }
        self.take(usize::MAX, now_ns);
        let mut opening = Reader::<Opening>::new();
        let read = opening.next(&mut &self.early[..]).expect("an answer that can be read");
        if let Some(Incoming::Pdu { pdu: Opening::Accepted(answer), .. }) = read {
            let agreed = asked.accept(&answer).expect("what was asked for");
            self.talk = Some(Talk::new(opening, &agreed));
        }
    }

    fn connect(&mut self, qid: u16, controller: ControllerChoice, subsystem: &str, keep_alive_ms: u32) {
        let connect = Connect {
            qid,
            sqsize_z: 31,
            priority: 0,
            no_flow_control: qid & 1 > 0,
            individual_deletion: false,
            keep_alive_ms,
        };
        let host_id: HostId = "12345678-9abc-def0-0123-456789abcdef".parse().expect("it is one");
        let data = ConnectData { host_id, controller, subsystem: name(subsystem), host: name(HOST) };
        self.say(&FabricsCommand::Connect(connect).encode(CONNECT_CID), &data.encode());
    }

    fn set_cc(&mut self, cc: Cc) {
        let (property, value) = (PropertyAccess(Property::Cc), cc.into_bits().into());
        self.say(&FabricsCommand::PropertySet { property, value }.encode(2), &[]);
    }

    fn say_fabrics(&mut self, input: &mut Input<'_>) {
        let bytes = input.byte();
        let message = byway_fabrics::Authentication { bytes: bytes.into() };
        let property = PropertyAccess(input.one_of(&[Property::Cc, Property::Csts, Property::Cap]));
        let command = match input.byte() % 5 {
            0 => FabricsCommand::PropertyGet(property),
            1 => FabricsCommand::PropertySet { property, value: input.qword() },
            2 => FabricsCommand::AuthenticationSend(message),
            3 => FabricsCommand::AuthenticationReceive(message),
            _ => FabricsCommand::Disconnect,
        };
        let data = input.bytes(usize::from(bytes));
        self.say(&command.encode(input.word()), data);
    }

    /// Sends a command with `data` in its capsule.
    fn say(&mut self, command: &Command, data: &[u8]) {
        let Some(talk) = &self.talk else { return };
        let mut wire = Vec::new();
        talk.writer.command(command, &[data]).append_to(&mut wire);
        self.put(&wire);
    }

    /// A command that is one of those that do something, more or less.
    fn say_something(&mut self, input: &mut Input<'_>) {
        let opcode = match input.byte() {
            few @ 0..=9 => few,
            other => OPCODES[usize::from(other) % OPCODES.len()],
        };
        let mut command = Command::new(opcode, u16::from(input.byte() % 32), u32::from(input.byte() % 4));
        command.cdw0.set_fuse([0, 0, 0, 0, 0, 0, 1, 2][usize::from(input.byte() % 8)]);
        (command.cdw10, command.cdw11) = (input.number(), input.number());
        command.cdw12 = input.number();
        let bytes = input.number();
        match input.byte() % 4 {
            0 => {
                let data = vec![opcode; (bytes % (CAPSULE_DATA_BYTES + 512)) as usize];
                command.set_sgl1(SglDescriptor::inline(data.len() as u32));
                self.say(&command, &data);
            }
            1..=2 => {
                command.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes));
                self.say(&command, &[]);
            }
            _ => {
                let written = (command.cdw12 & 0xff) * 512 + 512;
                command.cdw12 &= 0xff;
                command.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, written));
                self.say(&command, &[]);
            }
        }
    }

    /// Sends part or all of the data last requested.
    fn send_asked(&mut self, input: &mut Input<'_>) {
        let Some(asked) = self.asked.pop() else { return };
        let bytes = match input.byte() {
            0..=9 => input.number() % 8192,
            10..=19 => asked.bytes / 2,
            _ => asked.bytes,
        };
        let ReadyToTransfer { command, tag, offset_bytes, bytes: wanted } = asked;
        let last = bytes >= wanted;
        if !last {
            let (offset_bytes, bytes) = (offset_bytes + bytes, wanted - bytes);
            self.asked.push(ReadyToTransfer { command, tag, offset_bytes, bytes });
        }
        self.send_data(&H2cData { command, tag, offset_bytes, last }, bytes);
    }

    fn send_unasked(&mut self, input: &mut Input<'_>) {
        let (command, tag) = (CommandId(input.byte().into()), TransferTag(input.number() as u16));
        let at = H2cData { command, tag, offset_bytes: input.number(), last: input.byte() & 1 > 0 };
        self.send_data(&at, input.number() % 8192);
    }

    fn send_data(&mut self, at: &H2cData, bytes: u32) {
        let Some(talk) = &self.talk else { return };
        let (data, mut wire) = (vec![at.tag.0 as u8; bytes.max(1) as usize], Vec::new());
        talk.writer.data(at, &[&data]).append_to(&mut wire);
        self.put(&wire);
    }

    /// Receives `bytes` from the target, and checks them.
    fn take(&mut self, bytes: usize, now_ns: u64) {
        let came = self.connection.take(bytes, now_ns);
        let Some(mut talk) = self.talk.take() else { return self.early.extend_from_slice(&came) };
        let mut left = &came[..];
        while let Some(incoming) = talk.reader.next(&mut left).expect("a target that keeps to the rules") {
            if let Incoming::Pdu { pdu, .. } = incoming {
                self.check_pdu(pdu);
            }
        }
        self.talk = Some(talk);
    }

    fn check_pdu(&mut self, pdu: ControllerPdu) {
        match pdu {
            ControllerPdu::Response(completion) => {
                self.answered(completion.cid);
                if completion.cid == CONNECT_CID
                    && let Ok(accepted) = Accepted::parse(&completion)
                {
                    self.controller = self.controller.or(Some(accepted.controller));
                }
                assert!(completion.status() != Status::INTERNAL_ERROR, "{completion:?}");
            }
            ControllerPdu::Data(data) => match data.end {
                C2hEnd::Success => self.answered(data.command.0),
                C2hEnd::More | C2hEnd::Response => self.is_known(data.command.0),
            },
            ControllerPdu::ReadyToTransfer(asked) => {
                self.is_known(asked.command.0);
                self.asked.push(asked);
            }
            ControllerPdu::Terminate(_) => self.is_ended = true,
        }
    }

    fn is_known(&self, cid: u16) {
        assert!(self.sent.contains_key(&cid), "the target speaks of a command {cid} that is not on its way");
    }

    fn answered(&mut self, cid: u16) {
        self.is_known(cid);
        if let Some(count) = self.sent.get_mut(&cid) {
            *count -= 1;
            if *count == 0 {
                self.sent.remove(&cid);
            }
        }
    }

    fn pass(&mut self, ns: u64, now_ns: &mut u64) {
        *now_ns += ns;
        self.connection.check_time(*now_ns);
    }
}

/// Command identifier of every Connect: its answer may change the rules of the target's reader.
const CONNECT_CID: u16 = 999;

impl Talk {
    fn new(opening: Reader<Opening>, agreed: &Agreement) -> Self {
        let mut mirror = Reader::<IcReq>::new().open(agreed);
        // The target ends the connection for data too long for an admin queue.
        mirror.set_capsule_data_bytes(CAPSULE_DATA_BYTES);
        let (writer, reader) = (Writer::<HostPdu>::new(agreed), opening.open(agreed));
        Self { writer, reader, mirror: Some(mirror) }
    }
}

fn name(text: &str) -> Nqn {
    Nqn::new(text).expect("it is a name")
}
