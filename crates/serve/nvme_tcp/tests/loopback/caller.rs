//! A host of a target without sockets, whose time is made up: it says one thing after the other, and looks at the bytes that come.

use byway_fabrics::{
    Connect, ConnectData, ControllerChoice, ControllerId, FabricsCommand, HostId, Nqn, Property,
    PropertyAccess,
};
use byway_nvme_tcp::{Agreement, HostPdu, IcReq, Offer, Writer};
use byway_spec::base::register::Cc;
use byway_spec::{Command, Status};
use byway_tcp_target::fuzz::{SocketlessConnection, SocketlessTarget};

use crate::host::HOST;
use crate::served::{SUBSYSTEM, name};

pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
pub const NS_PER_S: u64 = 1_000_000_000;

/// A response's bytes on the wire: its kind, its result, its status.
pub const RESPONSE: u8 = 5;
const RESULT_AT: usize = 8;
const STATUS_AT: usize = 22;

pub struct Caller {
    pub connection: SocketlessConnection,
    pub writer: Writer<HostPdu>,
    pub now_ns: u64,
    pub host: Nqn,
    pub host_id: HostId,
}

impl Caller {
    pub fn new(socketless: &SocketlessTarget) -> Self {
        let (asked, offer) = (IcReq::default(), Offer { max_h2c_data_bytes: 1 << 20, ..Offer::default() });
        let agreed: Agreement = asked.answer(&offer).1;
        let mut connection = socketless.connect(false, 0);
        connection.put(&asked.encode());
        assert_eq!(connection.take(usize::MAX, 0).first(), Some(&1), "ICResp");
        let host_id = "12345678-9abc-def0-0123-456789abcdef".parse().unwrap();
        Self { connection, writer: Writer::<HostPdu>::new(&agreed), now_ns: 0, host: name(HOST), host_id }
    }

    /// The same of another host.
    pub fn of(socketless: &SocketlessTarget, host: u32) -> Self {
        let host_id = format!("00000000-0000-4000-8000-{:012x}", host + 1).parse().unwrap();
        Self { host: name(&format!("nqn.2026-01.example:host{host}")), host_id, ..Self::new(socketless) }
    }

    /// What the target answers.
    pub fn say(&mut self, command: &Command, data: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        self.writer.command(command, &[data]).append_to(&mut wire);
        self.connection.put(&wire);
        self.connection.take(usize::MAX, self.now_ns)
    }

    pub fn connect(
        &mut self,
        qid: u16,
        controller: ControllerChoice,
        subsystem: &str,
    ) -> Result<ControllerId, Status> {
        let connect = Connect {
            qid,
            sqsize_z: if qid == 0 { 31 } else { 1023 },
            priority: 0,
            no_flow_control: false,
            individual_deletion: false,
            keep_alive_ms: 0,
        };
        let (host_id, host) = (self.host_id, self.host.clone());
        let data = ConnectData { host_id, controller, subsystem: name(subsystem), host };
        let answer = self.say(&FabricsCommand::Connect(connect).encode(1), &data.encode());
        assert_eq!(answer.first(), Some(&RESPONSE));
        match status(&answer) {
            Status::SUCCESS => Ok(ControllerId(u16_at(&answer, RESULT_AT))),
            refused => Err(refused),
        }
    }

    /// Asks for a controller.
    pub fn come(&mut self) -> Result<ControllerId, Status> {
        self.connect(0, ControllerChoice::Dynamic, SUBSYSTEM)
    }

    pub fn enable(&mut self) {
        let cc = Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_iosqes(6).with_iocqes(4);
        let (property, value) = (PropertyAccess(Property::Cc), cc.into_bits().into());
        self.say(&FabricsCommand::PropertySet { property, value }.encode(2), &[]);
    }

    /// Time passes.
    pub fn pass(&mut self, seconds: u64) {
        self.now_ns += seconds * NS_PER_S;
        self.connection.check_time(self.now_ns);
        self.connection.run(self.now_ns);
    }

    /// It goes.
    pub fn leave(mut self) {
        self.connection.end(self.now_ns);
    }
}

/// The status in a response.
pub fn status(response: &[u8]) -> Status {
    assert_eq!(response.first(), Some(&RESPONSE));
    Status(u16_at(response, STATUS_AT) >> 1)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A host's admin queue and an I/O queue.
pub fn connected(socketless: &SocketlessTarget) -> (Caller, Caller) {
    let mut admin = Caller::new(socketless);
    let controller = admin.come().unwrap();
    admin.enable();
    let mut io = Caller::new(socketless);
    io.connect(1, ControllerChoice::Id(controller), SUBSYSTEM).unwrap();
    (admin, io)
}
