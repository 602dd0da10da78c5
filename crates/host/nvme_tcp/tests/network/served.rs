//! A connection to the controller for tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;

use byway_fabrics::{
    Accepted, ConnectData, ConnectRefusal, ControllerChoice, ControllerId, DiscoveryLog, Entry,
    FabricsCommand, Nqn, Parameter, Property,
};
use byway_nvme_tcp::*;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::{Cns, IdentifyCdw10};
use byway_spec::base::register::{Cap, Csts, Vs};
use byway_spec::base::sgl::SglKind;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Completion, Status};

use crate::controller::{NAME, Shared};
use crate::disk::{Disk, LBA_BYTES};
use crate::habits::{Asks, Fault};
use crate::identify::identify;

/// One connection.
struct Served<'s> {
    shared: &'s Shared,
    stream: TcpStream,
    writer: Writer<ControllerPdu>,
    solicitations: Solicitations,
    /// A write that waits for its data.
    writing: Vec<Writing>,
    is_admin: bool,
    is_discovery: bool,
}

struct Writing {
    command: Command,
    data: Vec<u8>,
    bytes: u32,
    tag: TransferTag,
}

type Done = Result<(), Box<dyn std::error::Error>>;

pub fn serve(shared: &Shared, mut stream: TcpStream) -> Done {
    let mut opening = Reader::<IcReq>::new();
    let mut wire = [0; 128];
    stream.read_exact(&mut wire)?;
    let Some(Incoming::Pdu { pdu: asked, .. }) = opening.next(&mut &wire[..])? else { return Ok(()) };
    let (answer, agreed) = asked.answer(&Offer { digests: shared.habits().digests, ..Offer::default() });
    stream.write_all(&answer.encode())?;
    let mut reader = opening.open(&agreed);
    reader.set_capsule_data_bytes(shared.habits().capsule_bytes);
    let writer = Writer::<ControllerPdu>::new(&agreed);
    let solicitations = Solicitations::new(256);
    let mut served = Served {
        shared,
        stream,
        writer,
        solicitations,
        writing: Vec::new(),
        is_admin: false,
        is_discovery: false,
    };
    let (mut pdu, mut data) = (None, Vec::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        let bytes = served.stream.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        let mut input = &buffer[..bytes];
        while let Some(incoming) = reader.next(&mut input)? {
            match incoming {
                Incoming::Pdu { pdu: got, data_bytes: 0 } => served.take(got, Vec::new())?,
                Incoming::Pdu { pdu: got, .. } => pdu = Some(got),
                Incoming::Data(piece) => data.extend_from_slice(piece),
                Incoming::End(check) => {
                    assert_eq!(check, DataCheck::Intact);
                    served.take(pdu.take().unwrap(), std::mem::take(&mut data))?;
                }
            }
        }
    }
}

impl Served<'_> {
    fn take(&mut self, pdu: HostPdu, data: Vec<u8>) -> Done {
        match pdu {
            HostPdu::Command(command) if command.opcode() == AdminOpcode::FABRICS.0 => {
                self.fabrics(&command, &data)
            }
            HostPdu::Command(command) if self.is_admin => self.admin(&command),
            HostPdu::Command(command) => self.io(command, data),
            HostPdu::Data(at) => self.take_data(&at, &data),
            HostPdu::Terminate(_) => Err("terminated".into()),
        }
    }

    fn respond(&mut self, command: &Command, status: Status, result: u64) -> Done {
        let completion = Completion::new(0, 0, command.cdw0.cid(), status).with_result(result);
        let mut out = Vec::new();
        self.writer.response(&completion).append_to(&mut out);
        self.answer(command, out)
    }

    /// Sends the last of what a command is answered by.
    fn answer(&mut self, command: &Command, out: Vec<u8>) -> Done {
        if self.is_admin || command.opcode() == AdminOpcode::FABRICS.0 {
            return Ok(self.stream.write_all(&out)?);
        }
        Ok(self.shared.gate.answer(&mut self.stream, out)?)
    }

    fn fabrics(&mut self, command: &Command, data: &[u8]) -> Done {
        match FabricsCommand::parse(command)? {
            FabricsCommand::Connect(connect) => {
                self.is_admin = connect.qid == 0;
                let data = ConnectData::parse(data).map_err(|_| "connect data")?;
                self.is_discovery = data.subsystem.is_discovery();
                let most = if self.is_admin { 31 } else { self.shared.habits().mqes_z };
                if connect.sqsize_z == 0 || connect.sqsize_z > most {
                    let refusal = ConnectRefusal::invalid(Parameter::Command(44));
                    return self.respond(command, refusal.status(), refusal.dw0().into());
                }
                if connect.qid > self.shared.habits().queues_z + 1 {
                    let refusal = ConnectRefusal::invalid(Parameter::QID);
                    return self.respond(command, refusal.status(), refusal.dw0().into());
                }
                if !self.is_discovery && data.subsystem.as_str() != NAME {
                    let refusal = ConnectRefusal::invalid(Parameter::SUBNQN);
                    return self.respond(command, refusal.status(), refusal.dw0().into());
                }
                if !self.is_admin
                    && self.shared.io_connects.fetch_add(1, SeqCst) < self.shared.habits().busy_connects
                {
                    return self.respond(command, Status::COMMAND_SEQUENCE_ERROR.with_dnr(), 0);
                }
                let controller = match data.controller {
                    ControllerChoice::Dynamic => {
                        ControllerId(self.shared.controllers.fetch_add(1, SeqCst) + 1)
                    }
                    ControllerChoice::Id(id) => id,
                };
                let accepted = Accepted {
                    controller,
                    authenticate: self.shared.habits().asks != Asks::Nothing,
                    secure: false,
                };
                self.respond(command, Status::SUCCESS, accepted.dw0().into())
            }
            FabricsCommand::PropertyGet(access) => {
                let value = match access.0 {
                    Property::Cap => Cap::new()
                        .with_mqes_z(self.shared.habits().mqes_z)
                        .with_cqr(true)
                        .with_css(1)
                        .into_bits(),
                    Property::Csts => Csts::new().with_rdy(true).into_bits().into(),
                    Property::Vs => Vs::new().with_mjr(2).into_bits().into(),
                    _ => 0,
                };
                self.respond(command, Status::SUCCESS, value)
            }
            FabricsCommand::AuthenticationReceive(_) => match self.shared.habits().asks {
                Asks::AndIsSilent => Ok(()),
                _ => self.send(command, &[0; 4096], false),
            },
            _ => self.respond(command, Status::SUCCESS, 0),
        }
    }

    fn admin(&mut self, command: &Command) -> Done {
        match AdminOpcode(command.opcode()) {
            AdminOpcode::IDENTIFY => {
                let of_namespace = IdentifyCdw10::from_bits(command.cdw10).cns() == Cns::NAMESPACE;
                if of_namespace
                    && self.shared.habits().drops_identify
                    && !self.shared.identified.swap(true, SeqCst)
                {
                    return Err("dropped".into());
                }
                let page = identify(command, &self.shared.habits(), self.is_discovery);
                self.send(command, &page, false)
            }
            AdminOpcode::GET_LOG_PAGE => {
                let mut log = DiscoveryLog::default();
                let entry = Entry::tcp(Nqn::new(NAME)?, self.stream.local_addr()?.ip(), 4420);
                log.set(1, vec![entry]);
                let offset = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
                let part = log.read(offset, ((command.cdw10 >> 16) as usize + 1) * 4);
                self.send(command, &part, false)
            }
            AdminOpcode::ABORT => {
                self.shared.aborts.fetch_add(1, SeqCst);
                let is_silent = self.shared.habits().fault == Fault::Silence;
                let is_aborted = is_silent && self.shared.unanswered.end()?;
                self.shared.abort_gate.note_command();
                let completion = Completion::new(0, 0, command.cdw0.cid(), Status::SUCCESS);
                let mut out = Vec::new();
                self.writer.response(&completion.with_result((!is_aborted).into())).append_to(&mut out);
                Ok(self.shared.abort_gate.answer(&mut self.stream, out)?)
            }
            AdminOpcode::KEEP_ALIVE => {
                self.shared.keep_alives.fetch_add(1, SeqCst);
                self.respond(command, Status::SUCCESS, 0)
            }
            _ => {
                let queues_z = u64::from(self.shared.habits().queues_z);
                self.respond(command, Status::SUCCESS, queues_z << 16 | queues_z)
            }
        }
    }

    fn fault(&self) -> Fault {
        let habits = self.shared.habits();
        let number = self.shared.io_commands.fetch_add(1, SeqCst) + 1;
        if number == habits.fault_at { habits.fault } else { Fault::None }
    }

    fn io(&mut self, command: Command, data: Vec<u8>) -> Done {
        self.shared.io_seen.lock().unwrap().push(command);
        self.shared.gate.note_command();
        let fault = self.fault();
        match fault {
            Fault::Drop => return Err("dropped".into()),
            Fault::Terminate => {
                let mut out = Vec::new();
                let mut reader = Reader::<IcReq>::new();
                reader.refuse(&Violation::EmptyR2t, &mut out);
                self.stream.write_all(&out)?;
                return Err("terminated".into());
            }
            Fault::UnknownCommand => {
                let stray = Command::new(0, command.cdw0.cid() ^ 0x155, 0);
                return self.respond(&stray, Status::SUCCESS, 0);
            }
            Fault::Deafness => return Ok(()),
            Fault::Silence => {
                let completion = Completion::new(0, 0, command.cdw0.cid(), Status::ABORT_REQUESTED);
                let mut out = Vec::new();
                self.writer.response(&completion).append_to(&mut out);
                self.shared.unanswered.keep(self.stream.try_clone()?, out);
                return Ok(());
            }
            _ => {}
        }
        let done = self.carry_out(command, data, fault);
        if fault == Fault::DropAfterwards { Err("dropped".into()) } else { done }
    }

    fn carry_out(&mut self, command: Command, data: Vec<u8>, fault: Fault) -> Done {
        let range = Disk::range_of(&command);
        if range.end > Disk::BYTES {
            return self.respond(&command, Status::LBA_OUT_OF_RANGE.with_dnr(), 0);
        }
        match NvmOpcode(command.opcode()) {
            NvmOpcode::READ => {
                let block = self.shared.disk.read(range);
                match fault {
                    Fault::WrongDigest => self.send(&command, &block, true),
                    Fault::ShortRead => self.send(&command, &block[..LBA_BYTES], false),
                    _ => self.send(&command, &block, false),
                }
            }
            NvmOpcode::WRITE | NvmOpcode::COMPARE if command.sgl1().kind == SglKind::TRANSPORT_DATA_BLOCK => {
                self.ask(Writing { command, data, bytes: range.len() as u32, tag: TransferTag(0) })
            }
            NvmOpcode::WRITE | NvmOpcode::COMPARE if fault == Fault::DropAfterwards => {
                self.shared.disk.store(&command, &data);
                Ok(())
            }
            NvmOpcode::WRITE | NvmOpcode::COMPARE => {
                let status = self.shared.disk.store(&command, &data);
                self.respond(&command, status, 0)
            }
            NvmOpcode::FLUSH | NvmOpcode::WRITE_ZEROES => self.respond(&command, Status::SUCCESS, 0),
            _ => self.respond(&command, Status::INVALID_OPCODE.with_dnr(), 0),
        }
    }

    /// Asks for the next part of a write's data.
    fn ask(&mut self, mut writing: Writing) -> Done {
        let have = writing.data.len() as u32;
        let part = (writing.bytes - have).min(self.shared.habits().r2t_bytes);
        let asked = self.solicitations.ask(CommandId(writing.command.cdw0.cid()), have, part).unwrap();
        writing.tag = asked.tag;
        self.writing.push(writing);
        let mut out = Vec::new();
        self.writer.ready_to_transfer(&asked).append_to(&mut out);
        Ok(self.stream.write_all(&out)?)
    }

    fn take_data(&mut self, at: &H2cData, data: &[u8]) -> Done {
        let accepted = self.solicitations.accept(at, data.len() as u32)?;
        let index = self.writing.iter().position(|writing| writing.tag == at.tag).unwrap();
        self.writing[index].data.extend_from_slice(data);
        if !accepted.whole {
            return Ok(());
        }
        let writing = self.writing.swap_remove(index);
        if writing.data.len() < writing.bytes as usize {
            return self.ask(writing);
        }
        let status = self.shared.disk.store(&writing.command, &writing.data);
        self.respond(&writing.command, status, 0)
    }

    /// Sends a command's data, and its answer.
    fn send(&mut self, command: &Command, data: &[u8], wrong_digest: bool) -> Done {
        let habits = self.shared.habits();
        let success = habits.success && !self.is_admin;
        let mut out = Vec::new();
        let mut at = 0;
        for piece in data.chunks(habits.data_bytes) {
            let is_last = at + piece.len() == data.len();
            let end = match (is_last, success) {
                (false, _) => C2hEnd::More,
                (true, true) => C2hEnd::Success,
                (true, false) => C2hEnd::Response,
            };
            let header = C2hData { command: CommandId(command.cdw0.cid()), offset_bytes: at as u32, end };
            self.writer.data(&header, &[piece]).append_to(&mut out);
            at += piece.len();
        }
        if wrong_digest {
            *out.last_mut().unwrap() ^= 1;
        }
        if success {
            return self.answer(command, out);
        }
        self.stream.write_all(&out)?;
        self.respond(command, Status::SUCCESS, 0)
    }
}
