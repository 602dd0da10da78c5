//! A queue of the initiator and a controller that says anything in any order, on one connection after the other.

use std::collections::HashMap;
use std::io::IoSlice;

use byway_core::{Buffer, ErrorKind};
use byway_nvme_tcp::{
    Agreement, C2hData, C2hEnd, CommandId, ControllerPdu, Digests, HostPdu, IcReq, Incoming, Offer, Reader,
    ReadyToTransfer, TransferTag, Writer,
};
use byway_spec::{Command as Entry, Completion, Status};
use byway_tcp_initiator::connection::{Connection, Order, Way};

use crate::input::Input;

/// Things done in one input, at most.
const ACTIONS_MAX: usize = 300;

const DEPTH: u32 = 8;

/// In-capsule data of a command.
const CAPSULE_BYTES: usize = 512;

const MAX_H2C_DATA_BYTES: u32 = 4096;

/// A queue, what its controller sends and reads, and the commands not yet returned to the submitter.
struct Rig {
    connection: Connection,
    agreed: Agreement,
    says: Writer<ControllerPdu>,
    reads: Reader<HostPdu>,
    /// Commands on their way, by tag: the bytes of their memory.
    begun: HashMap<u64, usize>,
    next_tag: u64,
    /// Commands that an Abort names.
    named: Vec<u16>,
    is_broken: bool,
}

/// Each byte selects an action, and the bytes behind it its parameters. In every case each command ends once and gets
/// its memory back, and a controller that follows the protocol gets only valid PDUs.
pub fn initiator(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut rig = Rig::new(input.byte());
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        rig.act(&mut input);
        rig.take_ended();
    }
    rig.connection.abandon("the end");
    rig.take_ended();
    assert!(rig.begun.is_empty(), "commands that never end: {:?}", rig.begun);
    rig.named.drain(..).for_each(|cid| rig.connection.unname(cid));
    assert_eq!(rig.connection.outstanding(), 0);
    assert!(rig.connection.has_room(1), "identifiers are lost");
}

impl Rig {
    fn new(wishes: u8) -> Self {
        let agreed = agreed(wishes);
        Self {
            connection: Connection::new(agreed, DEPTH, CAPSULE_BYTES),
            agreed,
            says: Writer::<ControllerPdu>::new(&agreed),
            reads: Reader::<IcReq>::new().open(&agreed),
            begun: HashMap::new(),
            next_tag: 0,
            named: Vec::new(),
            is_broken: false,
        }
    }

    fn act(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=3 => self.begin(input),
            4 => {
                let noise = input.bytes(usize::from(input.clone().byte())).to_vec();
                self.receive(&noise, input);
            }
            5..=10 => {
                let mut wire = Vec::new();
                self.say(input, &mut wire);
                self.receive(&wire, input);
            }
            11 | 12 => self.send(input.number() as usize),
            13 => self.give_up(input),
            14 => {
                let named = input.byte();
                let at = usize::from(named) % self.named.len().max(1);
                if at < self.named.len() {
                    self.connection.unname(self.named.swap_remove(at));
                }
            }
            _ => self.reconnect(input.byte()),
        }
    }

    fn begin(&mut self, input: &mut Input<'_>) {
        let sent_bytes = u32::from(input.word()) % 20_000 + 1;
        let (way, opcode) =
            input.one_of(&[(Way::In, 2), (Way::Out, 1), (Way::None, 0), (Way::Both { sent_bytes }, 0xb3)]);
        let bytes = match way {
            Way::None => 0,
            Way::Both { .. } => sent_bytes as usize + usize::from(input.word()) % 20_000,
            Way::In | Way::Out => usize::from(input.word()) % 20_000 + 1,
        };
        let entry = Entry::new(opcode, 0, 1);
        let (tag, is_whole) = (self.next_tag, input.byte() & 1 > 0);
        let order =
            Order { tag, is_call: false, entry, way, is_whole, repeats: way == Way::In, is_pair: false };
        let memory = Buffer::zeroed(bytes).expect("memory");
        let begun = self.begun.len();
        if self.connection.begin(order, memory.into()).is_ok() {
            self.begun.insert(tag, bytes);
            self.next_tag += 1;
        } else {
            assert!(begun + self.named.len() >= DEPTH as usize, "an identifier was free");
        }
    }

    /// A PDU of the controller, usually for an existing command.
    fn say(&self, input: &mut Input<'_>, wire: &mut Vec<u8>) {
        let cid = u16::from(input.byte() % (DEPTH as u8 + 2));
        let (command, offset_bytes) = (CommandId(cid), input.number());
        match input.byte() % 8 {
            0..=2 => {
                let status = input.one_of(&[Status::SUCCESS, Status::SUCCESS, Status::INVALID_FIELD]);
                self.says.response(&Completion::new(0, 0, cid, status)).append_to(wire);
            }
            3..=5 => {
                let end = input.one_of(&[C2hEnd::More, C2hEnd::Response, C2hEnd::Success]);
                let data = vec![cid as u8; usize::from(input.word()) % 20_000 + 1];
                let offset_bytes = if input.byte() & 3 > 0 { 0 } else { offset_bytes };
                self.says.data(&C2hData { command, offset_bytes, end }, &[&data]).append_to(wire);
            }
            _ => {
                let offset_bytes = if input.byte() & 3 > 0 { 0 } else { offset_bytes };
                let (tag, bytes) = (TransferTag(input.word()), u32::from(input.word()) % 20_000 + 1);
                let asked = ReadyToTransfer { command, tag, offset_bytes, bytes };
                self.says.ready_to_transfer(&asked).append_to(wire);
            }
        }
    }

    /// Receives bytes in pieces.
    fn receive(&mut self, bytes: &[u8], input: &mut Input<'_>) {
        let (mut left, piece_bytes) = (bytes, usize::from(input.byte()) * 64 + 1);
        while !left.is_empty() && self.connection.is_open() {
            let mut taken = 0;
            for mut room in self.connection.room() {
                let here = room.len().min(left.len()).min(piece_bytes - taken);
                let (now, rest) = left.split_at(here);
                room[..here].copy_from_slice(now);
                left = rest;
                taken += here;
            }
            assert!(taken > 0, "there is always room");
            self.is_broken |= self.connection.received(taken).is_err();
            assert_eq!(self.is_broken, !self.connection.is_open());
        }
    }

    /// Sends `bytes`; the controller can parse them.
    fn send(&mut self, bytes: usize) {
        let mut left = bytes.max(1);
        while left > 0 && self.connection.unsent_bytes() > 0 {
            let mut pieces = [IoSlice::new(&[]); 5];
            let count = self.connection.gather(&mut pieces);
            let mut wire: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
            wire.truncate(left);
            left -= wire.len();
            let mut read = &wire[..];
            while let Some(_pdu) = self.next_of(&mut read) {}
            self.connection.sent(wire.len());
        }
    }

    /// The controller's next PDU. Unless the host refused something or gave up, every PDU follows the protocol.
    fn next_of(&mut self, read: &mut &[u8]) -> Option<()> {
        let next = self.reads.next(read);
        match next.unwrap_or_else(|violation| panic!("the queue broke a rule: {violation}"))? {
            Incoming::Pdu { pdu: HostPdu::Terminate(_), .. } => assert!(self.is_broken),
            Incoming::Pdu { pdu: HostPdu::Data(data), data_bytes } => {
                assert!(data_bytes <= MAX_H2C_DATA_BYTES && data.command.0 <= 100);
            }
            _ => {}
        }
        Some(())
    }

    fn give_up(&mut self, input: &mut Input<'_>) {
        let at = usize::from(input.byte()) % self.begun.len().max(1);
        let mut tags: Vec<u64> = self.begun.keys().copied().collect();
        tags.sort_unstable();
        let Some(cid) = tags.get(at).and_then(|tag| self.connection.find(*tag, false)) else { return };
        // A command already given up waits for its end.
        if !self.connection.is_given_up(cid) && self.connection.give_up(cid, ErrorKind::TimedOut, None) {
            self.named.push(cid);
        }
    }

    /// The connection ends, and another begins.
    fn reconnect(&mut self, wishes: u8) {
        self.connection.interrupt("it ended");
        self.take_ended();
        self.agreed = agreed(wishes);
        self.connection.resume(Connection::new(self.agreed, 1, CAPSULE_BYTES));
        self.says = Writer::<ControllerPdu>::new(&self.agreed);
        self.reads = Reader::<IcReq>::new().open(&self.agreed);
        self.is_broken = false;
    }

    fn take_ended(&mut self) {
        while let Some(ended) = self.connection.next_ended() {
            let bytes = self.begun.remove(&ended.tag).expect("it ended before, or never began");
            assert_eq!(ended.memory.len(), bytes, "its memory is another");
        }
    }
}

fn agreed(wishes: u8) -> Agreement {
    let digests = Digests { header: wishes & 1 > 0, data: wishes & 2 > 0 };
    let offer = Offer { max_h2c_data_bytes: MAX_H2C_DATA_BYTES, ..Offer::default() };
    IcReq { digests, ..IcReq::default() }.answer(&offer).1
}
