//! One queue on one connection, sans-I/O: commands in, bytes out; bytes in, answers out.
//!
//! The socket's owner sends the bytes of [`Connection::gather`], and receives into [`Connection::room`]: read data is received
//! directly into the command's buffer. Nothing here blocks, and only a queue's first commands allocate.
//!
//! A queue outlives its connection: [`Connection::interrupt`] fails the commands that cannot be sent again, and
//! [`Connection::resume`] continues with the others on the next connection: those that were never sent, and those that change
//! nothing. A write without an answer is not sent again: the controller may still execute the old one, after a newer write.
//! A connection that [gives back](Connection::give_back) keeps no commands: other paths take them.
//!
//! A controller may come back with less depth than the queue has: commands beyond it are deferred (`deferred.rs`).

mod deferred;
mod ending;
mod outbox;
mod receiving;
mod table;

use std::collections::VecDeque;
use std::io::IoSlice;

use byway_core::{Memory, Payload};
use byway_nvme_tcp::{
    Agreement, C2hEnd, ControllerPdu, HostPdu, IcReq, Inbound, Offer, Opening, Outbound, Reader, Writer,
};
use byway_spec::base::sgl::{SglDescriptor, SglKind};

use ending::end;
use outbox::{Left, Outbox, with_parts};
use table::{Slot, State, Table};

pub use outbox::GATHERED_MAX;
pub use table::{Ended, Lost, Order, Way};

/// What is received at a time where it does not belong yet: headers, answers, small data.
const INBOX_BYTES: usize = 64 << 10;

/// Data from this size on is large.
const LARGE_BYTES: usize = 32 << 10;

/// Data up to this size is copied behind its header; more is sent from where it lies.
const COPIED_BYTES_MAX: usize = 8 << 10;

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
    /// Commands that the controller of this connection takes at once.
    depth: u32,
    /// Commands beyond that, in the order of submission: each is sent when one before it has ended.
    deferred: VecDeque<u16>,
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
            depth,
            deferred: VecDeque::new(),
            capsule_data_bytes,
            is_open: true,
            gives_back: false,
        }
    }

    /// From here on every command ends with its connection, whether it could be sent again or not.
    pub fn give_back(&mut self) {
        self.gives_back = true;
    }

    /// In-capsule data that a command may have, once the controller has announced it.
    pub fn set_capsule_data_bytes(&mut self, bytes: usize) {
        self.capsule_data_bytes = bytes;
    }

    /// Commands whose end was not taken yet.
    pub fn outstanding(&self) -> u32 {
        self.table.busy() + self.ended.len() as u32
    }

    /// Whether the connection is open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether identifiers for `commands` more commands are free.
    #[inline]
    pub fn has_room(&self, commands: usize) -> bool {
        self.table.has_room(commands)
    }

    /// Takes a command; its identifier, or the data again where no identifier is left. Without a connection it waits
    /// for one, and beyond the depth of the connection for its turn.
    ///
    /// # Errors
    /// The payload, where all identifiers are taken.
    pub fn begin(&mut self, order: Order, payload: Payload) -> Result<u16, Payload> {
        let Some(cid) = self.table.take() else { return Err(payload) };
        if !self.is_open || !self.has_turn(&order) {
            self.put(cid, order, payload.into());
            self.defer(cid);
            return Ok(cid);
        }
        let fits = order.way.sent_bytes(payload.len()).is_none_or(|bytes| bytes <= self.capsule_data_bytes);
        match payload {
            // Bytes in the command itself are not given back.
            Payload::Small(small) if fits && order.way == Way::Out => {
                self.put(cid, order, Memory::Empty);
                self.send_capsule(cid, &[small.as_slice()]);
            }
            payload => {
                self.put(cid, order, payload.into());
                self.send(cid);
            }
        }
        Ok(cid)
    }

    fn put(&mut self, cid: u16, order: Order, memory: Memory) {
        if let Some(slot) = self.table.get_mut(cid) {
            (slot.order, slot.memory, slot.state) = (Some(order), memory, State::Kept);
        }
    }

    /// Sends a command with the data in its memory.
    fn send(&mut self, cid: u16) {
        let Some(slot) = self.table.get_mut(cid) else { return };
        let (way, bytes) = (slot.way(), slot.memory.len());
        let Some(sent) = way.sent_bytes(bytes).filter(|sent| *sent <= self.capsule_data_bytes) else {
            return self.send_bare(cid, way, bytes);
        };
        if sent > COPIED_BYTES_MAX {
            self.send_lent_capsule(cid, sent);
        } else {
            let memory = std::mem::take(&mut slot.memory);
            with_parts(&memory, 0..sent, |parts| self.send_capsule(cid, parts));
            if let Some(slot) = self.table.get_mut(cid) {
                (slot.memory, slot.is_spent) = (memory, false);
            }
        }
        if way.receives() {
            self.expect_reply(cid, bytes);
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
        slot.outbound = way.sent_bytes(bytes).map(|bytes| Outbound::new(bytes as u32));
        let frame = self.writer.command(&entry, &[]);
        self.outbox.stage(|out| frame.append_to(out));
        if way.receives() {
            self.expect_reply(cid, bytes);
        }
    }

    /// Data of at most `bytes` is to come.
    fn expect_reply(&mut self, cid: u16, bytes: usize) {
        let Some(slot) = self.table.get_mut(cid) else { return };
        slot.inbound = Some(Inbound::new(bytes as u32));
        self.large += u32::from(bytes >= LARGE_BYTES);
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
        if !self.deferred.is_empty() {
            self.send_deferred();
        }
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
}

fn descriptor_of(way: Way, bytes: usize, in_capsule: bool) -> SglDescriptor {
    match (way, in_capsule && bytes > 0) {
        (Way::Out, true) => SglDescriptor::inline(bytes as u32),
        _ => SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes as u32),
    }
}
