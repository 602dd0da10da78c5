//! A host that says one thing after the other, and notes what comes.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use byway_fabrics::{
    Accepted, Connect, ConnectData, ConnectRefusal, ControllerChoice, ControllerId, FabricsCommand, HostId,
    Nqn, Property, PropertyAccess,
};
pub use byway_kit::pattern;
use byway_nvme_tcp::{
    Agreement, C2hEnd, CommandId, ControllerPdu, DataCheck, Digests, HostPdu, IcReq, Inbound, Incoming,
    Opening, Outbound, Reader, TermReq, Writer,
};
use byway_spec::base::register::{Cc, Csts};
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Completion, Status};

use crate::served::{SUBSYSTEM, TIMEOUT};

pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:12345678-9abc-def0-0123-456789abcdef";

/// How a host connects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Proposal {
    pub digests: Digests,
    /// SUCCESS instead of responses.
    pub no_flow_control: bool,
    pub entries: Option<u16>,
}

impl Proposal {
    pub const DIGESTS: Self = Self { digests: Digests::BOTH, no_flow_control: true, entries: None };
}

/// How a command's data goes to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Capsule,
    R2t,
}

/// A command that was sent.
#[derive(Debug)]
struct Sent {
    data: Vec<u8>,
    outbound: Outbound,
    inbound: Inbound,
    received: Vec<u8>,
}

pub struct Host {
    pub stream: TcpStream,
    reader: Reader<ControllerPdu>,
    pub writer: Writer<HostPdu>,
    agreed: Agreement,
    proposal: Proposal,
    pub identity: HostId,
    pub name: Nqn,
    accepted: Option<Accepted>,
    next_cid: u16,
    sent: HashMap<u16, Sent>,
    done: HashMap<u16, (Completion, Vec<u8>)>,
    terminated: Option<TermReq>,
    /// The command whose data comes now, and where it goes.
    coming: Option<(CommandId, C2hEnd)>,
}

/// What ends the reading of a host.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    Terminated(TermReq),
}

impl Host {
    pub fn greet(at: SocketAddr, proposal: Proposal) -> Self {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let asked = IcReq { digests: proposal.digests, ..IcReq::default() };
        stream.write_all(&asked.encode()).unwrap();
        let mut answer = [0; 128];
        stream.read_exact(&mut answer).unwrap();
        let mut opening = Reader::<Opening>::new();
        let answer = match opening.next(&mut &answer[..]).unwrap() {
            Some(Incoming::Pdu { pdu: Opening::Accepted(answer), .. }) => answer,
            other => panic!("{other:?}"),
        };
        let agreed = asked.accept(&answer).unwrap();
        Self {
            stream,
            reader: opening.open(&agreed),
            writer: Writer::<HostPdu>::new(&agreed),
            agreed,
            proposal,
            identity: "12345678-9abc-def0-0123-456789abcdef".parse().unwrap(),
            name: Nqn::new(HOST).unwrap(),
            accepted: None,
            next_cid: 0,
            sent: HashMap::new(),
            done: HashMap::new(),
            terminated: None,
            coming: None,
        }
    }

    pub fn controller(&self) -> ControllerId {
        self.accepted().controller
    }

    /// What its Connect was answered.
    pub fn accepted(&self) -> Accepted {
        self.accepted.unwrap()
    }

    pub fn connect_admin(&mut self, keep_alive_ms: u32) -> Result<(), ConnectRefusal> {
        self.connect(0, ControllerChoice::Dynamic, SUBSYSTEM, keep_alive_ms)
    }

    pub fn connect_to(&mut self, subsystem: &str) -> Result<(), ConnectRefusal> {
        self.connect(0, ControllerChoice::Dynamic, subsystem, 0)
    }

    pub fn connect_io(&mut self, qid: u16, controller: ControllerId) -> Result<(), ConnectRefusal> {
        self.connect(qid, ControllerChoice::Id(controller), SUBSYSTEM, 0)
    }

    pub fn connect(
        &mut self,
        qid: u16,
        controller: ControllerChoice,
        subsystem: &str,
        keep_alive_ms: u32,
    ) -> Result<(), ConnectRefusal> {
        let connect = Connect {
            qid,
            sqsize_z: self.proposal.entries.unwrap_or(if qid == 0 { 32 } else { 128 }) - 1,
            priority: 0,
            no_flow_control: self.proposal.no_flow_control,
            individual_deletion: false,
            keep_alive_ms,
        };
        let subsystem = Nqn::new(subsystem).unwrap();
        let data = ConnectData { host_id: self.identity, controller, subsystem, host: self.name.clone() };
        let (completion, _) = self.fabrics(&FabricsCommand::Connect(connect), &data.encode());
        self.accepted = Some(Accepted::parse(&completion)?);
        Ok(())
    }

    pub fn fabrics(&mut self, command: &FabricsCommand, data: &[u8]) -> (Completion, Vec<u8>) {
        let cid = self.next();
        let command = command.encode(cid);
        self.send(&command, data);
        self.wait(cid)
    }

    pub fn property(&mut self, property: Property) -> u64 {
        self.fabrics(&FabricsCommand::PropertyGet(PropertyAccess(property)), &[]).0.result()
    }

    pub fn set_property(&mut self, property: Property, value: u64) -> Status {
        let property = PropertyAccess(property);
        self.fabrics(&FabricsCommand::PropertySet { property, value }, &[]).0.status()
    }

    /// Enables the controller, for every command set.
    pub fn enable(&mut self) {
        let cc = Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_iosqes(6).with_iocqes(4);
        assert!(self.set_property(Property::Cc, cc.into_bits().into()).is_success());
        assert!(Csts::from_bits(self.property(Property::Csts) as u32).rdy());
    }

    pub fn next(&mut self) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        self.next_cid
    }

    /// Sends a command, with `data` in its capsule.
    pub fn send(&mut self, command: &Command, data: &[u8]) {
        let mut wire = Vec::new();
        self.writer.command(command, &[data]).append_to(&mut wire);
        self.expect(command, data);
        self.stream.write_all(&wire).unwrap();
    }

    /// Notes a command whose answer is to come.
    pub fn expect(&mut self, command: &Command, data: &[u8]) {
        let bytes = command.sgl1().length_bytes;
        let sent = Sent {
            data: data.to_vec(),
            outbound: Outbound::new(bytes),
            inbound: Inbound::new(bytes),
            received: vec![0; bytes as usize],
        };
        self.sent.insert(command.cid(), sent);
    }

    /// Sends a command whose data is at hand when it is asked for.
    pub fn send_asked(&mut self, command: &Command, data: &[u8]) {
        let mut wire = Vec::new();
        self.writer.command(command, &[]).append_to(&mut wire);
        self.expect(command, data);
        self.stream.write_all(&wire).unwrap();
    }

    /// Sends a command that moves `data` to the controller, one way or the other.
    pub fn start(&mut self, mut command: Command, by: By, data: &[u8]) -> u16 {
        let cid = self.next();
        command.cdw0.set_cid(cid);
        match by {
            By::Capsule => {
                command.set_sgl1(SglDescriptor::inline(data.len() as u32));
                self.send(&command, data);
            }
            By::R2t => {
                command.set_sgl1(transport(data.len()));
                self.send_asked(&command, data);
            }
        }
        cid
    }

    /// Sends a command that moves up to `bytes` to the host, or nothing.
    pub fn start_read(&mut self, mut command: Command, bytes: usize) -> u16 {
        let cid = self.next();
        command.cdw0.set_cid(cid);
        command.set_sgl1(transport(bytes));
        self.send(&command, &[]);
        cid
    }

    /// Does one command that reads, or moves nothing.
    pub fn read(&mut self, command: Command, bytes: usize) -> (Completion, Vec<u8>) {
        let cid = self.start_read(command, bytes);
        self.wait(cid)
    }

    /// Does one command that writes.
    pub fn write(&mut self, command: Command, by: By, data: &[u8]) -> Completion {
        let cid = self.start(command, by, data);
        self.wait(cid).0
    }

    /// Waits until a command is done.
    pub fn wait(&mut self, cid: u16) -> (Completion, Vec<u8>) {
        loop {
            if let Some(done) = self.done.remove(&cid) {
                return done;
            }
            if let Some(end) = self.receive() {
                panic!("{end:?} while command {cid} was waited for");
            }
        }
    }

    /// Whether a command is done already, as far as was received.
    pub fn is_done(&self, cid: u16) -> bool {
        self.done.contains_key(&cid)
    }

    /// Waits until the controller ends the connection.
    pub fn wait_for_end(&mut self) -> End {
        loop {
            if let Some(end) = self.receive() {
                return end;
            }
        }
    }

    /// Receives once, and takes what came; the end if it came.
    pub fn receive(&mut self) -> Option<End> {
        let mut buffer = [0; 64 << 10];
        let bytes = match self.stream.read(&mut buffer) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        };
        if bytes == 0 {
            return Some(self.terminated.map_or(End::Closed, End::Terminated));
        }
        let mut input = &buffer[..bytes];
        let mut answers = Vec::new();
        while let Some(incoming) = self.reader.next(&mut input).unwrap() {
            match incoming {
                Incoming::Pdu { pdu, data_bytes } => {
                    if let Some((cid, end)) = take_pdu(self, pdu, data_bytes, &mut answers) {
                        self.coming = Some((cid, end));
                    }
                }
                Incoming::Data(piece) => {
                    if let Some((cid, _)) = self.coming {
                        let sent = self.sent.get_mut(&cid.0).unwrap();
                        let end = sent.inbound.received_bytes() as usize;
                        let at = end - self.reader.data_left_bytes() as usize - piece.len();
                        sent.received[at..at + piece.len()].copy_from_slice(piece);
                    }
                }
                Incoming::End(check) => {
                    assert_eq!(check, DataCheck::Intact);
                    if let Some((cid, C2hEnd::Success)) = self.coming.take() {
                        self.finish(Completion::new(0, 0, cid.0, Status::SUCCESS));
                    }
                }
            }
        }
        self.stream.write_all(&answers).unwrap();
        None
    }

    fn finish(&mut self, completion: Completion) {
        let sent = self.sent.remove(&completion.cid).expect("a completion of no command");
        let received = sent.received[..sent.inbound.received_bytes() as usize].to_vec();
        self.done.insert(completion.cid, (completion, received));
    }
}

fn take_pdu(
    host: &mut Host,
    pdu: ControllerPdu,
    data_bytes: u32,
    answers: &mut Vec<u8>,
) -> Option<(CommandId, C2hEnd)> {
    match pdu {
        ControllerPdu::Response(completion) => host.finish(completion),
        ControllerPdu::Data(data) => {
            let sent = host.sent.get_mut(&data.command.0).unwrap();
            sent.inbound.accept(&data, data_bytes).unwrap();
            return Some((data.command, data.end));
        }
        ControllerPdu::ReadyToTransfer(asked) => {
            let sent = host.sent.get_mut(&asked.command.0).unwrap();
            let grant = sent.outbound.accept(&asked, &host.agreed).unwrap();
            for (header, range) in grant {
                let piece = &sent.data[range.start as usize..range.end as usize];
                host.writer.data(&header, &[piece]).append_to(answers);
            }
            sent.outbound.sent();
        }
        ControllerPdu::Terminate(request) => host.terminated = Some(request),
    }
    None
}

fn transport(bytes: usize) -> SglDescriptor {
    SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes as u32)
}

/// A read or write of blocks of 512 bytes.
pub fn blocks(opcode: NvmOpcode, lba: u64, bytes: usize) -> Command {
    let mut command = Command::new(opcode.0, 0, crate::served::BLOCKS);
    command.set_cdw10_11(lba);
    command.cdw12 = (bytes / 512) as u32 - 1;
    command
}

/// A command of a key, with a value of so many bytes or room for them.
pub fn keyed(opcode: KvOpcode, key: &[u8], bytes: usize) -> Command {
    let mut command = Command::new(opcode.0, 0, crate::served::KEYS);
    command.set_key(key);
    command.cdw10 = bytes as u32;
    command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
    command
}
