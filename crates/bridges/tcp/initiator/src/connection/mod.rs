//! One queue on one connection, sans-I/O: commands in, bytes out; bytes in, answers out.
//!
//! Whoever has a socket sends what [`Connection::gather`] gives, and receives where [`Connection::room`] says: the data of a
//! command that is being received goes straight where the command has it. Nothing here waits, and nothing but a queue's first
//! commands allocates.
//!
//! A connection that ends is not the end of the queue: [`Connection::interrupt`] says which commands failed by that, and
//! [`Connection::resume`] goes on with the others on another connection. Sent again is what was never sent, and what
//! changes nothing. A write whose answer is not known is neither: the old one may yet be carried out, after a newer. A
//! connection that [gives back](Connection::give_back) keeps nothing: there are others for what it had.

mod outbox;
mod table;

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::time::Instant;

use byway_core::{Error, ErrorKind, Memory, Payload, Retry};
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::{Completion, Status};
use byway_tcp_codec::{
    Agreement, C2hData, C2hEnd, CommandId, ControllerPdu, DataCheck, HostPdu, IcReq, Inbound, Incoming,
    Offer, Opening, Outbound, Reader, ReadyToTransfer, TermReq, Violation, Writer,
};

use outbox::{Left, Outbox, for_each_part, part_at_mut, with_parts};
use table::{Slot, State, Table};

pub use outbox::GATHERED_MAX;
pub use table::{Ended, Lost, Order, Way};

/// What is received at a time where it does not belong yet: headers, answers, small data.
const INBOX_BYTES: usize = 64 << 10;

/// The same while large data is on its way, which would be copied from there.
const INBOX_BYTES_FOR_LARGE: usize = 4 << 10;

/// Data from this size on is large.
const LARGE_BYTES: usize = 32 << 10;

/// Data up to this size is copied behind its header; more is sent from where it lies.
const COPIED_BYTES_MAX: usize = 8 << 10;

/// On how many connections a command is tried.
const TRIES_MAX: u8 = 3;

/// Data that is being received.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    cid: u16,
    at: usize,
    end: C2hEnd,
}

/// One queue on one connection.
#[derive(Debug)]
pub struct Connection {
    agreed: Agreement,
    reader: Reader<ControllerPdu>,
    writer: Writer<HostPdu>,
    table: Table,
    outbox: Outbox,
    inbox: Box<[u8]>,
    arriving: Option<Arriving>,
    /// Reads of large data on their way.
    large: u32,
    ended: VecDeque<Ended>,
    capsule_data_bytes: usize,
    is_open: bool,
    /// Commands do not wait for another connection.
    gives_back: bool,
}

impl Connection {
    /// Of a queue that waits for its first connection.
    pub fn awaited(depth: u32) -> Self {
        let agreed = IcReq::default().answer(&Offer::default()).1;
        Self { is_open: false, ..Self::new(agreed, depth, 0) }
    }

    /// On a connection that was agreed on, for so many commands at once, each with at most so much in-capsule data.
    pub fn new(agreed: Agreement, depth: u32, capsule_data_bytes: usize) -> Self {
        Self {
            agreed,
            reader: Reader::<Opening>::new().open(&agreed),
            writer: Writer::<HostPdu>::new(&agreed),
            table: Table::new(depth),
            outbox: Outbox::default(),
            inbox: vec![0; INBOX_BYTES].into(),
            arriving: None,
            large: 0,
            ended: VecDeque::with_capacity(depth as usize),
            capsule_data_bytes,
            is_open: true,
            gives_back: false,
        }
    }

    /// From here on every command ends with its connection, whether it could be sent again or not.
    pub fn give_back(&mut self) {
        self.gives_back = true;
    }

    /// What in-capsule data a command may have, once the controller told.
    pub fn set_capsule_data_bytes(&mut self, bytes: usize) {
        self.capsule_data_bytes = bytes;
    }

    /// Commands whose end was not taken yet.
    pub fn outstanding(&self) -> u32 {
        self.table.busy() + self.ended.len() as u32
    }

    /// Whether the connection stands.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether identifiers are left for so many commands more.
    #[inline]
    pub fn has_room(&self, commands: usize) -> bool {
        self.table.has_room(commands)
    }

    /// Takes a command; its identifier, or the data again where no identifier is left. Without a connection it waits
    /// for one.
    ///
    /// # Errors
    /// The payload, where all identifiers are taken.
    pub fn begin(&mut self, order: Order, payload: Payload) -> Result<u16, Payload> {
        let Some(cid) = self.table.take() else { return Err(payload) };
        let fits = order.way != Way::Out || payload.len() <= self.capsule_data_bytes;
        match payload {
            // Bytes in the command itself are nobody's to give back.
            Payload::Small(small) if self.is_open && fits && order.way == Way::Out => {
                self.put(cid, order, Memory::Empty);
                self.send_capsule(cid, &[small.as_slice()]);
            }
            payload => {
                self.put(cid, order, payload.into());
                if self.is_open {
                    self.send(cid);
                }
            }
        }
        Ok(cid)
    }

    fn put(&mut self, cid: u16, order: Order, memory: Memory) {
        if let Some(slot) = self.table.get_mut(cid) {
            (slot.order, slot.memory, slot.state) = (Some(order), memory, State::Kept);
        }
    }

    /// Sends a command whose data stands in its memory.
    fn send(&mut self, cid: u16) {
        let Some(slot) = self.table.get_mut(cid) else { return };
        let (way, bytes) = (slot.way(), slot.memory.len());
        if way != Way::Out || bytes > self.capsule_data_bytes {
            return self.send_bare(cid, way, bytes);
        }
        if bytes > COPIED_BYTES_MAX {
            return self.send_lent_capsule(cid, bytes);
        }
        let memory = std::mem::take(&mut slot.memory);
        with_parts(&memory, 0..bytes, |parts| self.send_capsule(cid, parts));
        if let Some(slot) = self.table.get_mut(cid) {
            (slot.memory, slot.is_spent) = (memory, false);
        }
    }

    /// A capsule with `data`, copied.
    fn send_capsule(&mut self, cid: u16, data: &[&[u8]]) {
        let at = self.outbox.next_at();
        let Some(slot) = self.table.get_mut(cid) else { return };
        let bytes = data.iter().map(|part| part.len()).sum::<usize>();
        let Some(entry) = slot.leave(cid, at, descriptor_of(Way::Out, bytes, true)) else { return };
        slot.is_spent = true;
        let frame = self.writer.command(&entry, data);
        self.outbox.stage(|out| frame.append_to(out));
    }

    /// A capsule whose data is sent from where it lies.
    fn send_lent_capsule(&mut self, cid: u16, bytes: usize) {
        let at = self.outbox.next_at();
        let Some(slot) = self.table.get_mut(cid) else { return };
        let Some(entry) = slot.leave(cid, at, descriptor_of(Way::Out, bytes, true)) else { return };
        let (writer, outbox) = (self.writer, &mut self.outbox);
        with_parts(&slot.memory, 0..bytes, |parts| {
            outbox.lend_framed(&writer.command(&entry, parts), cid, 0..bytes, false);
        });
        slot.unsent += 1;
    }

    /// A capsule without data: it has none, or it comes or goes later.
    fn send_bare(&mut self, cid: u16, way: Way, bytes: usize) {
        let at = self.outbox.next_at();
        let Some(slot) = self.table.get_mut(cid) else { return };
        let Some(entry) = slot.leave(cid, at, descriptor_of(way, bytes, false)) else { return };
        match way {
            Way::In => slot.inbound = Some(Inbound::new(bytes as u32)),
            Way::Out => slot.outbound = Some(Outbound::new(bytes as u32)),
            Way::None => {}
        }
        self.large += u32::from(way == Way::In && bytes >= LARGE_BYTES);
        let frame = self.writer.command(&entry, &[]);
        self.outbox.stage(|out| frame.append_to(out));
    }

    /// Bytes that wait to be sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.outbox.len()
    }

    /// All that waits to be sent, where it stands in one place.
    #[inline]
    pub fn unsent_in_one_place(&self) -> Option<&[u8]> {
        self.outbox.in_one_place()
    }

    /// Gathers what is next to be sent, as much as one system call takes; says how many pieces.
    pub fn gather<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        self.outbox.gather(&self.table, into)
    }

    /// So much of it was sent.
    pub fn sent(&mut self, bytes: usize) {
        let (table, ended, large) = (&mut self.table, &mut self.ended, &mut self.large);
        self.outbox.sent(bytes, |Left { cid, ends_grant }| {
            let Some(slot) = table.get_mut(cid) else { return };
            slot.unsent = slot.unsent.saturating_sub(1);
            if ends_grant && let Some(outbound) = &mut slot.outbound {
                outbound.sent();
            }
            if slot.unsent == 0
                && let Some(answer) = slot.answer.take()
            {
                end(table, ended, large, cid, Ok(answer), None);
            }
        });
    }

    /// Where what comes next is to be received: the rest of the data that is on its way, and behind it the connection's own
    /// memory.
    pub fn room(&mut self) -> [IoSliceMut<'_>; 2] {
        let left = self.reader.data_left_bytes() as usize;
        let own = match self.large {
            0 => &mut *self.inbox,
            _ => self.inbox.get_mut(..INBOX_BYTES_FOR_LARGE).unwrap_or_default(),
        };
        let direct = match &self.arriving {
            Some(arriving) => direct_room(&mut self.table, arriving, left),
            None => &mut [],
        };
        // More of the same data, elsewhere, is not received into the connection's memory.
        let own = if direct.len() < left && !direct.is_empty() { &mut [] } else { own };
        [IoSliceMut::new(direct), IoSliceMut::new(own)]
    }

    /// So much was received there.
    ///
    /// # Errors
    /// When the controller broke a rule, or gave the connection up: what says so to it is to be sent, as far as it can be,
    /// and the connection closed.
    pub fn received(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.reader.data_left_bytes() as usize;
        let direct = match &self.arriving {
            Some(arriving) => direct_room(&mut self.table, arriving, left).len().min(bytes),
            None => 0,
        };
        let inbox = std::mem::take(&mut self.inbox);
        let behind = inbox.get(..bytes - direct).unwrap_or_default();
        let read = self.read_in_place(direct).and_then(|()| self.read(behind));
        self.inbox = inbox;
        read
    }

    /// Has data read that was received where it belongs.
    fn read_in_place(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(arriving) = self.arriving.filter(|_| bytes > 0) else { return Ok(()) };
        let Some(slot) = self.table.get_mut(arriving.cid) else { return Ok(()) };
        let memory = std::mem::take(&mut slot.memory);
        let mut result = Ok(());
        for_each_part(&memory, arriving.at..arriving.at + bytes, |mut piece| {
            while let (Ok(()), false) = (&result, piece.is_empty()) {
                result = self.reader.next(&mut piece).map(drop).map_err(|violation| self.refuse(&violation));
            }
        });
        if let Some(slot) = self.table.get_mut(arriving.cid) {
            slot.memory = memory;
        }
        self.arriving = Some(Arriving { at: arriving.at + bytes, ..arriving });
        result?;
        // Without a digest, all of the data is out, and its end is known with no byte more.
        if self.reader.data_left_bytes() == 0 { self.read(&[]) } else { Ok(()) }
    }

    fn read(&mut self, mut input: &[u8]) -> Result<(), Error> {
        loop {
            match self.reader.next(&mut input) {
                Ok(None) => return Ok(()),
                Ok(Some(Incoming::Data(piece))) => self.copy_in(piece),
                Ok(Some(incoming)) => {
                    let taken = match incoming {
                        Incoming::Pdu { pdu, data_bytes } => self.take_pdu(pdu, data_bytes),
                        Incoming::End(check) => self.take_end(check),
                        Incoming::Data(_) => Ok(()),
                    };
                    taken.map_err(|violation| self.refuse(&violation))?;
                    if !self.is_open {
                        return Err(given_up_by_controller(incoming));
                    }
                }
                Err(violation) => return Err(self.refuse(&violation)),
            }
        }
    }

    fn take_pdu(&mut self, pdu: ControllerPdu, data_bytes: u32) -> Result<(), Violation> {
        match pdu {
            ControllerPdu::Response(completion) => self.answered(CommandId(completion.cid), completion),
            ControllerPdu::Data(data) => self.expect_data(&data, data_bytes),
            ControllerPdu::ReadyToTransfer(asked) => self.grant(&asked),
            ControllerPdu::Terminate(_) => {
                self.is_open = false;
                Ok(())
            }
        }
    }

    fn expect_data(&mut self, data: &C2hData, data_bytes: u32) -> Result<(), Violation> {
        let slot = self.table.spoken_of(data.command)?;
        let inbound = slot.inbound.as_mut().ok_or(Violation::UnknownCommand(data.command))?;
        let range = inbound.accept(data, data_bytes)?;
        self.arriving = Some(Arriving { cid: data.command.0, at: range.start as usize, end: data.end });
        Ok(())
    }

    fn copy_in(&mut self, mut piece: &[u8]) {
        let Some(arriving) = &mut self.arriving else { return };
        let Some(slot) = self.table.get_mut(arriving.cid) else { return };
        while !piece.is_empty() {
            let room = part_at_mut(&mut slot.memory, arriving.at);
            let (here, rest) = piece.split_at(piece.len().min(room.len()));
            let Some(room) = room.get_mut(..here.len()).filter(|room| !room.is_empty()) else { return };
            room.copy_from_slice(here);
            arriving.at += here.len();
            piece = rest;
        }
    }

    fn take_end(&mut self, check: DataCheck) -> Result<(), Violation> {
        let Some(arriving) = self.arriving.take() else { return Ok(()) };
        let command = CommandId(arriving.cid);
        if let DataCheck::Corrupt { .. } = check {
            self.table.spoken_of(command)?.is_corrupt = true;
        }
        match arriving.end {
            C2hEnd::Success => self.answered(command, Completion::new(0, 0, command.0, Status::SUCCESS)),
            C2hEnd::More | C2hEnd::Response => Ok(()),
        }
    }

    fn answered(&mut self, command: CommandId, completion: Completion) -> Result<(), Violation> {
        let slot = self.table.spoken_of(command)?;
        if slot.unsent > 0 {
            // Its data is still being sent from its memory.
            slot.answer = Some(completion);
            return Ok(());
        }
        end(&mut self.table, &mut self.ended, &mut self.large, command.0, Ok(completion), None);
        Ok(())
    }

    /// Sends what an R2T asks for.
    fn grant(&mut self, asked: &ReadyToTransfer) -> Result<(), Violation> {
        let slot = self.table.spoken_of(asked.command)?;
        let outbound = slot.outbound.as_mut().ok_or(Violation::UnknownCommand(asked.command))?;
        let grant = outbound.accept(asked, &self.agreed)?;
        for (data, range) in grant {
            let range = range.start as usize..range.end as usize;
            let (writer, outbox) = (self.writer, &mut self.outbox);
            with_parts(&slot.memory, range.clone(), |parts| {
                outbox.lend_framed(&writer.data(&data, parts), asked.command.0, range, data.last);
            });
            slot.unsent += 1;
        }
        Ok(())
    }

    /// Says to the controller which rule it broke, as the last thing that is sent.
    fn refuse(&mut self, violation: &Violation) -> Error {
        self.is_open = false;
        let reader = &mut self.reader;
        self.outbox.stage(|out| reader.refuse(violation, out));
        Error::device(ErrorKind::Protocol, format!("the controller broke a rule of NVMe/TCP: {violation}"))
    }

    /// The next command that has ended.
    pub fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Whether a command has ended.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }
}

/// Commands that are given up, and connections that end.
impl Connection {
    /// Gives a command a time until which it may take.
    pub fn set_until(&mut self, cid: u16, until: Instant) {
        if let Some(slot) = self.table.get_mut(cid) {
            slot.until = Some(until);
        }
    }

    /// The earliest of these times.
    pub fn first_until(&self) -> Option<Instant> {
        self.table.first_until()
    }

    /// The command, or the call, with this tag.
    pub fn find(&self, tag: u64, is_call: bool) -> Option<u16> {
        let is = |order: &Order| order.tag == tag && order.is_call == is_call;
        self.table.find(|slot| slot.order.as_ref().is_some_and(is))
    }

    /// Whether a command that has this tag has ended and was not taken yet.
    pub fn has_ended_with(&self, tag: u64) -> bool {
        self.ended.iter().any(|ended| ended.tag == tag && !ended.is_call)
    }

    /// A command whose time is over, if there is one.
    pub fn overdue(&self, now: Instant) -> Option<u16> {
        self.table.find(|slot| slot.until.is_some_and(|until| until <= now))
    }

    /// Whether the command was given up before.
    pub fn is_given_up(&self, cid: u16) -> bool {
        self.table.get(cid).is_some_and(|slot| slot.given_up.is_some())
    }

    /// Gives a command up. Says whether the controller has to be told; else it has ended.
    pub fn give_up(&mut self, cid: u16, kind: ErrorKind, until: Option<Instant>) -> bool {
        let Some(slot) = self.table.get_mut(cid) else { return false };
        if slot.state == State::Kept {
            let said = match kind {
                ErrorKind::TimedOut => "its time was over while there was no connection",
                _ => "it was taken back while there was no connection",
            };
            self.end(cid, Err(Error::host(kind, said)), None);
            return false;
        }
        (slot.given_up, slot.until, slot.is_named) = (Some(kind), until, true);
        true
    }

    /// No Abort on its way names the command any more: its identifier can be another's once it has ended.
    pub fn unname(&mut self, cid: u16) {
        match self.table.get_mut(cid) {
            Some(slot) if slot.state != State::Free => slot.is_named = false,
            _ => self.table.restore(cid),
        }
    }

    /// The connection has ended, for this reason. What may be sent again waits for another; the rest has failed.
    pub fn interrupt(&mut self, why: &str) {
        self.is_open = false;
        for cid in self.table.in_turn() {
            self.interrupt_one(cid, why);
        }
        self.outbox.clear();
        (self.arriving, self.large) = (None, 0);
    }

    fn interrupt_one(&mut self, cid: u16, why: &str) {
        let Some(slot) = self.table.get_mut(cid) else { return };
        let State::Queued { at } = slot.state else { return };
        if let Some(answer) = slot.answer.take() {
            return self.end(cid, Ok(answer), None);
        }
        let lost = if self.outbox.has_sent(at) { Lost::Unanswered } else { Lost::Unsent };
        if let Some(kind) = slot.given_up {
            let said = format!("it was given up, and the connection ended before an answer came: {why}");
            return self.end(cid, Err(Error::device(kind, said)), Some(lost));
        }
        let repeats = slot.order.as_ref().is_some_and(|order| order.repeats);
        let can_be_sent = lost == Lost::Unsent && !slot.is_spent;
        if !self.gives_back && (can_be_sent || (repeats && slot.tries < TRIES_MAX)) {
            slot.state = State::Kept;
            (slot.unsent, slot.is_corrupt, slot.inbound, slot.outbound) = (0, false, None, None);
            return;
        }
        let said = format!("the connection ended before the command was answered: {why}");
        let error = Error::device(ErrorKind::DeviceLost, said).with_retry(Retry::Once);
        self.end(cid, Err(error), Some(lost));
    }

    /// Goes on with the commands that wait, on another connection, with as much in-capsule data as its controller takes.
    pub fn resume(&mut self, other: Self) {
        self.agreed = other.agreed;
        self.capsule_data_bytes = other.capsule_data_bytes;
        self.reader = other.reader;
        self.writer = other.writer;
        self.is_open = true;
        self.table.in_turn().into_iter().for_each(|cid| self.send(cid));
    }

    /// There will be no other connection: what waits has failed.
    pub fn abandon(&mut self, why: &str) {
        self.interrupt(why);
        for cid in self.table.in_turn() {
            self.end(cid, Err(Error::device(ErrorKind::DeviceLost, why.to_owned())), Some(Lost::Unsent));
        }
    }

    fn end(&mut self, cid: u16, result: Result<Completion, Error>, lost: Option<Lost>) {
        end(&mut self.table, &mut self.ended, &mut self.large, cid, result, lost);
    }
}

impl Slot {
    fn way(&self) -> Way {
        self.order.as_ref().map_or(Way::None, |order| order.way)
    }

    /// The entry as it goes on the wire, at this byte.
    fn leave(&mut self, cid: u16, at: u64, descriptor: SglDescriptor) -> Option<byway_spec::Command> {
        let mut entry = self.order.as_ref()?.entry;
        entry.cdw0.set_cid(cid);
        entry.set_sgl1(descriptor);
        self.state = State::Queued { at };
        self.tries += 1;
        Some(entry)
    }

    /// Data came that is not what its digest is of, or less of it than the command reads.
    fn wrong(&self) -> Option<Error> {
        if self.is_corrupt {
            return Some(Error::status(Status::TRANSIENT_TRANSPORT_ERROR));
        }
        let (order, inbound) = (self.order.as_ref()?, self.inbound.as_ref()?);
        let (came, wanted) = (inbound.received_bytes() as usize, self.memory.len());
        (order.is_whole && came < wanted).then(|| {
            let said = format!("the controller answered with success and {came} of {wanted} bytes");
            Error::device(ErrorKind::Protocol, said)
        })
    }
}

/// Ends a command: its place is free, unless an Abort that is on its way names it.
fn end(
    table: &mut Table,
    ended: &mut VecDeque<Ended>,
    large: &mut u32,
    cid: u16,
    result: Result<Completion, Error>,
    lost: Option<Lost>,
) {
    let is_named = table.get(cid).is_some_and(|slot| slot.is_named);
    let slot = table.release(cid, is_named);
    let was_large = slot.inbound.is_some() && slot.memory.len() >= LARGE_BYTES;
    *large = large.saturating_sub(u32::from(was_large));
    let wrong = match &result {
        Ok(completion) if completion.status().is_success() => slot.wrong(),
        _ => None,
    };
    let result = wrong.map_or(result, Err);
    let result = match (slot.given_up, result) {
        (Some(kind), Ok(completion)) if !completion.status().is_success() => {
            Err(given_up(kind).with_source(Error::status(completion.status())))
        }
        (_, result) => result,
    };
    let (tag, is_call) = slot.order.map_or((0, false), |order| (order.tag, order.is_call));
    ended.push_back(Ended { tag, is_call, memory: slot.memory, result, lost, commands: 1 });
}

#[cold]
fn given_up(kind: ErrorKind) -> Error {
    let said = match kind {
        ErrorKind::TimedOut => "not done within the time that it was given",
        _ => "it was taken back",
    };
    Error::device(kind, said)
}

#[cold]
fn given_up_by_controller(incoming: Incoming<'_, ControllerPdu>) -> Error {
    let said = match incoming {
        Incoming::Pdu { pdu: ControllerPdu::Terminate(TermReq { status, information }), .. } => {
            format!("the controller gave the connection up: {status}, field {information}")
        }
        _ => "the controller gave the connection up".to_owned(),
    };
    Error::device(ErrorKind::DeviceLost, said)
}

fn descriptor_of(way: Way, bytes: usize, in_capsule: bool) -> SglDescriptor {
    match (way, in_capsule && bytes > 0) {
        (Way::Out, true) => SglDescriptor::inline(bytes as u32),
        _ => SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes as u32),
    }
}

/// Where the rest of the data that is on its way belongs, as far as that is one place.
fn direct_room<'a>(table: &'a mut Table, arriving: &Arriving, left: usize) -> &'a mut [u8] {
    let Some(slot) = table.get_mut(arriving.cid) else { return &mut [] };
    let room = part_at_mut(&mut slot.memory, arriving.at);
    let bytes = room.len().min(left);
    room.get_mut(..bytes).unwrap_or_default()
}
