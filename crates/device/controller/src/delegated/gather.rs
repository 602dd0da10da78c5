//! Fetching the commands that a delegated queue carries, with their payloads.

use byway_queue::{CompletionPermit, DoorbellIndex, Doorbells};
use byway_spec::base::command::{COMMAND_BYTES, DataPointer};
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{self, VendorOpcode};
use byway_spec::{Command, Status};

use super::{
    BLOCKS_MAX_BYTES, DELEGATED_COMMANDS, DelegatedQueue, Gathering, ManyLookup, PAYLOAD_MAX_BYTES, Place,
    ROOM_BYTES, What, Work,
};
use crate::admin::BufferedPair;
use crate::counting::Counted;
use crate::data_pointer;
use crate::error::CommandError;
use crate::namespace::kv::{KvCommand, StoreIf, key};
use crate::namespace::nvm::Shape;
use crate::payload::HostData;
use crate::port::Port;
use crate::queue::FetchedCommand;
use crate::ticket::Ticket;
use crate::transfer::inline::{self, Capsule};

/// Why [`DelegatedQueue::gather`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathered {
    /// The queue is empty, or has no room to complete more.
    All,
    /// The queue may have more, once these are executed.
    Full,
    /// The command at the head of the queue is the controller's: the queue must be reclaimed.
    NotMine,
}

impl DelegatedQueue {
    /// Fetches the commands that the doorbells announce.
    pub fn gather(&mut self, port: &mut Port<'_>, doorbells: &Doorbells) -> Gathered {
        if self.take_tail(port, doorbells).is_none() {
            return Gathered::NotMine;
        }
        self.full_ring_ns += self.cq.blocked.take().unwrap_or(0);
        while self.sq.ring.available() > 0 {
            if self.gathered.len() == DELEGATED_COMMANDS || self.payload_end + PAYLOAD_MAX_BYTES > ROOM_BYTES
            {
                return Gathered::Full;
            }
            let Some(permit) = self.permit(port, doorbells) else {
                self.cq.blocked.set();
                return Gathered::All;
            };
            if let Err((permit, why)) = self.gather_one(port, doorbells, permit) {
                self.cq.ring.give_back(permit);
                return why;
            }
        }
        Gathered::All
    }

    /// Takes the host's tail. `None` for an invalid one, which the controller reports.
    #[inline]
    fn take_tail(&mut self, port: &mut Port<'_>, doorbells: &Doorbells) -> Option<()> {
        let index = DoorbellIndex::submission(self.qid);
        let Some(buffered) = &mut self.buffered else {
            return self.sq.ring.set_tail(doorbells.load(index)).ok().map(drop);
        };
        // The host may have unmapped the buffer: then its doorbells are lost.
        let tail = buffered.load(port, index).inspect_err(|_| self.broken = true).ok()?;
        self.sq.ring.set_tail(tail).ok()?;
        buffered.take(index, tail);
        Some(())
    }

    /// The right to post one completion.
    #[inline]
    fn permit(&mut self, port: &mut Port<'_>, doorbells: &Doorbells) -> Option<CompletionPermit> {
        let Self { qid, cq, buffered, .. } = self;
        cq.permit(|| load_head(port, doorbells, *qid, buffered))
    }

    /// Reads the host's head again, if there are too few entries known to be free for the results of gathered commands.
    #[inline]
    fn look_for_room(&mut self, port: &mut Port<'_>, doorbells: &Doorbells, command: &Command) {
        let asked_bytes = vendor::inline_result_max_bytes(command).min(command.cdw10 as usize);
        let max_bytes = asked_bytes.min(self.habits.result_max_bytes);
        if max_bytes > 0 {
            let Self { qid, sq, cq, buffered, result_entries, .. } = self;
            *result_entries += vendor::result_entries(max_bytes) as u32;
            let head = || load_head(port, doorbells, *qid, buffered);
            cq.room_for_result(*result_entries, sq.ring.available(), head);
        }
    }

    /// Fetches the command at the head, or leaves it there.
    #[inline]
    fn gather_one(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        permit: CompletionPermit,
    ) -> Result<(), (CompletionPermit, Gathered)> {
        let inline = self.habits.transfers.inline();
        // Read to where it stays: moving it right after the read would wait for store forwarding.
        let mut fetched = FetchedCommand { command: Command::default(), inline };
        if self.fetch(port, &mut fetched).is_none() {
            return Err((permit, Gathered::NotMine));
        }
        let slots = match self.slots_of(&fetched) {
            Ok(slots) if self.sq.ring.available() > slots => slots,
            slots => {
                self.sq.fetched = Some(fetched);
                return Err((permit, slots.map_or_else(|why| why, |_| Gathered::All)));
            }
        };
        let command = &fetched.command;
        let at = self.payload_end;
        let waits = self.many.is_gathered && command.opcode() == VendorOpcode::KV_RETRIEVE_MANY.0;
        if waits || !self.has_room_for(command) {
            self.sq.fetched = Some(fetched);
            return Err((permit, Gathered::Full));
        }
        if self.payloads.is_empty() {
            self.payloads = vec![0; ROOM_BYTES];
        }
        if slots > 0 {
            let into = &mut self.payloads[at..at + slots as usize * COMMAND_BYTES];
            if inline::fetch(port, &self.sq, into, slots, self.habits.chunk_burst).is_err() {
                self.sq.fetched = Some(fetched);
                return Err((permit, Gathered::NotMine));
            }
        }
        self.sq.ring.skip(1 + slots);
        self.look_for_room(port, doorbells, command);
        let ticket = Ticket { sqid: self.qid, cid: command.cid(), cqid: self.qid, permit };
        let inline_bytes = (slots > 0).then_some(command.sgl1().length_bytes as usize);
        let (work, result) = match self.prepare(port, command, inline_bytes) {
            Ok(work) => (work, Ok(0)),
            Err(error) => (Work::NOTHING, Err(error)),
        };
        let (counted, nsid) = (Counted::of(command, slots > 0), command.nsid);
        self.gathered.push(Gathering { ticket, counted, nsid, work, result, is_done: false });
        Ok(())
    }

    #[inline]
    fn fetch(&mut self, port: &mut Port<'_>, into: &mut FetchedCommand) -> Option<()> {
        if self.sq.fetched.is_some() {
            *into = self.sq.fetched.take()?;
        } else if let Some(inline) = self.sq.ahead.take(&mut into.command) {
            into.inline = inline;
        } else {
            port.read_command(self.sq.slot(self.sq.ring.head()), &mut into.command).ok()?;
        }
        Some(())
    }

    /// Slots of the payload that follows a command in its ring, if the queue carries such commands.
    fn slots_of(&self, fetched: &FetchedCommand) -> Result<u32, Gathered> {
        let command = &fetched.command;
        let capsule = inline::capsule(
            command,
            fetched.inline,
            self.habits.inline_max_bytes.min(PAYLOAD_MAX_BYTES),
            self.sq.ring.size(),
        );
        let has_sgl = capsule == Capsule::None && command.cdw0.psdt() != DataPointer::Prp;
        let is_mine = self.carries(command) && (self.habits.sgls || !has_sgl);
        match capsule {
            Capsule::None if is_mine => Ok(0),
            Capsule::Payload { bytes, slots }
                if is_mine && bytes > 0 && command.opcode() == KvOpcode::STORE.0 =>
            {
                Ok(slots)
            }
            _ => Err(Gathered::NotMine),
        }
    }

    /// The shape of the namespace of blocks that a command is for, if its commands are carried.
    #[inline]
    fn shape_of(&self, command: &Command) -> Option<Shape> {
        self.blocks.get(command.nsid.wrapping_sub(1) as usize)?.as_ref().map(|access| access.shape)
    }

    /// Whether there is room for the blocks that a command moves. Values have [`PAYLOAD_MAX_BYTES`] each.
    #[inline]
    fn has_room_for(&self, command: &Command) -> bool {
        let moved = self.shape_of(command).map_or(0, |shape| shape.moved_bytes(command) as usize);
        self.payload_end + moved <= ROOM_BYTES
    }

    #[inline]
    fn carries(&self, command: &Command) -> bool {
        let carried = match self.shape_of(command) {
            Some(shape) => self.carries_blocks(command, shape),
            None => self.carries_key(command),
        };
        carried && command.cdw0.fuse() == 0
    }

    /// Whether the profile moves whole pages for a command's data, which only the controller does.
    #[inline]
    fn is_by_page(&self, command: &Command) -> bool {
        self.habits.whole_page_prp && !command.cdw0.psdt().is_sgl()
    }

    #[inline]
    fn carries_blocks(&self, command: &Command, shape: Shape) -> bool {
        let is_short = shape.moved_bytes(command) <= BLOCKS_MAX_BYTES;
        match NvmOpcode(command.opcode()) {
            NvmOpcode::READ => is_short,
            NvmOpcode::WRITE => is_short && !self.is_by_page(command),
            _ => false,
        }
    }

    #[inline]
    fn carries_key(&self, command: &Command) -> bool {
        let nsid = command.nsid.wrapping_sub(1);
        let key_value = nsid < u64::BITS && self.habits.key_value & 1 << nsid != 0;
        let small = command.cdw10 as usize <= PAYLOAD_MAX_BYTES;
        let wanted = match command.opcode() {
            // The engine places longer values itself, straight from the link.
            opcode if opcode == KvOpcode::STORE.0 => {
                !self.is_by_page(command) && (command.cdw10 as usize) < data_pointer::PAGE_BYTES
            }
            opcode if opcode == KvOpcode::RETRIEVE.0 => small,
            opcode if opcode == VendorOpcode::KV_WRITE_PIGGYBACK.0 => {
                self.habits.transfers.enabled(byway_link::Method::Piggyback)
                    && command.cdw10 as usize <= vendor::WRITE_BYTES.min(self.habits.piggyback_max_bytes)
            }
            opcode if opcode == VendorOpcode::KV_RETRIEVE_MANY.0 => {
                self.habits.transfers.has_command(VendorOpcode::KV_RETRIEVE_MANY) && !self.is_by_page(command)
            }
            opcode => opcode == KvOpcode::DELETE.0 || opcode == KvOpcode::EXIST.0,
        };
        key_value && wanted
    }

    /// Parses a command and fetches its payload.
    #[inline]
    fn prepare(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
        inline_bytes: Option<usize>,
    ) -> Result<Work, CommandError> {
        if let Some(shape) = self.shape_of(command) {
            return self.prepare_blocks(port, command, shape, inline_bytes);
        }
        if command.opcode() == VendorOpcode::KV_WRITE_PIGGYBACK.0 {
            return self.prepare_piggybacked(command);
        }
        if command.opcode() == VendorOpcode::KV_RETRIEVE_MANY.0 {
            return self.prepare_get_many(port, command);
        }
        // `KvCommand::parse` for stores only: it would move a key out of an enum variant (see `Work`).
        let what = match KvOpcode(command.opcode()) {
            KvOpcode::RETRIEVE => return self.prepare_get(command),
            KvOpcode::DELETE => What::Delete,
            KvOpcode::EXIST => What::Exist,
            _ => return self.prepare_store(port, command, inline_bytes),
        };
        Ok(Work::new(what, key(command)?, Place::default(), StoreIf::Any))
    }

    #[inline]
    fn prepare_get(&mut self, command: &Command) -> Result<Work, CommandError> {
        let key = key(command)?;
        let into = self.take_room_to_send(command, command.cdw10 as usize);
        Ok(Work::new(What::Get, key, into, StoreIf::Any))
    }

    fn prepare_get_many(&mut self, port: &mut Port<'_>, command: &Command) -> Result<Work, CommandError> {
        let Self { many: ManyLookup { lookups, mapped, is_gathered }, room, .. } = self;
        lookups.receive(port, (mapped, &mut room.stage), command, None, false)?;
        *is_gathered = true;
        Ok(Work { what: What::GetMany, ..Work::NOTHING })
    }

    /// Checks which blocks a command moves, and fetches those that it writes.
    fn prepare_blocks(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
        shape: Shape,
        inline_bytes: Option<usize>,
    ) -> Result<Work, CommandError> {
        let range = shape.range_of(command)?;
        let bytes = range.len as usize;
        if command.opcode() == NvmOpcode::READ.0 {
            return Ok(Work::blocks(What::Read, range.at, self.take_room_to_send(command, bytes)));
        }
        let blocks = self.bring(port, command, bytes, inline_bytes)?;
        Ok(Work::blocks(What::Write, range.at, blocks))
    }

    fn prepare_store(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
        inline_bytes: Option<usize>,
    ) -> Result<Work, CommandError> {
        let KvCommand::Store { key, value_bytes, when } = KvCommand::parse(command)? else {
            return Err(CommandError::new(Status::INTERNAL_ERROR, "not a command of a delegated queue"));
        };
        let value = self.bring(port, command, value_bytes, inline_bytes)?;
        Ok(Work::new(What::Put, key, value, when))
    }

    #[inline]
    fn prepare_piggybacked(&mut self, command: &Command) -> Result<Work, CommandError> {
        // A new write drops an unfinished value of the queue.
        self.sq.assembly.clear();
        let key = key(command)?;
        let value = self.take_room(command.cdw10 as usize);
        let first = vendor::unpack_write(command);
        self.payloads[value.at..value.at + value.len].copy_from_slice(&first[..value.len]);
        Ok(Work::new(What::Put, key, value, StoreIf::Any))
    }

    /// Fetches the value of a store, or the blocks of a write. An inline payload is there already.
    #[inline]
    fn bring(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
        value_bytes: usize,
        inline_bytes: Option<usize>,
    ) -> Result<Place, CommandError> {
        if let Some(bytes) = inline_bytes {
            if bytes != value_bytes {
                return Err(CommandError::data_length(
                    "the inline payload is not as long as the command says",
                ));
            }
            return Ok(self.take_room(bytes));
        }
        let Place { at, len } = self.take_room(value_bytes);
        let Self { room, payloads, .. } = self;
        let data = data_pointer::map(port, &mut room.mapped, command, len, None, false)?;
        if let HostData::Mapped(_) = data {
            data.source(&mut room.stage).fill(port, &mut payloads[at..at + len])?;
        }
        Ok(Place { at, len })
    }

    /// Room for `len` bytes that are read and then sent to the command's buffer.
    #[inline]
    fn take_room_to_send(&mut self, command: &Command, len: usize) -> Place {
        if let Some(kept) = self.commands.get_mut(self.gathered.len()) {
            *kept = *command;
        }
        self.take_room(len)
    }

    /// Room for `len` bytes. It is there: [`PAYLOAD_MAX_BYTES`] are checked for each command that is gathered.
    fn take_room(&mut self, len: usize) -> Place {
        let at = self.payload_end;
        self.payload_end += len.next_multiple_of(COMMAND_BYTES);
        Place { at, len }
    }
}

/// The host's head of completion queue `qid`: from its register, or from host memory, where doorbells are.
fn load_head(
    port: &mut Port<'_>,
    doorbells: &Doorbells,
    qid: u16,
    buffered: &mut Option<BufferedPair>,
) -> Option<u32> {
    let index = DoorbellIndex::completion(qid);
    let Some(buffered) = buffered else { return Some(doorbells.load(index)) };
    let head = buffered.load(port, index).ok()?;
    buffered.take(index, head);
    Some(head)
}
